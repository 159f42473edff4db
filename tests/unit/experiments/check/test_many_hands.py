"""One experiment in many hands: whoever takes it up asks for the same, loses nothing, and ends all of it."""

import json
import os
import pathlib
import subprocess
import sys
import threading
import time

import pytest

import gputrain
from gputrain import (
    ConflictError,
    Local,
    RequestError,
    SpecError,
    StoppedError,
    Trainer,
    TrainingSpec,
    TransientError,
)
from gputrain.experiments.begin import begun

TELLS = """
import os, sys, time
print("told", *sys.argv[1:])
if os.path.exists(os.path.join(os.path.dirname(os.path.abspath(__file__)), "broken")):
    sys.exit("broken")
"""


BIG = """
import json, sys
print("GPUTRAIN_METRIC", json.dumps({"step": 1, "loss": float(sys.argv[2])}))
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


LEFT = """
import os, sys, gputrain
trainer = gputrain.Trainer(gputrain.Local(gpus=0))
scan = trainer.map(sys.argv[1], gputrain.grid(x=range(3)), name="left", args=["--tag", "T"], max_parallel=1)
next(scan.as_completed())
os._exit(9)
"""


def test_what_is_missing_gets_the_arguments_that_it_was_begun_with(trainer, tells):
    subprocess.run([sys.executable, "-c", LEFT, tells], check=False)
    wanted = [("--tag", "T", "--x", str(x)) for x in range(3)]
    assert args_of(trainer.experiment("left")) == wanted


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


def test_an_experiment_of_the_release_before_is_watched_and_goes_on_where_its_script_is(trainer, tells):
    scan = trainer.map(tells, [{"x": 1}], name="scan", args=["--tag"]).wait(timeout="5m")
    (note,) = pathlib.Path(os.environ["GPUTRAIN_HOME"]).rglob("notes/scan.json")
    generation, _, content = note.read_bytes().partition(b"\n")
    fields = json.loads(content)
    for name in ("limits_usd", "max_cost", "is_whole"):
        del fields[name]
    points, args = [{"x": 1}, {"x": 2}], [["--x", "1"], ["--x", "2"]]
    spec = {name: value for name, value in fields["spec"].items() if name != "args"}
    old = {**fields, "schema": 1, "spec": spec, "points": points, "args": args, "share_usd": None}
    note.write_bytes(generation + b"\n" + json.dumps(old).encode())
    found = trainer.experiment("scan")
    outcomes = found.results(timeout="5m")
    assert outcomes[0].job == scan.jobs[0]
    assert "older release" in str(outcomes[1].error)
    assert len(trainer.jobs()) == 1
    whole = trainer.map(tells, gputrain.grid(x=[1, 2]), name="scan", args=["--tag"])
    assert args_of(whole) == [("--tag", "--x", "1"), ("--tag", "--x", "2")]
    assert args_of(trainer.experiment("scan")) == args_of(whole)


def test_a_cancel_by_whoever_looks_at_one_point_ends_them_all(trainer, sleeps):
    scan = trainer.map(sleeps, gputrain.grid(x=range(3)), name="scan", max_parallel=3)
    until(lambda: len(scan.jobs) == 3)
    Trainer(Local(gpus=0)).map(sleeps, [{"x": 0}], name="scan", max_parallel=3).cancel()
    assert [job.state for job in scan.wait(timeout="5m").jobs] == ["cancelled"] * 3


def test_a_cancel_ends_what_others_have_submitted_since(trainer, sleeps):
    first = trainer.map(sleeps, gputrain.grid(x=range(4)), name="scan", max_parallel=4)
    second = Trainer(Local(gpus=0)).map(sleeps, gputrain.grid(x=range(4)), name="scan", max_parallel=1)
    until(lambda: len(first.jobs) == 4)
    second.cancel()
    assert [job.state for job in first.wait(timeout="5m").jobs] == ["cancelled"] * 4
    assert len(trainer.jobs(name="scan")) == 4


class Blind(Local):
    """This machine, where one job cannot be looked at."""

    job_id = ""

    def observe(self, ref):
        if ref.name == self.job_id:
            raise TransientError("drawn")
        return super().observe(ref)


def test_a_cancel_ends_what_cannot_be_looked_at_just_now_too(trainer, sleeps):
    first, blind = trainer.map(sleeps, gputrain.grid(x=range(3)), name="scan", max_parallel=3), Blind(gpus=0)
    until(lambda: len(first.jobs) == 3)
    blind.job_id = first.jobs[-1].id
    second = Trainer(blind).map(sleeps, gputrain.grid(x=range(3)), name="scan", max_parallel=1)
    second.cancel()
    blind.job_id = ""  # else its watcher, which is everybody's, waits with all of this machine's jobs
    assert [job.state for job in first.wait(timeout="5m").jobs] == ["cancelled"] * 3
    second.wait(timeout="5m")


class Forgetful:
    """This machine's records, of which one note can be neither read nor written once its job is made."""

    def __init__(self, board, is_made):
        self._board, self._is_made = board, is_made

    def __getattr__(self, name):
        return getattr(self._board, name)

    def note(self, name):
        self._check(name)
        return self._board.note(name)

    def keep(self, name, content, generation):
        self._check(name)
        self._board.keep(name, content, generation)

    def _check(self, name):
        if name.endswith(".cancelled") and self._is_made():
            raise TransientError("the bucket does not answer")


