"""A backend that lives in somebody else's distribution does all that ours do, in any process."""

import json
import os
import re
import signal
import subprocess
import sys
import time
from pathlib import Path

import pytest

from gputrain import Local, NoPlacementError, SpecError, State, Trainer
from gputrain.backends import registry
from gputrain.backends.abilities import ABILITIES, lacks, members, strays
from gputrain.backends.base import Attaches, CleansUp
from tests import distributions
from tests.each import each
from tests.patience import PATIENCE_S

SLEEP = "import time\nprint('it runs', flush=True)\ntime.sleep(60)\n"


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


def test_it_has_the_core_and_what_it_can_besides_is_spelt_right(slurm):
    assert lacks(slurm()) == strays(slurm()) == ()
    assert [isinstance(slurm(), one) for one in (Attaches, CleansUp)] == [True] * 2


def test_its_jobs_are_planned_submitted_and_listed(slurm, script):
    trainer = Trainer(slurm(partitions=["cpu"]))
    assert [one.place for one in trainer.plan(script).candidates] == ["cpu"]
    job = trainer.submit(script, num_nodes=2, nproc_per_node=2)
    assert job.wait(timeout=PATIENCE_S) is State.SUCCEEDED
    said = sorted(line.message for line in job.logs() if line.message.startswith("rank "))
    assert said == [f"rank {rank} of 4" for rank in range(4)]
    assert [one.uri for one in trainer.jobs()] == [job.uri]


def greets():
    print("hello from a function")


def test_a_plan_of_a_function_writes_nothing_and_its_job_runs_it(slurm, tmp_path):
    plan = Trainer(slurm(partitions=["cpu"])).plan(greets)
    assert plan.requests
    assert not (tmp_path / "cluster").exists()
    job = plan.submit()
    assert job.wait(timeout=PATIENCE_S) is State.SUCCEEDED
    assert "hello from a function" in [line.message for line in job.logs()]


def test_its_partitions_are_places_and_a_drained_one_sends_a_job_on(slurm, script, tmp_path):
    trainer = Trainer(slurm(partitions=["gpu-long", "gpu-short"]))
    (tmp_path / "cluster" / "drained").mkdir(parents=True)
    plan = trainer.plan(script, gpu="MI300X:8", max_run_duration="1h")
    assert [one.place for one in plan.candidates] == ["gpu-long", "gpu-short"]
    (tmp_path / "cluster" / "drained" / "gpu-long").touch()
    job = plan.submit()
    assert [one.candidate.place for one in job.attempts.tries] == ["gpu-long", "gpu-short"]
    assert job.wait(timeout=PATIENCE_S) is State.SUCCEEDED


def test_a_job_that_no_partition_takes_is_placed_nowhere(slurm, script, tmp_path):
    plan = Trainer(slurm(partitions=["gpu-long", "gpu-short"])).plan(
        script, gpu="MI300X:8", max_run_duration="1h"
    )
    for partition in ("gpu-long", "gpu-short"):
        (tmp_path / "cluster" / "drained").mkdir(parents=True, exist_ok=True)
        (tmp_path / "cluster" / "drained" / partition).touch()
    with pytest.raises(NoPlacementError):
        plan.submit()


def test_what_a_partition_refuses_is_told_with_its_reason(slurm, script):
    plan = Trainer(slurm(partitions=["gpu-long", "gpu-short"])).plan(
        script, gpu="MI300X:8", max_run_duration="24h"
    )
    assert [one.place for one in plan.candidates] == ["gpu-long"]
    assert "gpu-short ends jobs after 4 h" in "\n".join(map(str, plan.refusals))


def test_a_partition_that_is_none_is_refused(slurm):
    with pytest.raises(SpecError, match="gpu-huge"):
        slurm(partitions=["gpu-huge"])


@pytest.mark.check
def test_another_process_attaches_by_the_name_alone(slurm, script, elsewhere):
    job = Trainer(slurm(partitions=["cpu"])).submit(script)
    code = f"import gputrain; print(gputrain.attach({job.uri!r}).wait(timeout=60, progress='none').value)"
    done = elsewhere("-c", code)
    assert (done.stdout.strip(), done.stderr) == ("succeeded", "")


