# Two commands do everything, set-up included: `make demo` and `make test`.
VENV   := .venv
PYTHON := $(VENV)/bin/python
# Three at once on two cores: tests wait about as long as they compute.
PYTEST := $(PYTHON) -m pytest -n 3 --dist worksteal

unexport PYTHONDONTWRITEBYTECODE  # or each of the many processes that tests start compiles all anew

.PHONY: demo test check machines soak gpu lint types engine bench dist lock site clean

demo: $(or $(wildcard $(VENV)/installed),$(VENV)/demo)  ## train a small transformer on 2 nodes x 2 ranks, kill it, resume it
	$(PYTHON) -m gputrain demo

test: lint types  ## what a person waits for
	$(PYTEST) -m "not check and not machines and not soak and not gpu" tests

check: $(VENV)/installed  ## all else that has to be green before a change lands
	$(PYTEST) -m check

machines: $(VENV)/installed  ## jobs in containers and on machines that boot; `make engine` installs what they need
	$(PYTEST) -m machines tests/machines tests/contract emulator/tests/machines

soak: $(VENV)/installed .venv-frameworks/installed  ## before a release; SEEDS=10000 schedules at its end
	$(PYTEST) -m soak --timeout 3600
	.venv-frameworks/bin/python -m pytest -m "soak or check" tests/soak/frameworks tests/contract/check/test_trackers.py
	$(PYTHON) -m tests.simulation --seeds 0:$(or $(SEEDS),10000)

lint: $(VENV)/installed
	$(VENV)/bin/ruff check .
	$(VENV)/bin/ruff format --check .

types: $(VENV)/installed
	$(VENV)/bin/mypy

engine:  ## as root, on Debian: the engine, registry and userland that `make machines` needs
	apt-get update -qq
	DEBIAN_FRONTEND=noninteractive apt-get install -y -qq --no-install-recommends \
		podman runc conmon catatonit netavark aardvark-dns docker-registry mmdebstrap iproute2
	emulator/scripts/userland && tests/machines/containers/userland \
		|| echo "no userland could be made: the tests of machines say so and are skipped"

gpu: export PYTHONPATH := $(CURDIR)
gpu:  ## on a machine with GPUs, by a Python whose torch can use them: PYTHON=python3
	$(PYTHON) -m pytest -v -p no:cacheprovider -m gpu tests/gpu
	$(PYTHON) benchmarks/run.py --notes gpu

bench: $(VENV)/installed  ## the numbers we hold ourselves to, beside their targets
	$(PYTHON) benchmarks/run.py

dist: $(VENV)/installed  ## the wheels of a release, and the bill of materials that goes with them
	rm -rf dist
	$(PYTHON) -m hatchling build -d dist
	cd emulator && ../$(PYTHON) -m hatchling build -d ../dist
	$(PYTHON) locks/materials.py > dist/gputrain.cdx.json

site: .venv-site/installed  ## the docs as a searchable site, in site/; a warning is an error
	.venv-site/bin/python -m sphinx -q -W --keep-going -b html docs site

lock:  ## the locks anew, from PyPI
	locks/lock

LOCKS := $(wildcard locks/*)

$(VENV)/demo: pyproject.toml $(LOCKS)
	python3 -m venv $(VENV)
	locks/install $(PYTHON) demo
	touch $@

$(VENV)/installed: pyproject.toml emulator/pyproject.toml $(LOCKS)
	python3 -m venv $(VENV)
	locks/install $(PYTHON)
	touch $@

.venv-frameworks/installed: pyproject.toml emulator/pyproject.toml $(LOCKS)
	python3 -m venv .venv-frameworks
	locks/install .venv-frameworks/bin/python
	.venv-frameworks/bin/python -m pip install --quiet --disable-pip-version-check lightning accelerate transformers deepspeed wandb mlflow-skinny
	touch $@

.venv-site/installed: pyproject.toml
	python3 -m venv .venv-site
	.venv-site/bin/python -m pip install --quiet --disable-pip-version-check -e '.[docs]'
	touch $@

clean:
	rm -rf $(VENV) .venv-frameworks .venv-site build dist site demo-output
