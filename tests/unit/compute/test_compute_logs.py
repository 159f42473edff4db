"""The log of a job from the parts that its nodes write: in order, none twice."""

import json

import pytest

from gputrain.google import Objects
from gputrain.job.logs import LogReader
from gputrain.runtime import contract
from gputrain_emulator.clock import zulu_time
from tests.unit.compute.test_compute_causes import result


class Guest:
    """Writes as a node does: the parts of its log, each time the last one anew."""

    def __init__(self, jobs, rank):
        self.jobs, self.rank, self.part_at, self.part = jobs, rank, 0, b""

    def say(self, text, *, ahead_s=0):
        stamp = zulu_time(self.jobs.cloud.clock.now() + ahead_s)
        line = json.dumps({"severity": "INFO", "message": text, "rank": self.rank, "time": stamp})
        if len(self.part) >= contract.LOG_PART_BYTES:
            self.part_at, self.part = self.part_at + len(self.part), b""
        self.part += line.encode() + b"\n"
        part = contract.LOG_PART.format(node_rank=self.rank, offset=self.part_at)
        name = f"jobs/bert/{self.jobs.record().attempt.id}/{part}"
        Objects(self.jobs.backend._access, "my-bucket").write(name, self.part, if_generation=None)


@pytest.fixture
def guests(jobs):
    jobs.submit(provisioning_model="spot", max_restarts=1)
    jobs.run()
    return [Guest(jobs, rank) for rank in range(2)]


def page_of(jobs, cursor=""):
    return jobs.backend.logs(jobs.record(), cursor)


def read(jobs, cursor=""):
    """All that is there beyond a cursor, and the cursor after it."""
    said = []
    while (page := page_of(jobs, cursor)).lines:
        said, cursor = said + [line.message for line in page.lines], page.cursor
    return said, page.cursor


def end(jobs, guests):
    """The job ends, its logs are whole, and a look sees it; nobody has written it down yet."""
    for guest in guests:
        done = result("done", 0, node_rank=guest.rank)
        jobs.say(guest.rank, "ended", exit_code=0, result=done)
    assert jobs.look().is_over


def test_the_last_lines_are_exact_over_nodes_and_parts(cloud, jobs, guests, monkeypatch):
    monkeypatch.setattr("gputrain.backends.run_reports.LOG_PART_BYTES", 500)
    monkeypatch.setattr(contract, "LOG_PART_BYTES", 500)
    for number in range(60):
        guests[number % 5 // 4].say(f"line {number}")
        cloud.clock.advance(1)
    end(jobs, guests)
    for count in (1, 7, 30):
        cursor = jobs.backend.cursor_near_end(jobs.record(), count)
        assert read(jobs, cursor)[0][-count:] == [f"line {number}" for number in range(60 - count, 60)]
        assert len(read(jobs, cursor)[0]) <= 2 * count
    assert jobs.backend.cursor_near_end(jobs.record(), 100) == ""
    assert read(jobs)[0] == [f"line {number}" for number in range(60)]


def follow(jobs, reader):
    """What a reader shows who looks again now."""
    pages = reader.pages(jobs.backend, jobs.record())
    return [line.message for page in pages for line in page]


def test_lines_come_once_and_go_on_with_the_next_attempt(cloud, jobs, guests):
    first, reader = jobs.record().attempt, LogReader()
    for number in range(6):
        guests[number % 2].say(f"line {number}")
        cloud.clock.advance(2)
    cloud.clock.advance(10)
    said, cursor = read(jobs)
    assert said == [f"line {number}" for number in range(6)] == follow(jobs, reader)
    guests[0].say("the last")
    for name in first.names:
        cloud.host_error(name)
    jobs.pass_by(120)
    assert jobs.record().attempt.id != first.id
    cloud.clock.advance(60)
    guests = [Guest(jobs, rank) for rank in range(2)]
    guests[1].say("again")
    cloud.clock.advance(11)
    more, cursor = read(jobs, cursor)
    assert more == ["the last", "again"] == follow(jobs, reader)
    assert read(jobs)[0] == [*said, *more]
    assert cursor.startswith(f"{jobs.record().attempt.id}/")
    end(jobs, guests)
    assert read(jobs, cursor)[0] == []
    assert read(jobs, jobs.backend.cursor_near_end(jobs.record(), 1))[0][-1] == "again"
