"""What a person sees while a job or an experiment runs."""

import io
import json
import sys
from datetime import timedelta

from gputrain import Local, State, Trainer
from gputrain.backends.base import LogLine
from gputrain.display import live
from gputrain.display.live import Notebook, PlainLines, choose, job_status
from gputrain.lifecycle import Failure
from gputrain.metrics import Metrics

LINES = [
    LogLine(message="loading", rank=0),
    LogLine(message='GPUTRAIN_METRIC {"step": 1, "loss": 2.5}', rank=0),
    LogLine(message="node 0 is ready"),
]
SCRIPT = """
import json, time
for step in range(1, 4):
    told = {"step": step, "total_steps": 12, "time": 1000.0 + 2 * step, "loss": 1 / step}
    print("GPUTRAIN_METRIC " + json.dumps(told))
"""


def read(*rows):
    return Metrics.read(["GPUTRAIN_METRIC " + json.dumps(row) for row in rows])


def status(state=State.RUNNING, *, step=1, **fields):
    metrics = fields.pop("metrics", read({"step": step, "loss": 2.5}))
    return job_status(
        title="bert-x1", state=state, elapsed=timedelta(seconds=61), metrics=metrics, cost_usd=1.5, **fields
    )


def test_plain_lines_carry_their_rank_and_ours_apart_have_a_status_every_30_s(monkeypatch):
    theirs, ours, now = io.StringIO(), io.StringIO(), [0.0]
    monkeypatch.setattr(live.time, "monotonic", lambda: now[0])
    plain = PlainLines(theirs, ours)
    plain.lines(LINES)
    for now[0] in (0.0, 10.0, 29.0, 30.0, 31.0):
        plain.status(status())
    plain.status(status(State.SUCCEEDED))
    text = "-- bert-x1 · running · 1m1s · step 1 · loss 2.5 · $1.50"
    assert theirs.getvalue().splitlines() == ["[0] loading"]
    assert ours.getvalue().splitlines() == [
        "[agent] node 0 is ready", text, text, text.replace("running", "succeeded"),
    ]  # fmt: skip


def test_a_program_that_embeds_us_sees_nothing(monkeypatch, capfd):
    monkeypatch.delenv("GPUTRAIN_PROGRESS", raising=False)
    view = choose(None, State)
    view.lines(LINES)
    view.status(status())
    view.close()
    assert view.is_quiet
    assert capfd.readouterr() == ("", "")


class Shell:
    """A kernel's display, as far as a cell uses it: what is shown is kept."""

    def __init__(self, monkeypatch):
        self.pages = []
        monkeypatch.setitem(sys.modules, "IPython.display", self)

    def display(self, page, *, raw, display_id):
        assert raw
        assert display_id
        self.pages.append(page)
        return self

    def update(self, page, *, raw):
        assert raw
        self.pages.append(page)


def test_the_cause_of_a_failure_is_above_the_folded_log(monkeypatch):
    shell, view = Shell(monkeypatch), Notebook()
    view.lines([LogLine(message="<b>loading</b>", rank=0)])
    failure = Failure(kind="exception", message="ValueError: <too> high", rank=1, traceback="Traceback...")
    view.status(status(State.FAILED, failure=failure))
    bundle = shell.pages[-1]
    page = bundle["text/html"]
    assert page.index("&lt;too&gt; high") < page.index("&lt;b&gt;loading")
    assert "<details>" in page
    assert "failed" in bundle["text/plain"]


def test_a_cell_that_waits_shows_no_result_beside_its_view(monkeypatch):
    Shell(monkeypatch)
    monkeypatch.setattr(live, "in_notebook", lambda: True)
    shown = []
    monkeypatch.setattr(sys, "displayhook", shown.append)
    assert isinstance(choose(None, State), Notebook)
    sys.displayhook(State.SUCCEEDED)
    sys.displayhook("another value")
    assert shown == ["another value"]


def test_an_experiment_shows_progress_in_plain_lines_and_on_its_page(tmp_path, capsys):
    path = tmp_path / "train.py"
    path.write_text(SCRIPT)
    scan = Trainer(Local(gpus=0)).map(str(path), [{"n": 1}], name="counted", arguments=lambda _: [])
    scan.wait("2m", progress="plain")
    assert scan.jobs[0].metrics().progress.left_s == 18.0
    scan.save_html(tmp_path / "page.html")
    assert "25%" in (tmp_path / "page.html").read_text()
    lines = capsys.readouterr().err.splitlines()
    assert lines[-1] == "-- Experiment counted: 1 point: 1 succeeded"
    assert len(lines) == len(set(lines))
