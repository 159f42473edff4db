"""An experiment is many jobs as one thing: each point once, whoever is killed, the bad ones in place."""

import functools
import json
import math
import os
import signal
import subprocess
import sys
import threading
import time
import warnings

import pytest

import gputrain
from gputrain import ConflictError, JobLostError, JobTimeoutError, Local, StoppedError, Trainer


def losses(lr, seed=0):
    """A function that is mapped."""

    print("GPUTRAIN_METRIC " + json.dumps({"step": 1, "loss": lr + seed}))


def test_another_process_or_another_day_takes_it_up_and_adds_what_is_missing(trainer, script):
    first = trainer.map(script, gputrain.grid(lr=[0.1, 0.2]), name="scan").wait()
    again = Trainer(Local(gpus=0)).map(script, gputrain.grid(lr=[0.1, 0.2, 0.3]), name="scan").wait()
    assert [job.id for job in again.jobs][:2] == [job.id for job in first.jobs]
    assert len(trainer.jobs()) == 3
    named = trainer.experiment("scan").wait()
    assert [job.point for job in named.jobs] == [{"lr": 0.1}, {"lr": 0.2}, {"lr": 0.3}]
    narrow = trainer.map(script, [{"lr": 0.2}], name="scan")
    assert [job.id for job in narrow.wait().jobs] == [first.jobs[1].id]
    assert len(trainer.jobs()) == 3
    with pytest.raises(JobLostError, match="no experiment other"):
        trainer.experiment("other")


def test_no_more_run_at_a_time_than_are_allowed(trainer, tmp_path):
    path = tmp_path / "one.py"
    path.write_text(f"""
import os, time
held = os.path.join({str(tmp_path)!r}, "held")
file = os.open(held, os.O_CREAT | os.O_EXCL)
time.sleep(0.3)
os.unlink(held)
""")
    scan = trainer.map(
        str(path), gputrain.grid(n=range(4)), name="one", max_parallel=1, arguments=lambda _: []
    )
    assert [one.error for one in scan.results()] == [None] * 4


def test_a_function_gets_its_point_as_keyword_arguments(trainer):
    scan = trainer.map(losses, gputrain.grid(lr=[0.5, 0.25]), name="functions")
    assert [one.result.metrics.last["loss"] for one in scan.results()] == [0.5, 0.25]
    assert trainer.run(functools.partial(losses, 0.5, seed=2)).metrics.last["loss"] == 2.5
    assert len({job.spec.args for job in scan.jobs}) == 2
    found = Trainer(Local(gpus=0)).experiment("functions")
    assert [one.result.metrics.last["loss"] for one in found.results(timeout="5m")] == [0.5, 0.25]
    assert found.jobs == scan.jobs


def test_a_caller_says_how_a_point_is_told(trainer, tmp_path):
    path = tmp_path / "words.py"
    path.write_text("import sys; print('words', *sys.argv[1:])")
    scan = trainer.map(
        str(path), [{"lr": 3e-4, "on": True}], name="words", arguments=lambda point: [f"lr={point['lr']}"]
    )
    plain = trainer.map(str(path), [{"lr": 3e-4, "on": True, "off": None}], name="plain", args=["fit"])
    told = [next(line.message for line in one.wait().jobs[0].logs(grep="words")) for one in (scan, plain)]
    assert told == ["words lr=0.0003", "words fit --lr 0.0003 --on true"]


def test_a_wait_that_is_too_short_or_stopped_leaves_the_jobs(trainer, tmp_path):
    path = tmp_path / "long.py"
    path.write_text("import time; time.sleep(60)")
    scan = trainer.map(str(path), [{"n": 1}], name="long", arguments=lambda _: [])
    with pytest.raises(JobTimeoutError):
        scan.wait(timeout=0.2)
    stop = threading.Event()
    stop.set()
    with pytest.raises(StoppedError):
        scan.wait(stop=stop)
    scan.cancel()
    scan.wait()


def test_any_jobs_can_be_compared(trainer, script):
    jobs = [trainer.submit(script, args=["--lr", rate], name="bert") for rate in ("0.1", "0.2")]
    for job in jobs:
        job.wait()
    found = gputrain.compare(jobs)
    assert found.best("loss") is jobs[0]
    assert [one["point"]["args"] for one in found.to_dicts()] == [["--lr", "0.1"], ["--lr", "0.2"]]
    assert "succeeded" in str(found)


def test_no_comparison_shows_what_looks_secret(trainer, script):
    token = "hf_" + "a1B2c3" * 6
    with warnings.catch_warnings():
        warnings.simplefilter("ignore")  # that they look like secrets
        jobs = [
            trainer.submit(script, args=["--lr", "0.1", *more], env={"WANDB_API_KEY": f"{number}-of-mine"})
            for number, more in enumerate(([], [f"--seed={token}"]))
        ]
        found = gputrain.compare(jobs)
        told = f"{found.to_dicts()} {found} {[job.to_dict() for job in jobs]}"
    assert token not in told
    assert "-of-mine" not in told
    assert "***" in told


