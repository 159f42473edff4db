"""A backend that lives in somebody else's distribution does all that ours do, in any process."""

import json
import os
import re
import subprocess
import sys
from pathlib import Path

import pytest

from gputrain import State, Trainer
from gputrain.backends import registry
from tests import distributions
from tests.each import each
from tests.patience import PATIENCE_S


@pytest.fixture
def slurm(slurmlike_here, tmp_path):
    """Makes the backend, by the name under which it is installed."""
    return lambda **more: registry.find("slurm")(tmp_path / "cluster", **more)


@pytest.fixture
def script(tmp_path):
    path = tmp_path / "train.py"
    path.write_text("import os\nprint('rank', os.environ['RANK'], 'of', os.environ['WORLD_SIZE'])\n")
    return str(path)


@pytest.fixture
def elsewhere(slurmlike, tmp_path):
    """Runs Python in another process, in which the distribution is installed."""

    def run(*words):
        env = {**os.environ, "PYTHONPATH": str(slurmlike)}
        return subprocess.run(
            [sys.executable, *words], cwd=tmp_path, env=env, capture_output=True, text=True, timeout=120
        )

    return run


def test_its_jobs_are_planned_submitted_and_listed(slurm, script):
    trainer = Trainer(slurm(partitions=["cpu"]))
    assert [one.place for one in trainer.plan(script).candidates] == ["cpu"]
    job = trainer.submit(script, num_nodes=2, nproc_per_node=2)
    assert job.wait(timeout=PATIENCE_S) is State.SUCCEEDED
    said = sorted(line.message for line in job.logs() if line.message.startswith("rank "))
    assert said == [f"rank {rank} of 4" for rank in range(4)]
    assert [one.uri for one in trainer.jobs()] == [job.uri]


@pytest.mark.check
def test_the_command_line_knows_it(slurm, script, elsewhere, tmp_path):
    settings = f"backends = ['slurm']\nproject = 'of-others'\n[slurm]\nroot = '{tmp_path / 'cluster'}'\n"
    (tmp_path / "gputrain.toml").write_text(settings + "partitions = ['cpu']\n")
    made = elsewhere("-m", "gputrain", "submit", "train.py", "--json", "--detach")
    assert made.returncode == 0, made.stderr
    uri = json.loads(made.stdout)["uri"]
    assert uri.startswith("gputrain://local/")
    logs = elsewhere("-m", "gputrain", "logs", uri, "--follow", "--backend", "local")
    assert "rank 0 of 1" in logs.stdout, logs.stderr
    listed = elsewhere("-m", "gputrain", "jobs", "--json", "--backend", "slurm")
    assert [one["uri"] for one in json.loads(listed.stdout)["jobs"]] == [uri]
    cleaned = elsewhere("-m", "gputrain", "clean-up", "--yes", "--json")
    none = {"removed": True, "backends": ["slurm"], "left_out": [], "orphans": []}
    assert json.loads(cleaned.stdout) == none


@pytest.mark.check
def test_the_command_line_says_where_to_say_what_it_lacks(elsewhere):
    done = elsewhere("-m", "gputrain", "plan", "train.py", "--backend", "slurm")
    assert done.returncode == 2
    assert "root = ... under [slurm] in gputrain.toml" in done.stderr


PAGE = Path(__file__).parents[2] / "docs" / "howto" / "write-a-backend.md"
QUOTES = re.findall(r"^```(?:python no-run|toml)\n(.*?)^```", PAGE.read_text(), re.MULTILINE | re.DOTALL)


@each("quote", QUOTES)
def test_what_the_page_quotes_stands_in_the_files(quote):
    folder = Path(distributions.__file__).parent / "gputrain_slurmlike"
    files = [folder / "pyproject.toml", *(folder / "gputrain_slurmlike").glob("*.py")]
    is_settings = quote.startswith("backends = ")  # of a user, not of the distribution
    assert is_settings or any(quote in path.read_text() for path in files)