def test_a_point_whose_cancel_cannot_be_read_any_more_has_its_job(trainer, tells):
    board = Forgetful(trainer._road.boards[0], lambda: trainer.jobs(name="scan"))
    base = TrainingSpec(script=tells)
    limits = {"arguments": None, "max_parallel": None, "max_cost": None}
    scan = begun(trainer, [board], base, [{"x": 0}], name="scan", **limits)
    (outcome,) = scan.results(timeout="5m")
    assert (outcome.error, outcome.job.state) == (None, "succeeded")


def test_a_cancel_that_cannot_be_written_down_ends_what_runs_all_the_same(trainer, sleeps):
    board, base = (
        Forgetful(trainer._road.boards[0], lambda: trainer.jobs(name="scan")),
        TrainingSpec(script=sleeps),
    )
    limits = {"arguments": None, "max_parallel": 1, "max_cost": None}
    scan = begun(trainer, [board], base, gputrain.grid(x=range(2)), name="scan", **limits)
    until(lambda: scan.jobs)
    with pytest.raises(TransientError, match="bucket"):
        scan.cancel()
    assert [job.state for job in scan.wait(timeout="5m").jobs] == ["cancelled"]


def test_a_cancel_ends_what_others_have_retried_since_and_nothing_of_another_name(trainer, tmp_path):
    path, broken = tmp_path / "once.py", tmp_path / "broken"
    path.write_text(f"import os, sys, time; os.path.exists({str(broken)!r}) and sys.exit(1); time.sleep(600)")
    broken.touch()
    scan = trainer.map(str(path), [{"x": 0}], name="scan").wait(timeout="5m")
    second = Trainer(Local(gpus=0)).experiment("scan").wait(timeout="5m")
    broken.unlink()
    other = trainer.map(str(path), [{"x": 0}], name="scan-2")
    scan.retry_failed()
    until(lambda: scan.jobs and other.jobs)
    second.cancel()
    assert [job.state for job in scan.wait(timeout="5m").jobs] == ["cancelled"]
    assert not other.jobs[0].refresh().state.is_terminal
    other.cancel()
    other.wait(timeout="5m")


def flaky(x, mark):
    """Point 0 fails the first time."""
    import pathlib

    first = pathlib.Path(mark)
    if x == 0 and first.exists():
        first.unlink()
        raise ValueError("the first time")


def test_a_loop_that_retries_what_failed_sees_every_point_and_every_retry(trainer, tmp_path):
    mark = tmp_path / "mark"
    mark.touch()
    points = [{"x": x, "mark": str(mark)} for x in range(4)]
    scan = trainer.map(flaky, points, name="scan", max_parallel=2)
    seen = []
    for job in scan.as_completed(timeout="5m"):
        seen.append((job.point["x"], job.state.value))
        if job.state == "failed":
            until(lambda: len(scan._over) > 1)  # others have ended, too, when it is retried
            scan.retry_failed()
    succeeded = [(x, "succeeded") for x in range(4)]
    assert sorted(seen) == sorted([(0, "failed"), *succeeded])
    assert sorted((job.point["x"], job.state) for job in scan.as_completed(timeout=5)) == succeeded
    assert scan.is_over


