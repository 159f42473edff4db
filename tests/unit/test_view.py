import io
from datetime import timedelta

import pytest

from gputrain import SpecError, view
from gputrain.backends.base import LogLine
from gputrain.lifecycle import State
from gputrain.metrics import Metrics

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
