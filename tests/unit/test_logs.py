from datetime import datetime, timedelta, timezone

import pytest

from gputrain import Local, RequestError, SpecError, Trainer, TransientError
from gputrain.backends.base import LogLine
from gputrain.job import logs
from gputrain.job.result import ended, silent_for
from gputrain.jobstore import JobRef
from gputrain.lifecycle import Failure, State
from tests.each import each

SPEAKS = """
import os, sys
for step in range(50):
    print(f"step {step}")
print("late words", file=sys.stderr)
"""


@pytest.fixture(scope="module")
def spoken(tmp_path_factory):
    """A job of two ranks that has said what it had to say."""
    script = tmp_path_factory.mktemp("speaks") / "speaks.py"
    script.write_text(SPEAKS)
    job = Trainer(Local(gpus=0, root=str(script.parent / "jobs"))).submit(str(script), nproc_per_node=2)
    job.wait(60)
    return job


def messages(lines):
    return [line.message for line in lines]


def test_the_tail_of_a_job_that_is_followed_comes_first(spoken):
    assert messages(spoken.logs(rank=0, grep="step", tail=1, follow=True)) == ["step 49"]


def test_a_log_that_is_followed_goes_on_after_a_failure(tmp_path, monkeypatch, caplog):
    script, place = tmp_path / "speaks.py", Local(gpus=0, root=str(tmp_path / "jobs"))
    script.write_text(SPEAKS)
    job, faults, logs_of = Trainer(place).submit(str(script), nproc_per_node=1), [], Local.logs

    def failing(*words):
        if faults and faults.pop(0):
            raise TransientError("the logging service does not answer")
        return logs_of(*words)

    monkeypatch.setattr(Local, "logs", failing)
    faults[:] = [True, True]
    assert len(list(job.logs(rank=0, grep="^step", follow=True))) == 50
    assert caplog.text.count("cannot be read; trying on: the logging service does not answer") == 1
    monkeypatch.setattr(logs, "BLIND_FOR_AT_MOST_S", 0.1)
    for follow in (True, False):
        faults[:] = [True] * 10_000
        with pytest.raises(TransientError):
            list(job.logs(follow=follow))


@pytest.mark.parametrize("wrong", [{"tail": "5"}, {"tail": -1}, {"tail": True}, {"rank": -1}, {"rank": 0.5}])
def test_a_count_that_is_none_is_refused_at_once(spoken, wrong):
    with pytest.raises(SpecError, match=next(iter(wrong))):
        spoken.logs(**wrong)


@pytest.mark.parametrize("wrong", ["a{99999999999}", b"step", 5, "(" * 5000 + ")" * 5000])
def test_what_cannot_be_looked_for_is_refused_at_once(spoken, wrong):
    with pytest.raises(RequestError, match="no regular expression"):
        spoken.logs(grep=wrong)


def test_metric_lines_are_left_out_unless_wanted_and_the_tail_counts_what_it_returns(tmp_path):
    script = tmp_path / "reports.py"
    script.write_text("for n in range(9):\n    print(f'GPUTRAIN_METRIC {{\"step\": {n}}}')\n    print(n)\n")
    job = Trainer(Local(gpus=0, root=str(tmp_path / "jobs"))).submit(str(script), nproc_per_node=1)
    job.wait(60)
    assert messages(job.logs(rank=0, tail=3)) == ["6", "7", "8"]
    assert messages(job.logs(rank=0, tail=3, metrics=True)) == ["7", 'GPUTRAIN_METRIC {"step": 8}', "8"]


def test_a_rank_that_does_not_exist_is_refused_with_those_that_do(spoken):
    with pytest.raises(SpecError, match=r"rank: 7 is not valid\. Expected a rank of speaks-.*: 0 to 1"):
        spoken.logs(rank=7)


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
