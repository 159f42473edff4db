"""Lines from serial ports and log objects as one stream: in order, none twice, losses told by the byte."""

import json

import pytest

from gputrain.entrypoint import contract
from gputrain.google import Objects
from gputrain_emulator.clock import zulu_time
from tests.unit.compute.test_compute_causes import result

PREFIX = "Nov 20 12:00:00 host google_metadata_script_runner[2]: startup-script: "


class Guest:
    """Writes as the guest does: into its log, and to its serial port after the offset."""

    def __init__(self, jobs, rank):
        self.jobs, self.rank, self.log = jobs, rank, b""

    def say(self, text, *, is_serial=True, ahead_s=0):
        stamp = zulu_time(self.jobs.cloud.clock.now() + ahead_s)
        line = json.dumps({"severity": "INFO", "message": text, "rank": self.rank, "time": stamp})
        self.log += line.encode() + b"\n"
        if is_serial:
            name = self.jobs.names()[self.rank]
            self.jobs.cloud.serial(name, f"{PREFIX}gputrain:{len(self.log)}:{line}\r\n")

    def send(self):
        name = f"jobs/bert/{self.jobs.record().attempt.id}/node-{self.rank}.log"
        Objects(self.jobs.backend._access, "my-bucket").write(name, self.log, if_generation=None)


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
        guest.send()
        done = result("done", 0, node_rank=guest.rank)
        jobs.say(guest.rank, "ended", exit_code=0, result=done)
    assert jobs.look().is_over


def test_lines_of_all_nodes_come_in_order_and_none_twice(cloud, jobs, guests):
    said, cursor = [], ""
    for number in range(20):
        guests[number % 2].say(f"line {number}")
        cloud.clock.advance(0.4)
        more, cursor = read(jobs, cursor)
        said += more
    cloud.clock.advance(5)
    assert said + read(jobs, cursor)[0] == [f"line {number}" for number in range(20)]


def test_a_gap_in_the_ring_is_told_by_the_byte(cloud, jobs, guests):
    guests[0].say("first")
    cloud.clock.advance(5)
    page = page_of(jobs)
    lost_from = len(guests[0].log)
    for number in range(12):
        guests[0].say(f"{number} " + "x" * 100_000)
    cloud.clock.advance(5)
    after = page_of(jobs, page.cursor)
    shown = [int(line.message.split()[0]) for line in after.lines]
    assert shown == list(range(shown[0], 12))
    assert shown[0] > 0
    lost = sum(len(line) + 1 for line in guests[0].log[lost_from:].split(b"\n")[: shown[0]])
    assert after.missed_bytes == lost


def test_the_log_object_goes_on_where_the_port_ended(cloud, jobs, guests):
    guests[0].say("seen on the port")
    cloud.clock.advance(5)
    _, cursor = read(jobs)
    guests[0].say("only in the object", is_serial=False)
    guests[1].say("of the other node", is_serial=False)
    end(jobs, guests)
    after, cursor = read(jobs, cursor)
    assert sorted(after) == ["of the other node", "only in the object"]
    assert read(jobs, cursor)[0] == []
    assert sorted(read(jobs)[0]) == ["of the other node", "only in the object", "seen on the port"]


@pytest.mark.parametrize("ahead_s", [7200, -7200])
def test_a_node_whose_clock_is_hours_off_is_read_while_it_runs_and_holds_up_nobody(
    cloud, jobs, guests, ahead_s
):
    said, cursor = [], ""
    for number in range(10):
        guests[0].say(f"right {number}")
        guests[1].say(f"wrong {number}", ahead_s=ahead_s)
        cloud.clock.advance(5)
        more, cursor = read(jobs, cursor)
        said += more
        assert {f"right {number}", f"wrong {number}"} <= set(said)
    assert len(said) == 20


def test_lines_come_once_and_go_on_with_the_next_attempt(cloud, jobs, guests):
    first = jobs.record().attempt
    for number in range(6):
        guests[number % 2].say(f"line {number}")
        cloud.clock.advance(2)
    said, cursor = read(jobs)
    assert said == [f"line {number}" for number in range(6)]
    guests[0].say("the last")
    for guest in guests:
        guest.send()
    for name in first.names:
        cloud.host_error(name)
    jobs.pass_by(120)
    assert jobs.record().attempt.id != first.id
    cloud.clock.advance(60)
    guests = [Guest(jobs, rank) for rank in range(2)]
    guests[1].say("again")
    cloud.clock.advance(5)
    more, cursor = read(jobs, cursor)
    assert more == ["the last", "again"]
    assert read(jobs)[0] == [*said, *more]
    assert cursor.startswith(f"{jobs.record().attempt.id}/")
    end(jobs, guests)
    assert read(jobs, cursor)[0] == []
    assert read(jobs, jobs.backend.cursor_near_end(jobs.record(), 1))[0][-1] == "again"


def test_stacks_are_asked_for_and_read_beside_the_attempt(cloud, jobs):
    attempt = jobs.submit().record.attempt
    stored = Objects(jobs.backend._access, "my-bucket")
    jobs.backend.ask_for_stacks(jobs.record(), "n1")
    assert stored.read(f"jobs/bert/{attempt.id}/{contract.STACKS_ASK}").content == b"n1"
    answer = json.dumps({"ranks": [{"rank": 1, "trace": "train.py:3"}]}).encode()
    stored.write(f"jobs/bert/{attempt.id}/{contract.STACKS_ASK}-n1-1.json", answer, if_generation=None)
    assert jobs.backend.stacks(jobs.record(), "n1")[1][0]["trace"] == "train.py:3"
