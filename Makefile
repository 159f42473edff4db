# Two commands do everything, set-up included: `make demo` and `make test`.
VENV   := .venv
PYTHON := $(VENV)/bin/python

ORDINARY := not soak and not frameworks

unexport PYTHONDONTWRITEBYTECODE  # or each of the many processes that tests start compiles all anew

.PHONY: demo test check lint types engine gpu bench dist lock site mutants soak test-frameworks clean

demo: $(VENV)/installed  ## train a small transformer on 2 nodes x 2 ranks, kill it, resume it
	$(PYTHON) examples/demo.py

test: lint types  ## what a person waits for: minutes
	$(PYTHON) -m pytest -n 3 --dist loadfile --no-loadscope-reorder -m "not slow and $(ORDINARY)" tests

check: $(VENV)/installed  ## all else that has to be green before a change lands
	$(PYTHON) -m pytest -n 2 --dist loadfile --no-loadscope-reorder -m "slow and $(ORDINARY)"

lint: $(VENV)/installed
	$(VENV)/bin/ruff check .
	$(VENV)/bin/ruff format --check .

types: $(VENV)/installed
	$(VENV)/bin/mypy

engine:  ## as root, on Debian: the engine, registry and userland that tests/containers and tests/machine need
	apt-get update -qq
	DEBIAN_FRONTEND=noninteractive apt-get install -y -qq --no-install-recommends \
		podman runc conmon catatonit netavark aardvark-dns docker-registry mmdebstrap iproute2
	emulator/scripts/userland || echo "no userland could be made: the tests of machines say so and are skipped"

gpu: export PYTHONPATH := $(CURDIR)
gpu:  ## on a machine with GPUs, by a Python whose torch can use them: PYTHON=python3
	$(PYTHON) -m pytest -v -p no:cacheprovider tests/gpu
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

mutants: .venv-mutants/installed $(VENV)/installed  ## how many mutants the quick tests catch; FOLDERS=planning SAMPLE=40 SEED=1
	.venv-mutants/bin/python tests/mutants/run.py $(FOLDERS) --sample $(or $(SAMPLE),25) --seed $(or $(SEED),1)

lock:  ## the locks anew, from PyPI
	locks/lock

soak: $(VENV)/installed  ## the long laws; SEEDS=10000 schedules at its end
	$(PYTHON) -m pytest -n 3 -m soak --timeout 3600
	$(PYTHON) -m tests.simulation --seeds 0:$(or $(SEEDS),10000)

test-frameworks: .venv-frameworks/installed  ## scripts of four frameworks, unedited
	.venv-frameworks/bin/python -m pytest -m frameworks tests/frameworks

LOCKS := $(wildcard locks/*)

$(VENV)/installed: pyproject.toml emulator/pyproject.toml $(LOCKS)
	python3 -m venv $(VENV)
	locks/install $(PYTHON)
	touch $@

.venv-frameworks/installed: pyproject.toml emulator/pyproject.toml $(LOCKS)
	python3 -m venv .venv-frameworks
	locks/install .venv-frameworks/bin/python
	.venv-frameworks/bin/python -m pip install --quiet --disable-pip-version-check lightning accelerate transformers deepspeed
	touch $@

.venv-mutants/installed:
	python3 -m venv .venv-mutants
	.venv-mutants/bin/python -m pip install --quiet --disable-pip-version-check 'cosmic-ray>=8.4'
	touch $@

.venv-site/installed: pyproject.toml
	python3 -m venv .venv-site
	.venv-site/bin/python -m pip install --quiet --disable-pip-version-check -e '.[docs]'
	touch $@

clean:
	rm -rf $(VENV) .venv-frameworks .venv-site .venv-mutants build dist site demo-output
