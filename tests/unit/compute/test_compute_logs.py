"""Lines from serial ports and log objects as one stream: in order, none twice, losses told by the byte."""

import json

import pytest

from gputrain.backends.compute.names import VmNames
from gputrain.gcp import Objects
from gputrain.keeper.mirror import is_plain
from gputrain.spec import TrainingSpec
from gputrain_emulator.clock import zulu_time

PREFIX = "Nov 20 12:00:00 host google_metadata_script_runner[2]: startup-script: "


class Guest:
    """Writes as the guest does: into its log, and to its serial port after the offset."""

    def __init__(self, cloud, road, rank):
        self.cloud, self.road, self.rank = cloud, road, rank
        self.log = b""

    def say(self, text, *, is_serial=True, ahead_s=0):
        stamp = zulu_time(self.cloud.clock.now() + ahead_s)
        line = json.dumps({"severity": "INFO", "message": text, "rank": self.rank, "time": stamp})
        self.log += line.encode() + b"\n"
        if is_serial:
            self.cloud.serial(f"bert-1-0-{self.rank}", f"{PREFIX}gputrain:{len(self.log)}:{line}\r\n")

    def send(self):
        self.road.backend._access.post(
            f"{self.cloud.endpoints.storage}/upload/storage/v1/b/my-bucket/o",
            action="send the log",
            params={"uploadType": "media", "name": f"jobs/bert-1/attempt-0/node-{self.rank}.log"},
            data=self.log,
        )


@pytest.fixture
def job(cloud, road, code):
    ref = road.submit(
        TrainingSpec(script=code, gpu="L4:1", num_nodes=2, max_run_duration="1h"), job_id="bert-1"
    )
    return ref, [Guest(cloud, road, rank) for rank in range(2)]


def test_lines_of_all_nodes_come_in_order_and_none_twice(cloud, road, job):
    ref, guests = job
    said, cursor = [], ""
    for number in range(20):
        guests[number % 2].say(f"line {number}")
        cloud.clock.advance(0.4)
        page = road.backend.logs(ref, cursor)
        said += [line.message for line in page.lines]
        cursor = page.cursor
    cloud.clock.advance(5)
    said += [line.message for line in road.backend.logs(ref, cursor).lines]
    assert said == [f"line {number}" for number in range(20)]


def test_a_cursor_of_another_form_is_the_beginning(cloud, road, job):
    ref, guests = job
    for number in range(4):
        guests[number % 2].say(f"line {number}")
    cloud.clock.advance(5)
    whole = road.backend.logs(ref)
    assert sorted(line.message for line in whole.lines) == [f"line {number}" for number in range(4)]
    for cursor in ("x", "0", "0/1.2", "0/1.2,3.4,5.6", "0/1.2;3.4", "1.2,3.4"):
        assert road.backend.logs(ref, cursor) == whole
    assert road.backend.logs(ref, whole.cursor).lines == ()
    (attempt, _, pairs) = whole.cursor.partition("/")
    assert (attempt, [pair.partition(".")[2] for pair in pairs.split(",")]) == (
        "0",
        [str(len(one.log)) for one in guests],
    )


def test_what_the_kernel_writes_to_the_port_is_no_line_of_the_job(cloud, road, job):
    ref, guests = job
    cloud.serial("bert-1-0-0", "[    0.000000] Linux version 6.8.0\r\n")
    guests[0].say("mine")
    cloud.clock.advance(5)
    assert [line.message for line in road.backend.logs(ref).lines] == ["mine"]


def test_a_gap_in_the_ring_is_told_by_the_byte(cloud, road, job):
    ref, guests = job
    guests[0].say("first")
    cloud.clock.advance(5)
    page = road.backend.logs(ref)
    lost_from = len(guests[0].log)
    for number in range(12):
        guests[0].say(f"{number} " + "x" * 100_000)
    cloud.clock.advance(5)
    after = road.backend.logs(ref, page.cursor)
    shown = [int(line.message.split()[0]) for line in after.lines]
    assert shown == list(range(shown[0], 12))
    assert shown[0] > 0
    lost = sum(len(line) + 1 for line in guests[0].log[lost_from:].split(b"\n")[: shown[0]])
    assert after.missed_bytes == lost


def test_the_log_object_goes_on_where_the_port_ended(cloud, road, job):
    ref, guests = job
    guests[0].say("seen on the port")
    cloud.clock.advance(5)
    page = road.backend.logs(ref)
    guests[0].say("only in the object", is_serial=False)
    guests[1].say("of the other node", is_serial=False)
    for guest in guests:
        guest.send()
    road.backend.cancel(ref)
    cloud.clock.advance(300)
    after = road.backend.logs(ref, page.cursor)
    assert sorted(line.message for line in after.lines) == ["of the other node", "only in the object"]
    assert road.backend.logs(ref, after.cursor).lines == ()
    whole = [line.message for line in road.backend.logs(ref).lines]
    assert sorted(whole) == ["of the other node", "only in the object", "seen on the port"]


