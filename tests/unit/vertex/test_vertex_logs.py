# lines of a log stand whole
"""Lines from Cloud Logging: in order, none twice, late ones included, each with its rank and severity."""

import math

import pytest

from gputrain_emulator.logging import Logs
from gputrain_emulator.vertex.states import Fate

ENTRIES = "logging.entries.list"
IMAGE = "us-docker.pkg.dev/my-project/train/image:1"


@pytest.fixture
def alone(trainer, cloud):
    """Submits an image as it is: nothing of gputrain runs in it."""
    cloud.add_image(IMAGE)
    return lambda through=None, **fields: (through or trainer()).submit(image=IMAGE, gpu="L4:2", **fields)


@pytest.fixture
def job(alone, cloud):
    submitted = alone(num_nodes=2)
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
    alone, trainer, vertex, cloud
):
    vertex.set_fate(Fate(run_s=math.inf))
    shared = trainer()
    jobs, cursors = [alone(shared, idempotency_key=key) for key in "abc"], {}
    for _ in range(120):
        for job in jobs:
            cursors[job.id] = logs_of(job, cursors.get(job.id, "")).cursor
        cloud.clock.advance(0.5)
    assert 40 <= sum(one.method == ENTRIES for one in cloud.requests) <= 60


def test_a_job_that_wrote_nothing_into_its_bucket_has_its_lines_in_cloud_logging(submit, vertex, cloud):
    vertex.set_fate(Fate(exits=(1,), run_s=60))
    job = submit()
    cloud.clock.advance(200)
    vertex.write_log(next(iter(vertex.jobs.values())), "workerpool0-0", "gputrain: cannot fetch the code")
    assert not list(job.logs())
    cloud.clock.advance(1000)
    assert "gputrain: cannot fetch the code" in [line.message for line in job.logs()]
