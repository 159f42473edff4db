"""One experiment in many hands: whoever takes it up asks for the same, loses nothing, and ends all of it."""

import functools

import pytest

from gputrain import SpecError
from gputrain.experiments.begin import resumed
from gputrain.experiments.book import ExperimentRecord, board_of, cancel, is_cancelled
from gputrain.records import FolderBoard, RecordError


def test_one_answer_that_nothing_is_noted_begins_no_cancelled_experiment_anew(tmp_path, monkeypatch):
    home, other = (FolderBoard(tmp_path / name) for name in ("home", "other"))
    other.keep("scan", b"{}", 0)
    cancel(other, "scan")
    answers, truth = iter([lambda _: None]), other.note
    monkeypatch.setattr(other, "note", lambda name: next(answers, truth)(name))
    assert board_of([home, other], "scan") is other
    answers = iter([lambda _: None])
    assert is_cancelled(other, "scan")


def test_an_experiment_whose_spec_cannot_be_read_tells_what_can_be_done(tmp_path):
    board, spec = FolderBoard(tmp_path), {"script": "train.py", "of_tomorrow": 1}
    book = ExperimentRecord(name="scan", spec=spec, points=({"x": 0},), args=((),), limits_usd=(None,))
    board.keep("scan", book.written(), 0)
    with pytest.raises(RecordError, match="of the experiment scan cannot be read") as caught:
        resumed(None, [board], "scan")
    assert "of_tomorrow" in caught.value.why


def scaled(x, mark):
    """A function that is mapped."""


def test_arguments_that_are_none_are_told_as_faults(trainer, script):
    for wrong in (5, "ab", None, object()):
        with pytest.raises(SpecError, match="arguments"):
            trainer.map(script, [{"x": 1}], name="scan", arguments=lambda _, wrong=wrong: wrong)
    for over in (5, None, {"x": 1}, "x"):
        with pytest.raises(SpecError, match="over"):
            trainer.map(script, over, name="scan")
    for most in (2.5, 0, True, "2"):
        with pytest.raises(SpecError, match="max_parallel"):
            trainer.map(script, [{"x": 1}], name="scan", max_parallel=most)
    with pytest.raises(SpecError, match="each point once"):
        trainer.map(functools.partial(scaled, mark=""), [{"x": 1}, {"x": 1, "mark": ""}], name="scan")