@pytest.mark.parametrize("ahead_s", [7200, -7200])
def test_a_node_whose_clock_is_hours_off_is_read_while_it_runs_and_holds_up_nobody(cloud, road, job, ahead_s):
    ref, guests = job
    said, cursor = [], ""
    for number in range(10):
        guests[0].say(f"right {number}")
        guests[1].say(f"wrong {number}", ahead_s=ahead_s)
        cloud.clock.advance(5)
        page = road.backend.logs(ref, cursor)
        said += [line.message for line in page.lines]
        cursor = page.cursor
        assert {f"right {number}", f"wrong {number}"} <= set(said)
    assert len(said) == 20


def ended(cloud, road, ref, guests):
    for guest in guests:
        guest.send()
    road.backend.cancel(ref)
    cloud.clock.advance(300)


def pages(road, ref, cursor=""):
    while (page := road.backend.logs(ref, cursor)).lines:
        yield [line.message for line in page.lines]
        cursor = page.cursor


def test_a_log_that_is_large_comes_in_pages_that_are_small(cloud, road, job, monkeypatch):
    monkeypatch.setattr("gputrain.backends.compute.logs.CHUNK_BYTES", 2000)
    ref, guests = job
    for number in range(300):
        guests[number % 3 // 2].say(f"{number} " + "x" * (5000 if number == 150 else 10), is_serial=False)
        cloud.clock.advance(0.1)
    ended(cloud, road, ref, guests)
    found = list(pages(road, ref))
    assert max(map(len, found)) < 60
    assert [int(line.split()[0]) for page in found for line in page] == list(range(300))


@pytest.mark.parametrize("is_over", [False, True])
def test_the_last_lines_are_found_without_the_first(cloud, road, job, is_over):
    ref, guests = job
    for number in range(900):
        guests[0].say(f"{number} " + "x" * 2000)
    cloud.clock.advance(5)
    if is_over:
        ended(cloud, road, ref, guests)
    cursor = road.backend.cursor_near_end(ref, 20)
    found = [int(line.split()[0]) for page in pages(road, ref, cursor) for line in page]
    assert found[0] > 300
    assert found == list(range(found[0], 900))


def test_the_log_of_a_job_that_was_started_again_goes_on_with_the_next_attempt(backend):
    written = Objects(backend._access, "my-bucket")
    for attempt, rank in ((0, 0), (0, 1), (2, 0), (2, 1)):  # the one between them wrote nothing
        at = f"2026-11-20T12:0{attempt}:0{rank}Z"
        line = json.dumps({"severity": "INFO", "message": f"{attempt} {rank}", "rank": rank, "time": at})
        name = f"jobs/bert-1/attempt-{attempt}/node-{rank}.log"
        written.write(name, line.encode() + b"\n", if_generation=None)
    names = ("bert-1-2-0", "bert-1-2-1")
    gang = VmNames(job_id="bert-1", attempt=2, zone="us-central1-a", names=names, nonce="cafe", most=2)
    said, cursor = [], ""
    while (page := backend._logs.read(gang, cursor, is_over=True)).lines:
        said.append([line.message for line in page.lines])
        cursor = page.cursor
    assert said == [["0 0", "0 1"], ["2 0", "2 1"]]


def test_the_log_of_a_job_whose_many_attempts_said_nothing_is_looked_through_to_its_end(backend):
    line = json.dumps({"severity": "INFO", "message": "at last", "rank": 0, "time": "2026-11-20T12:00:00Z"})
    name = "jobs/bert-1/attempt-1000/node-0.log"
    Objects(backend._access, "my-bucket").write(name, line.encode() + b"\n", if_generation=None)
    gang = VmNames(
        job_id="bert-1", attempt=1000, zone="us-central1-a", names=("bert-1-1000-0",), nonce="cafe", most=1
    )
    page = backend._logs.read(gang, "", is_over=True)
    assert [one.message for one in page.lines] == ["at last"]


@pytest.mark.parametrize("name", ["../up", "a/../../b", "", "a//b", "./a", "a/.", "x.part", "nul\0"])
def test_a_name_in_the_bucket_that_could_lead_elsewhere_is_left_there(name):
    assert not is_plain(name)


def test_a_plain_name_comes_down():
    assert is_plain("step-000000000100/rank-0.pt")
