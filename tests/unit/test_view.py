import io
import json
import math
import sys
from datetime import timedelta

import attrs
import pytest

from gputrain import SpecError, view
from gputrain.backends.base import LogLine
from gputrain.lifecycle import Failure, State
from gputrain.metrics import Metrics, Reports
from gputrain.view import Cell, CellPage, Notebook

LINES = [
    LogLine(message="loading", rank=0),
    LogLine(message='GPUTRAIN_METRIC {"step": 1, "loss": 2.5}', rank=0),
    LogLine(message="node 0 is ready"),
]


def snapshot(state):
    metrics = Metrics.read(line.message for line in LINES)
    return view.Snapshot(
        title="bert-x1", state=state, elapsed=timedelta(seconds=61), metrics=metrics, cost_usd=1.5
    )


def test_plain_lines_carry_their_rank_and_leave_out_what_is_for_programs():
    out = io.StringIO()
    plain = view.PlainLines(out)
    plain.lines(LINES)
    plain.status(snapshot(State.RUNNING))
    plain.status(snapshot(State.RUNNING))
    plain.status(snapshot(State.SUCCEEDED))
    assert out.getvalue().splitlines() == [
        "[0] loading",
        "[agent] node 0 is ready",
        "-- bert-x1 · running · 1m1s · step 1 · loss 2.5 · $1.50",
        "-- bert-x1 · succeeded · 1m1s · step 1 · loss 2.5 · $1.50",
    ]


def test_a_program_that_embeds_us_sees_nothing(monkeypatch, capfd):
    monkeypatch.delenv("GPUTRAIN_PROGRESS", raising=False)
    shown = view.choose()
    shown.lines(LINES)
    shown.status(snapshot(State.RUNNING))
    shown.close()
    assert isinstance(shown, view.Quiet)
    assert capfd.readouterr() == ("", "")


@pytest.mark.parametrize("progress", [None, "plain", "rich"])
def test_a_service_that_has_closed_its_streams_sees_nothing(monkeypatch, progress):
    monkeypatch.setattr(sys, "stderr", None)
    assert isinstance(view.choose(progress), view.Quiet)


def test_a_terminal_sees_log_lines_and_one_live_line(capfd):
    shown = view.choose("rich")
    shown.lines(LINES)
    shown.status(snapshot(State.SUCCEEDED))
    shown.close()
    text = capfd.readouterr().err
    assert "loading" in text
    assert "succeeded" in text
    assert "GPUTRAIN_METRIC" not in text


def test_the_environment_chooses_for_a_whole_process(monkeypatch):
    monkeypatch.setenv("GPUTRAIN_PROGRESS", "plain")
    assert isinstance(view.choose(), view.PlainLines)
    assert isinstance(view.choose("none"), view.Quiet)


def test_an_unknown_word_is_refused():
    with pytest.raises(SpecError, match="auto, rich, plain, none"):
        view.choose("loud")


class Shell:
    """A kernel's display, as far as a cell uses it: what is shown is kept."""

    def __init__(self, monkeypatch):
        self.pages = []
        monkeypatch.setitem(sys.modules, "IPython.display", self)

    def display(self, page, *, display_id):
        assert display_id
        self.pages.append(page)
        return self

    def update(self, page):
        self.pages.append(page)


def test_a_cell_is_drawn_at_most_twice_a_second_and_only_for_news(monkeypatch):
    shell, now, drawn = Shell(monkeypatch), [0.0], []
    cell = Cell(lambda: now[0])
    for tick in range(100):
        now[0] = tick * 0.03
        cell.show(tick // 10, lambda tick=tick: drawn.append(tick) or CellPage("", str(tick)))
    assert len(shell.pages) == len(drawn) <= 7
    cell.close()
    assert shell.pages[-1].text.startswith("9")
    now[0] = 100.0
    cell.show(9, lambda: CellPage("", "again"))
    assert shell.pages[-1].text != "again"


def test_the_cause_of_a_failure_stands_above_the_log(monkeypatch):
    shell = Shell(monkeypatch)
    shown = Notebook()
    shown.lines([LogLine(message="<b>loading</b>", rank=0)])
    failure = Failure(kind="exception", message="ValueError: <too> high", rank=1, traceback="Traceback...")
    shown.status(attrs.evolve(snapshot(State.FAILED), failure=failure))
    bundle = shell.pages[-1]._repr_mimebundle_()
    page = bundle["text/html"]
    assert page.index("&lt;too&gt; high") < page.index("&lt;b&gt;loading")
    assert "<details>" in page
    assert "failed" in bundle["text/plain"]


@pytest.mark.check
def test_a_cell_of_a_hundred_thousand_reports_is_small_and_soon_drawn(monkeypatch):
    shell, reports = Shell(monkeypatch), Reports()
    told = ({"step": step, "loss": math.sin(step), "lr": 1 / (step + 1)} for step in range(100_000))
    reports.add("GPUTRAIN_METRIC " + json.dumps(one) for one in told)
    shown = Notebook()
    shown.status(attrs.evolve(snapshot(State.SUCCEEDED), metrics=reports.metrics))
    assert len(shell.pages[-1].html) < 60_000


def test_the_last_line_of_progress_ends_before_what_comes_next(capsys):
    shown = view.Terminal()
    shown.status(snapshot(State.SUCCEEDED))
    shown.close()
    assert capsys.readouterr().err.endswith("\n")
