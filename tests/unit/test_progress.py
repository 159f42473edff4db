"""How far a run is, and how long it takes, is told where reports say how many steps there are."""

import json
import sys
import types
from datetime import timedelta

import attrs
import pytest

import gputrain
from gputrain import Local, State, Trainer
from gputrain.metrics import Metrics
from gputrain.progress import Progress
from gputrain.view import Notebook, Snapshot
from tests.each import each

SCRIPT = """
import json, time
for step in range(1, 4):
    told = {"step": step, "total_steps": 12, "time": 1000.0 + 2 * step, "loss": 1 / step}
    print("GPUTRAIN_METRIC " + json.dumps(told))
"""


def read(*rows):
    return Metrics.read(["GPUTRAIN_METRIC " + json.dumps(row) for row in rows])


def steps(first, last, *, total=100, at=0.0, each_s=2.0):
    return [
        {"step": step, "total_steps": total, "time": at + each_s * step, "loss": 1.0}
        for step in range(first, last + 1)
    ]


def test_the_newest_report_tells_how_far_it_is():
    found = read(*steps(1, 40)).progress
    assert found == Progress(step=40, total=100, left_s=120.0)
    assert (found.share, str(found)) == (0.4, "step 40 of 100, about 2m left")
    assert read(*steps(1, 40)).names == ("loss",)


def test_time_away_and_steps_run_again_do_not_count_for_the_pace():
    assert read(*steps(1, 40), *steps(31, 35, at=90_000.0)).progress.left_s == 130.0


def test_a_pace_is_that_of_the_newest_reports():
    assert (
        read(
            *steps(1, 500, total=1000, each_s=9.0), *steps(501, 600, total=1000, at=4e3, each_s=1.0)
        ).progress.left_s
        == 400.0
    )


def test_a_script_without_an_end_is_shown_as_any_other():
    endless = read(*steps(1, 3, total=sys.maxsize))
    assert str(endless.progress) == f"step 3 of {sys.maxsize:,}"
    assert f"step 3 of {sys.maxsize:,} (0%)" in shown(endless)


@each("last", ["diverged", None, True, 10**400, float("nan"), -1e299])
def test_whatever_a_script_reports_after_a_number_is_shown(last):
    assert "loss" in shown(read({"step": 1, "loss": 2.5}, {"step": 2, "loss": last}))


def test_a_line_of_a_job_bears_as_many_metrics_as_a_line_does():
    wide = read({"step": 1, **{f"{'gradient' * 100}_{number}": 1.0 for number in range(1000)}})
    assert len(shown(wide)) < 1000


def shown(metrics):
    return Snapshot(title="job", state=State.RUNNING, elapsed=timedelta(0), metrics=metrics).text


@each(
    "rows",
    [
        [],
        [{"step": 1, "loss": 2.0}],
        [{"step": 1, "total_steps": 0}],
        [{"step": 1, "total_steps": "many"}],
        [{"step": 1, "total_steps": "nan"}],
        [{"total_steps": 5}],
        [{"step": 1, "total_steps": 9}, {"step": 2}],
    ],
)
def test_where_nobody_says_how_many_there_are_nothing_is_told(rows):
    assert read(*rows).progress is None


@pytest.mark.parametrize("times", [[], [5.0], [5.0, 5.0], [5.0, 4.0], ["nan", 6.0]])
def test_without_times_the_time_left_is_not_known(times):
    rows = [{"step": n + 1, "total_steps": 9} for n in range(2)]
    for row, at in zip(rows, times):
        row["time"] = at
    found = read(*rows).progress
    assert (found.step, found.left_s or 0.0) == (2, 0.0)
    assert str(found) == "step 2 of 9"


@pytest.mark.parametrize(
    ("left_s", "told"), [(59.2, "1m"), (605.0, "11m"), (40_000.0, "12h"), (90_001.0, "1d2h")]
)
def test_time_left_is_told_as_coarsely_as_it_is_known(left_s, told):
    assert Progress(step=1, total=2, left_s=left_s).left == f", about {told} left"


def test_a_line_of_progress_has_it_until_the_end():
    shown = Snapshot(title="x", state=State.RUNNING, elapsed=timedelta(0), metrics=read(*steps(1, 40)))
    assert "step 40 of 100 (40%), about 2m left" in shown.text
    assert "left" not in attrs.evolve(shown, state=State.FAILED).text


def test_a_cell_has_a_bar(monkeypatch):
    pages = []
    display = types.SimpleNamespace(display=lambda page, **_: pages.append(page))
    monkeypatch.setitem(sys.modules, "IPython", types.ModuleType("IPython"))
    monkeypatch.setitem(sys.modules, "IPython.display", display)
    told = Snapshot(title="x", state=State.RUNNING, elapsed=timedelta(0), metrics=read(*steps(1, 40)))
    Notebook().status(told)
    assert "width:40.0%" in pages[0].html


def test_a_job_and_an_experiment_tell_it(tmp_path, capsys):
    path = tmp_path / "train.py"
    path.write_text(SCRIPT)
    scan = Trainer(Local(gpus=0)).map(str(path), [{"n": 1}], name="counted", arguments=lambda _: [])
    scan.wait("2m", progress="plain")
    assert scan.jobs[0].metrics().progress == Progress(step=3, total=12, left_s=18.0)
    scan.save_html(tmp_path / "page.html")
    assert "25%" in (tmp_path / "page.html").read_text()
    told = capsys.readouterr().err.splitlines()
    assert told[-1] == "-- Experiment counted: 1 point: 1 succeeded"
    assert len(told) == len(set(told))


@pytest.mark.check
def test_at_a_terminal_an_experiment_has_a_live_text(tmp_path, capsys):
    path = tmp_path / "train.py"
    path.write_text(SCRIPT + "time.sleep(2)")
    scan = Trainer(Local(gpus=0)).map(
        str(path), gputrain.grid(n=range(2)), name="live", arguments=lambda _: []
    )
    scan.wait("2m", progress="rich")
    assert "2 points: 2 succeeded" in capsys.readouterr().err


@pytest.mark.check
@pytest.mark.parametrize(
    ("asked", "total"), [({"max_steps": 3}, 3), ({"epochs": 2}, 8), ({"epochs": 9, "max_steps": 5}, 5)]
)
def test_a_session_tells_how_many_steps_there_will_be(tmp_path, asked, total):
    pytest.importorskip("torch")
    path = tmp_path / "session.py"
    path.write_text(f"""
import torch
from gputrain import ddp
with ddp.session(device="cpu") as s:
    for step, x in s.steps(s.loader(torch.zeros(8, 1), 2), **{asked!r}):
        s.report(step=step, loss=1.0)
    s.report(step=77, loss=1.0)
""")
    job = Trainer(Local(gpus=0)).submit(str(path))
    assert job.wait("4m") == "succeeded", list(job.logs())
    rows = job.metrics().rows
    assert [row.get("total_steps") for row in rows] == [total] * (len(rows) - 1) + [None]