def test_what_diverged_is_never_the_best_and_stands_in_the_table(trainer, tmp_path):
    script = tmp_path / "diverges.py"
    script.write_text("""
import sys
for step, loss in enumerate((0.1, sys.argv[2])):
    print('GPUTRAIN_METRIC {"step": %d, "loss": %s}' % (step, loss), flush=True)
""")
    scan = trainer.map(str(script), [{"last": "NaN"}, {"last": 0.5}, {"last": "-Infinity"}], name="scan")
    scan.wait()
    assert scan.best("loss").point == {"last": 0.5}
    assert [one["metrics"]["loss"] for one in scan.to_dicts()] == [None, 0.5, None]
    shown = str(scan)
    assert " nan " in shown
    assert " -inf " in shown
    assert "nan" in str(scan.plot("loss"))


def test_a_frame_has_a_row_a_point(trainer, script):
    pandas = pytest.importorskip("pandas")
    scan = trainer.map(script, gputrain.grid(lr=[0.5, 3.0]), name="scan").wait()
    frame = scan.to_pandas()
    assert isinstance(frame, pandas.DataFrame)
    assert list(frame["params.lr"]) == [0.5, 3.0]
    assert math.isnan(frame["metrics.loss"][1])
    assert "too high" in frame["error"][1]


DRIVER = """
import sys, gputrain
trainer = gputrain.Trainer(gputrain.Local(gpus=0))
points = gputrain.grid(lr=[0.1, 0.2, 0.3], seed=range(4))
trainer.map(sys.argv[1], points, name="killed", max_parallel=4).wait()
"""


@pytest.mark.parametrize("delay_s", [0.6, 1.7])
def test_a_driver_killed_at_any_moment_and_run_again_makes_each_point_once(trainer, script, delay_s):
    driver = subprocess.Popen([sys.executable, "-c", DRIVER, script])
    time.sleep(delay_s)
    driver.send_signal(signal.SIGKILL)
    driver.wait()
    again = subprocess.run(
        [sys.executable, "-c", DRIVER, script], timeout=120, check=False, env=dict(os.environ)
    )
    assert again.returncode == 0
    jobs = trainer.jobs()
    assert len(jobs) == 12
    assert all(job.wait() == "succeeded" for job in jobs)


def test_what_failed_is_submitted_once_more_and_what_ended_well_is_not(trainer, tmp_path):
    path, broken = tmp_path / "flaky.py", tmp_path / "broken"
    path.write_text(f"""
import os, sys
if sys.argv[2] != "0" and os.path.exists({str(broken)!r}):
    raise OSError("the disk is away")
""")
    broken.touch()
    points = gputrain.grid(n=range(3))
    scan = trainer.map(str(path), points, name="flaky").wait(timeout="5m")
    assert [job.state for job in scan.jobs] == ["succeeded", "failed", "failed"]
    broken.unlink()
    again = scan.retry_failed().wait(timeout="5m")
    assert [job.state for job in again.jobs] == ["succeeded"] * 3
    assert [job.point for job in again.jobs] == list(points)
    elsewhere = Trainer(Local(gpus=0)).map(str(path), points, name="flaky").wait(timeout="5m")
    assert elsewhere.jobs == again.jobs == trainer.experiment("flaky").wait(timeout="5m").jobs
    assert len(trainer.jobs(name="flaky")) == 5
    assert again.retry_failed().wait(timeout="5m").jobs == elsewhere.jobs
    assert len(trainer.jobs(name="flaky")) == 5


def test_one_page_holds_the_whole_experiment(trainer, script, tmp_path):
    scan = trainer.map(script, gputrain.grid(lr=[0.5, 3.0], seed=[0, 1]), name="scan").wait()
    scan.save_html(tmp_path / "scan.html")
    page = (tmp_path / "scan.html").read_text()
    assert page.count("<tr>") == 5
    assert "lr 3.0 is too high" in page
    assert page.count("<img") == 1
    assert page.count('src="data:image/png;base64,') == page.count("src=")
    assert "<script" not in page


@pytest.mark.parametrize(
    ("other", "field"),
    [
        ({"args": ["--seed", "2"]}, "args"),
        ({"arguments": lambda _: ["--lr", "0.3"]}, "args"),
        ({"arguments": lambda _: ["--lr", "0.3"], "args": []}, "args"),
        ({"nproc_per_node": 2}, "nproc_per_node"),
    ],
)
def test_another_spec_or_other_arguments_are_a_conflict_and_no_job(trainer, script, other, field):
    trainer.map(script, [{"lr": 0.1}], name="scan", args=["--seed", "1"]).wait(timeout="5m")
    with pytest.raises(ConflictError, match=field):
        trainer.map(script, gputrain.grid(lr=[0.1, 0.2]), name="scan", **{"args": ["--seed", "1"], **other})
    assert len(trainer.jobs()) == 1


def test_a_cancel_ends_what_others_have_submitted_since(trainer, tmp_path):
    path = tmp_path / "sleeps.py"
    path.write_text("import time; time.sleep(600)")
    first = trainer.map(str(path), gputrain.grid(x=range(4)), name="scan", max_parallel=4)
    second = Trainer(Local(gpus=0)).map(str(path), [{"x": 0}], name="scan", max_parallel=1)
    while len(first.jobs) < 4:
        time.sleep(0.05)
    second.cancel()
    assert [job.state for job in first.wait(timeout="5m").jobs] == ["cancelled"] * 4
    assert len(trainer.jobs(name="scan")) == 4
    more = trainer.map(str(path), gputrain.grid(x=range(5)), name="scan").wait(timeout="5m")
    assert "the first without a job: it was not submitted: the experiment was cancelled" in str(more)
    assert None not in [one.error for one in more.results()]
