"""What type checkers say of users' code."""

import json
import subprocess
import sys
import tempfile
from importlib.util import find_spec
from pathlib import Path

import pytest

HERE = Path(__file__).parents[3]
PYRIGHTS = ("basedpyright", "pyright")
"""The first brings its own node along; the second fetches it at its first run."""

STRICT = {"typeCheckingMode": "strict", "enableTypeIgnoreComments": True}
"""The same for both, whose defaults differ."""

GOOD = """
from datetime import timedelta
from pathlib import Path

from gputrain import ComputeEngine, Local, ProvisioningModel, Trainer, TrainingSpec, VertexAI

here = Local()
there = VertexAI("my-project", "us-central1", bucket="gs://b-1")
vms = ComputeEngine("my-project", regions=["us-central1"], bucket="gs://b-1")
for trainer in (Trainer(here), Trainer(there), Trainer(vms), Trainer([there, vms, here])):
    job = trainer.submit("train.py", gpu="L4:1")
    print(job.wait(), job.cost_usd, [one.name for one in trainer.orphans()])
mine = [there, vms]
TrainingSpec(script=Path("train.py"), requirements=Path("requirements.txt"), launcher="none")
spec = TrainingSpec(command=["python3", "t.py"], gpu=["H100:2", 2], provisioning_model=["spot", "standard"])
Trainer(here).plan(spec.replace(max_run_duration=timedelta(1)), provisioning_model=ProvisioningModel.SPOT)
Trainer(here).submit(Path("train.py"), source_dir=Path("."), max_wait_duration="2h").wait("90m")
Trainer(here).run("train.py", idempotency_key="monday", progress="plain", max_cost=2)
scan = Trainer(mine).map(Path("train.py"), [{"lr": 0.1}], name="scan", gpu="L4:1", num_nodes=2)
scan.wait("2h").retry_failed()
"""
BAD = {
    "Trainer('local')": "a name",
    "Trainer(VertexAI)": "a class",
    "Trainer([Local(), 7])": "a number",
    "Trainer(Local()).orphans()[0].zone": "a field that is not there",
    "VertexAI('p', nodes=2)": "an argument that is not there",
    "Trainer().plan('train.py', gpus='L4:1')": "a misspelt field",
    "Trainer().submit('train.py', num_node=2)": "another",
    "Trainer().run('train.py', max_costs=1)": "another",
    "Trainer().doctor('train.py', provisioning_models='spot')": "another",
    "TrainingSpec(scirpt='train.py')": "another",
    "TrainingSpec(script='train.py').replace(gpu_count=2)": "another",
    "Trainer().submit('train.py', num_nodes='2')": "a field of another type",
    "Trainer().submit('train.py', provisioning_model='sopt')": "a word that is none",
    "Trainer().submit('train.py', launcher='mpirun')": "another",
    "Trainer().quotas('L4:1', provisioning_model='on-demand')": "another",
    "Trainer().run('train.py', progress='loud')": "another",
    "Trainer().map('train.py', [{'lr': 1}], name='scan', num_node=2)": "a misspelt field",
    "Trainer().map('train.py', [{'lr': 1}], name='scan', launcher='mpirun')": "a word that is none",
    "Trainer().map('train.py', [{'lr': 1}], name='scan').best('loss', mode='least')": "another",
}


@pytest.fixture(scope="module")
def cache(tmp_path_factory):
    """A folder that no other process writes into, as two mypys with one cache trip over each other."""
    return tmp_path_factory.mktemp("mypy")


def mypy(cache, *paths):
    words = [sys.executable, "-m", "mypy", "--strict", "--no-error-summary", *map(str, paths)]
    words += ["--cache-dir", str(cache)]
    return subprocess.run(words, cwd=HERE, capture_output=True, text=True, timeout=280)


def pyright(_, *paths):
    for name in PYRIGHTS:
        if find_spec(name) is None:
            continue
        with tempfile.TemporaryDirectory() as folder:
            project = Path(folder) / "pyrightconfig.json"
            project.write_text(json.dumps({"include": [str(path) for path in paths], **STRICT}))
            words = [sys.executable, "-m", name, "--project", str(project), "--level", "error"]
            words += ["--pythonpath", sys.executable]
            done = subprocess.run(words, cwd=HERE, capture_output=True, text=True, timeout=280)
        if done.returncode in (0, 1):  # it ran, and found nothing or something
            return done
    pytest.skip("neither basedpyright nor pyright can run here")


@pytest.fixture
def users(tmp_path):
    """Writes a user's file and gives its path."""

    def write(text):
        path = tmp_path / "users.py"
        path.write_text(text)
        return path

    return write


@pytest.mark.parametrize("checker", [mypy, pyright], ids=["mypy", "pyright"])
def test_a_type_checker_agrees_with_the_whole_face(checker, cache):
    done = checker(cache, *sorted((HERE / "tests" / "typing").glob("*.py")))
    assert done.returncode == 0, done.stdout + done.stderr


@pytest.mark.parametrize("checker", [mypy, pyright], ids=["mypy", "pyright"])
def test_a_type_checker_takes_what_users_write(checker, users, cache):
    done = checker(cache, users(GOOD))
    assert done.returncode == 0, done.stdout + done.stderr


@pytest.mark.parametrize("checker", [mypy, pyright], ids=["mypy", "pyright"])
def test_a_type_checker_refuses_what_would_be_refused_when_it_runs(checker, users, cache):
    path = users(
        "from gputrain import Local, Trainer, TrainingSpec, VertexAI\n" + "".join(f"{one}\n" for one in BAD)
    )
    done = checker(cache, path)
    told = {
        int(line.partition(f"{path.name}:")[2].split(":")[0])
        for line in done.stdout.splitlines()
        if f"{path.name}:" in line and "error" in line
    }
    assert told == set(range(2, 2 + len(BAD))), done.stdout