def test_who_waits_for_what_was_closed_is_told_at_once(trainer, sleeps):
    scan = trainer.map(sleeps, gputrain.grid(x=range(2)), name="scan", max_parallel=1)
    until(lambda: scan.jobs)
    told = []

    def wait():
        with pytest.raises(StoppedError, match="closed") as error:
            scan.wait()
        told.append(error.value)

    waiting = threading.Thread(target=wait)
    waiting.start()
    scan.close()
    waiting.join(60)
    for call in (scan.wait, scan.results, lambda: list(scan.as_completed())):
        with pytest.raises(StoppedError) as error:
            call()
        told.append(error.value)
    assert len(told) == 4
    assert {one.fix for one in told} == {"take it up again: trainer.experiment('scan').wait()"}
    with pytest.raises(RequestError, match="closed") as refused:
        scan.retry_failed()
    assert "trainer.experiment('scan').retry_failed()" in refused.value.fix
    trainer.experiment("scan").cancel()


def test_a_slip_is_told_before_the_name_is_taken(trainer, tells, tmp_path):
    (tmp_path / "half.py").write_text("def (")
    for wrong, match in (("tels.py", "did you mean tells.py"), ("half.py", "Python")):
        with pytest.raises(SpecError, match=match):
            trainer.map(str(tmp_path / wrong), [{"x": 1}], name="scan")
    with pytest.raises(SpecError, match="lambda"):
        trainer.map(lambda x: x, [{"x": 1}], name="scan")
    with pytest.raises(SpecError, match="unexpected keyword argument 'y'"):
        trainer.map(flaky, [{"x": 1, "mark": ""}, {"x": 1, "mark": "", "y": 2}], name="scan")
    assert trainer.map(tells, [{"x": 1}], name="scan").wait(timeout="5m").jobs[0].state == "succeeded"


def test_two_who_begin_one_name_at_once_do_not_share_it(trainer, tells):
    first = trainer.map(tells, [{"x": 1}, {"x": 2}], name="one", args=["--tag", "A"])
    with pytest.raises(ConflictError, match="args"):
        trainer.map(tells, [{"x": 1}, {"x": 2}], name="one", args=["--tag", "B"])
    assert {job.spec.args[:2] for job in first.wait(timeout="5m").jobs} == {("--tag", "A")}


def test_a_number_of_any_size_may_be_the_best(trainer, tmp_path):
    script = tmp_path / "big.py"
    script.write_text(BIG)
    scan = trainer.map(str(script), gputrain.grid(x=["1e307", "1e308"]), name="big").wait(timeout="5m")
    assert scan.best("loss", mode="max").point == {"x": "1e308"}


def test_a_function_that_is_not_here_is_not_retried_and_its_failure_stays(trainer, tmp_path):
    mark = tmp_path / "mark"
    mark.touch()
    trainer.map(flaky, [{"x": 0, "mark": str(mark)}], name="scan").wait(timeout="5m")
    found = trainer.experiment("scan").wait(timeout="5m")
    with pytest.raises(RequestError, match="the function flaky is not here"):
        found.retry_failed()
    assert [job.state for job in found.jobs] == ["failed"]


def test_a_word_that_is_none_of_a_closed_set_is_refused(trainer, tells):
    scan = trainer.map(tells, [{"x": 1}], name="scan").wait(timeout="5m")
    for mode in ("Min", "MIN", "minimize", "lowest", None, 0):
        with pytest.raises(SpecError, match="mode"):
            scan.best("loss", mode=mode)
    for along in ("Step", "wall", None):
        with pytest.raises(SpecError, match="step"):
            scan.plot("loss", x=along)
    for jobs in (5, None, [1], scan.jobs[0], "ab"):
        with pytest.raises(SpecError, match="jobs"):
            gputrain.compare(jobs)
    for timeout in (float("nan"), [], "soon"):
        with pytest.raises(SpecError, match="timeout"):
            scan.wait(timeout=timeout)


def test_a_table_tells_why_points_have_no_job(trainer, tells):
    trainer.map(tells, [{"x": 1}], name="scan").cancel()
    told = str(trainer.map(tells, [{"x": 1}, {"x": 2}], name="scan").wait(timeout="5m"))
    assert "the first without a job: it was not submitted: the experiment was cancelled" in told
