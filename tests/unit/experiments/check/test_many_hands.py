"""One experiment in many hands: whoever takes it up asks for the same, loses nothing, and ends all of it."""

import pathlib
import time

import pytest

import gputrain
from gputrain import (
    ConflictError,
    Local,
    Trainer,
)

TELLS = """
import os, sys, time
print("told", *sys.argv[1:])
if os.path.exists(os.path.join(os.path.dirname(os.path.abspath(__file__)), "broken")):
    sys.exit("broken")
"""


@pytest.fixture
def tells(tmp_path):
    path = tmp_path / "tells.py"
    path.write_text(TELLS)
    return str(path)


@pytest.fixture
def sleeps(tmp_path):
    path = tmp_path / "sleeps.py"
    path.write_text("import time; time.sleep(600)")
    return str(path)


def until(true):
    end = time.monotonic() + 300
    while not true():
        assert time.monotonic() < end
        time.sleep(0.05)


def args_of(scan):
    return [job.spec.args for job in scan.wait(timeout="5m").jobs]


def test_what_failed_is_submitted_once_more_with_its_arguments(trainer, tells):
    broken = pathlib.Path(tells).with_name("broken")
    broken.touch()
    scan = trainer.map(
        tells, [{"x": 1}], name="scan", args=["--tag"], arguments=lambda point: point | {"y": 2}
    )
    assert [job.state for job in scan.wait(timeout="5m").jobs] == ["failed"]
    broken.unlink()
    again = Trainer(Local(gpus=0)).experiment("scan").retry_failed()
    assert args_of(again) == [("--tag", "--x", "1", "--y", "2")]
    assert [job.state for job in again.jobs] == ["succeeded"]


@pytest.mark.parametrize(
    "other",
    [
        {"args": ["--tag", "U"]},
        {"args": []},
        {"arguments": lambda _: ["--x", "3"]},
        {"arguments": lambda _: ["--x", "3"], "args": []},
    ],
)
def test_other_arguments_under_the_name_are_a_conflict_and_no_job(trainer, tells, other):
    trainer.map(tells, [{"x": 1}], name="scan", args=["--tag", "T"]).wait(timeout="5m")
    with pytest.raises(ConflictError, match="args"):
        trainer.map(tells, gputrain.grid(x=[1, 2]), name="scan", **{"args": ["--tag", "T"], **other})
    assert len(trainer.jobs()) == 1


def test_a_cancel_ends_what_others_have_submitted_since(trainer, sleeps):
    first = trainer.map(sleeps, gputrain.grid(x=range(4)), name="scan", max_parallel=4)
    second = Trainer(Local(gpus=0)).map(sleeps, [{"x": 0}], name="scan", max_parallel=1)
    until(lambda: len(first.jobs) == 4)
    second.cancel()
    assert [job.state for job in first.wait(timeout="5m").jobs] == ["cancelled"] * 4
    assert len(trainer.jobs(name="scan")) == 4
    table = str(trainer.map(sleeps, gputrain.grid(x=range(5)), name="scan").wait(timeout="5m"))
    assert "the first without a job: it was not submitted: the experiment was cancelled" in table
