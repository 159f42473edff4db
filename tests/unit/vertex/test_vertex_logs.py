# lines of a log stand whole
"""Log lines: in order, none twice, late ones included, each with its rank and severity."""

import json
import math

import pytest

from gputrain.backends.vertex import logs
from gputrain.backends.vertex.states import SeenJob
from gputrain_emulator.logging import Logs
from gputrain_emulator.vertex.states import Fate

ENTRIES = "logging.entries.list"


@pytest.fixture
def job(submit, cloud):
    submitted = submit(num_nodes=2)
    cloud.clock.advance(200)
    return submitted


@pytest.fixture
def say(vertex, job):
    def write(text, task="workerpool0-0", severity="INFO", **payload):
        (only,) = vertex.jobs.values()
        vertex.write_log(
            only, task, text, severity=severity, payload={"message": text, **payload} if payload else None
        )

    return write


def logs_of(job, cursor=""):
    """One page."""
    record = job._context.jobs.read(job.id).record
    return job._context.backends["vertex"].logs(record, cursor)


def near_end(job, lines):
    record = job._context.jobs.read(job.id).record
    return job._context.backends["vertex"].cursor_near_end(record, lines)


def read(job, cloud, cursor=""):
    """All lines since the cursor, and the cursor after them."""
    found = []
    while True:
        cloud.clock.advance(3)  # so that it is our turn
        page = logs_of(job, cursor)
        found += [
            line
            for line in page.lines
            if not line.message.startswith("Job ") and "Waiting" not in line.message
        ]
        if page.cursor == cursor:
            return found, cursor
        cursor = page.cursor


def test_lines_come_in_order_with_rank_node_and_severity(job, say, cloud):
    say("hello", rank=0)
    cloud.clock.advance(1)
    say("broken", task="workerpool1-3", severity="ERROR", rank=2.0)  # as JSON has no other numbers
    cloud.clock.advance(1)
    say("plain")
    lines, _ = read(job, cloud)
    assert [(one.message, one.rank, one.node_rank, one.severity) for one in lines] == [
        ("hello", 0, 0, "INFO"), ("broken", 2, 4, "ERROR"), ("plain", None, 0, "INFO"),
    ]  # fmt: skip
    assert lines[0].time < lines[1].time


def test_no_line_comes_twice_and_none_is_left_out(job, say, cloud):
    seen, cursor = [], ""
    for number in range(30):
        say(f"line {number}", rank=0)
        cloud.clock.advance(number % 4)
        if number % 7 == 0:
            lines, cursor = read(job, cloud, cursor)
            seen += lines
    lines, _ = read(job, cloud, cursor)
    assert [one.message for one in seen + lines] == [f"line {n}" for n in range(30)]


def test_a_line_that_arrives_late_is_included(job, say, cloud):
    say("first", rank=0)
    book = cloud.world.part(Logs)
    book.delay_s = 20
    say("late", rank=1)
    book.delay_s = 0
    cloud.clock.advance(5)
    say("on time", rank=0)
    lines, cursor = read(job, cloud)
    assert [one.message for one in lines] == ["first", "on time"]
    cloud.clock.advance(30)
    lines, _ = read(job, cloud, cursor)
    assert [one.message for one in lines] == ["late"]


def test_a_cursor_goes_on_in_another_process(job, say, cloud, trainer):
    say("one", rank=0)
    _, cursor = read(job, cloud)
    say("two", rank=0)
    other = trainer().attach(job.uri)
    assert [one.message for one in read(other, cloud, cursor)[0]] == ["two"]


def test_the_last_lines_are_read_from_near_the_end_and_none_before_them(job, say, cloud):
    for number in range(40):
        say(f"line {number}", rank=0)
        cloud.clock.advance(1)
    every = len(logs_of(job).lines)
    for lines in (1, 5):
        found, _ = read(job, cloud, near_end(job, lines))
        assert [one.message for one in found] == [f"line {number}" for number in range(40 - lines, 40)]
    told = [near_end(job, lines) for lines in (-1, 0, every, every + 1, 10**6)]
    assert [bool(cursor) for cursor in told] == [False, False, True, False, False]


def test_however_many_jobs_are_read_along_they_stay_within_sixty_reads_a_minute(
    submit, trainer, vertex, cloud
):
    vertex.set_fate(Fate(run_s=math.inf))
    shared = trainer()
    jobs, cursors = [submit(shared, idempotency_key=key) for key in "abc"], {}
    for _ in range(120):
        for job in jobs:
            cursors[job.id] = logs_of(job, cursors.get(job.id, "")).cursor
        cloud.clock.advance(0.5)
    assert 40 <= sum(one.method == ENTRIES for one in cloud.requests) <= 60


def test_the_last_lines_of_an_ended_job_are_read_without_waiting_for_a_turn(job, say, cloud):
    read(job, cloud)
    say("last words", rank=0)
    cloud.clock.advance(1000)
    found = [line.message for line in job.logs()]
    assert "last words" in found


def test_only_a_whole_result_line_is_believed():
    assert logs._document('GPUTRAIN_RESULT {"state": "done"}') == {"state": "done"}
    for words in (
        'I print GPUTRAIN_RESULT {"state": "done"}',
        "GPUTRAIN_RESULT {torn",
        "GPUTRAIN_RESULT []",
        json.dumps({}),
    ):
        assert logs._document(words) is None


def results_of(job, make):
    handle = job._context.jobs.read(job.id).record.attempt.handle
    return logs.results(make()._access, SeenJob(resource=handle, job_id=job.id, state=""))


def test_a_result_that_a_rank_prints_of_a_job_within_it_is_not_its_own(job, say, cloud, make):
    say('GPUTRAIN_RESULT {"node_rank": 0, "state": "failed"}')
    cloud.clock.advance(5)
    say('GPUTRAIN_RESULT {"node_rank": 0, "state": "done"}', rank=0)
    cloud.clock.advance(60)
    (found,) = results_of(job, make)
    assert found["state"] == "failed"


@pytest.mark.parametrize(
    "told", ['{"node_rank": "x"}', '{"node_rank": [1]}', '{"node_rank": 1e999}', "[" * 60_000]
)
def test_a_script_that_prints_what_looks_like_a_result_ends_no_look(job, say, cloud, make, told):
    say(f"GPUTRAIN_RESULT {told}")
    say("of a rank that is none", rank=float(1 << 40))
    cloud.clock.advance(60)
    assert results_of(job, make) in ([], [{}])
    lines, _ = read(job, cloud)
    assert [one.rank for one in lines if "of a rank" in one.message] == [None]