def test_what_is_left_of_a_killed_batch_process_is_found_and_removed(slurm, script, tmp_path):
    (tmp_path / "train.py").write_text(SLEEP)
    backend = slurm(partitions=["cpu"])
    trainer = Trainer(backend)
    job = trainer.submit(script)
    until(lambda: any(line.message == "it runs" for line in job.logs()))
    assert trainer.orphans() == ()
    os.kill(batch_of(tmp_path / "cluster" / "cpu" / job.ref.name), signal.SIGKILL)
    assert job.wait(timeout=PATIENCE_S) is State.FAILED
    (orphan,) = trainer.orphans()
    assert (orphan.job_id, orphan.place) == (job.ref.name, "cpu")
    assert trainer.clean_up() == (orphan,)
    until(lambda: trainer.orphans() == ())


@pytest.mark.check
def test_the_command_line_knows_it(slurm, script, elsewhere, tmp_path):
    settings = f"backends = ['slurm']\nproject = 'of-others'\n[slurm]\nroot = '{tmp_path / 'cluster'}'\n"
    (tmp_path / "gputrain.toml").write_text(settings + "partitions = ['cpu']\n")
    made = elsewhere("-m", "gputrain", "submit", "train.py", "--json", "--detach")
    assert made.returncode == 0, made.stderr
    uri = json.loads(made.stdout)["uri"]
    assert uri.startswith("gputrain://slurm/")
    logs = elsewhere("-m", "gputrain", "logs", uri, "--follow", "--backend", "local")
    assert "rank 0 of 1" in logs.stdout, logs.stderr
    listed = elsewhere("-m", "gputrain", "jobs", "--json", "--backend", "slurm")
    assert [one["uri"] for one in json.loads(listed.stdout)["jobs"]] == [uri]
    cleaned = elsewhere("-m", "gputrain", "clean-up", "--yes", "--json")
    none = {"removed": True, "backends": ["slurm"], "left_out": [], "orphans": []}
    assert json.loads(cleaned.stdout) == none


@pytest.mark.check
def test_the_command_line_says_where_to_say_what_it_lacks(elsewhere):
    words = elsewhere("-m", "gputrain", "completion", "words", "--", "plan", "--backend", "s")
    assert words.stdout.split() == ["slurm"], words.stderr
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


def test_the_page_names_every_ability_with_its_members():
    rows = dict(re.findall(r"^\| `(\w+)` \| (`.*?`) \|", PAGE.read_text(), re.MULTILINE))
    told = {name: set(re.findall(r"`(\w+)`", text)) for name, text in rows.items()}
    assert told == {one.__name__: set(members(one)) for one in ABILITIES}


def until(holds):
    patience = time.monotonic() + PATIENCE_S
    while not holds():
        assert time.monotonic() < patience
        time.sleep(0.1)


def batch_of(folder):
    """The process that looks after a job: the parent of its agents."""
    ((agent, _),) = json.loads((folder / "state.json").read_text())["agents"]
    with open(f"/proc/{agent}/stat") as file:
        return int(file.read().rpartition(") ")[2].split()[1])


def test_who_comes_with_the_same_key_finds_the_job_and_says_where(slurm, script):
    first = Trainer(slurm(partitions=["cpu"])).submit(script, idempotency_key="k")
    again = Trainer([Local(), slurm(partitions=["cpu"])]).submit(script, idempotency_key="k")
    assert again.uri == first.uri
    told = [(one.candidate.backend, one.candidate.place, one.answer) for one in again.attempts]
    assert told == [("slurm", "cpu", "found there: an earlier submit made it")]
    first.wait(timeout=PATIENCE_S)


def test_what_shows_late_after_a_ctrl_c_is_withdrawn_as_well(slurm, script, monkeypatch):
    backend, asked, made = slurm(), [], []
    create = type(backend).create

    def interrupt(_self, request):
        asked.append(request)
        raise KeyboardInterrupt

    def sleep(_seconds):
        if not made:
            made.append(create(backend, asked[0]))

    monkeypatch.setattr(type(backend), "create", interrupt)
    with pytest.raises(KeyboardInterrupt, match="was withdrawn"):
        Trainer(backend, sleep=sleep).submit(script)
    assert Trainer(backend).attach(made[0].uri).wait(timeout=PATIENCE_S) is State.CANCELLED
