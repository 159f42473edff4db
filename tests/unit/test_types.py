"""What type checkers say of users' code."""

import json
import subprocess
import sys
import tempfile
from importlib.util import find_spec
from pathlib import Path

import pytest

HERE = Path(__file__).parents[2]
PYRIGHTS = ("basedpyright", "pyright")
"""The first brings its own node along; the second fetches it at its first run."""

STRICT = {"typeCheckingMode": "strict", "enableTypeIgnoreComments": True}
"""The same for both, whose defaults differ."""

GOOD = """
from gputrain import ComputeEngine, Local, Trainer, VertexAI

here = Local()
there = VertexAI("my-project", "us-central1", bucket="gs://b-1")
vms = ComputeEngine("my-project", regions=["us-central1"], bucket="gs://b-1")
for trainer in (Trainer(here), Trainer(there), Trainer(vms), Trainer([there, vms, here])):
    job = trainer.submit("train.py", gpu="L4:1")
    print(job.wait(), job.cost_usd, [one.name for one in trainer.orphans()])
mine = [there, vms]
Trainer(mine)
"""
BAD = {
    "Trainer('local')": "a name",
    "Trainer(VertexAI)": "a class",
    "Trainer([Local(), 7])": "a number",
    "Trainer(Local()).orphans()[0].zone": "a field that is not there",
    "VertexAI('p', nodes=2)": "an argument that is not there",
}


def mypy(*paths):
    words = [sys.executable, "-m", "mypy", "--strict", "--no-error-summary", *map(str, paths)]
    return subprocess.run(words, cwd=HERE, capture_output=True, text=True, timeout=280)


def pyright(*paths):
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
def test_a_type_checker_agrees_with_the_whole_face(checker):
    done = checker(*sorted((HERE / "tests" / "typing").glob("*.py")))
    assert done.returncode == 0, done.stdout + done.stderr


@pytest.mark.parametrize("checker", [mypy, pyright], ids=["mypy", "pyright"])
def test_a_type_checker_takes_what_users_write(checker, users):
    done = checker(users(GOOD))
    assert done.returncode == 0, done.stdout + done.stderr


@pytest.mark.parametrize("checker", [mypy, pyright], ids=["mypy", "pyright"])
def test_a_type_checker_refuses_what_would_be_refused_when_it_runs(checker, users):
    path = users("from gputrain import Local, Trainer, VertexAI\n" + "".join(f"{one}\n" for one in BAD))
    done = checker(path)
    told = {
        int(line.partition(f"{path.name}:")[2].split(":")[0])
        for line in done.stdout.splitlines()
        if f"{path.name}:" in line and "error" in line
    }
    assert told == set(range(2, 2 + len(BAD))), done.stdout
