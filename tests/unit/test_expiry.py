"""A job whose time was up: one that hung is not told to pay for more."""

from datetime import datetime, timedelta, timezone

import pytest

from gputrain.backends.base import LogLine
from gputrain.job.result import ended, silent_for
from gputrain.jobstore import JobRef
from gputrain.lifecycle import Failure, State
from tests.each import each

END = datetime(2026, 11, 22, 12, tzinfo=timezone.utc)
REF = JobRef(project="", home="", name="bert-1")
SEEN = Failure(kind="time_limit"), "max_run_duration is over"


def line(before_s, rank=0):
    return LogLine(message="step", rank=rank, time=END - timedelta(seconds=before_s))


@each(
    ("lines", "silence_s"),
    [
        ([line(7200), line(2520)], 2520),
        ([line(2520), line(20)], 2520),
        ([line(2520), line(61)], 61),
        ([line(2520), line(70, rank=None)], 2520),
        ([line(30)], None),
        ([LogLine(message="undated", rank=0)], None),
    ],
)
def test_the_silence_before_the_end_is_that_of_the_ranks(lines, silence_s):
    expected = None if silence_s is None else timedelta(seconds=silence_s)
    assert silent_for(lines, END) == expected


def test_a_job_that_hung_is_not_told_to_raise_its_limit():
    error = ended(REF, State.EXPIRED, *SEEN, timedelta(minutes=42))
    assert error.kind == "time_limit"
    assert "no rank had written a line for 42m" in error.why
    assert "max_run_duration" not in error.fix
    assert "--tail 50" in error.fix


@pytest.mark.parametrize("silence", [None, timedelta(minutes=2)])
def test_a_job_that_was_at_work_is(silence):
    assert "raise max_run_duration" in ended(REF, State.EXPIRED, *SEEN, silence).fix
