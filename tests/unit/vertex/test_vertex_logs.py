# lines of a log stand whole
"""Log lines: in order, none twice, late ones included, each with its rank and severity."""

import json

import attrs
import pytest

from gputrain.backends.vertex import logs
from gputrain.errors import SpecError, TransientError
from gputrain.job.reading import LogReader
from gputrain.trainer import Trainer
from gputrain_emulator import faults
from gputrain_emulator.logging import Logs
from tests.unit.vertex.test_vertex_alone import REF

ENTRIES = "logging.entries.list"


@pytest.fixture
def job(make, cloud, vertex, code):
    submitted = Trainer(make()).submit("train.py", source_dir=code, gpu="L4:2", num_nodes=2)
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


def read(job, cloud, cursor=""):
    """All lines since the cursor, and the cursor after them."""
    found = []
    while True:
        cloud.clock.advance(3)  # so that it is our turn
        page = job._backend.logs(job.ref, cursor)
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


def test_equal_lines_at_one_moment_are_all_there(job, say, cloud):
    for _ in range(5):
        say("same", rank=0)
    lines, cursor = read(job, cloud)
    assert len(lines) == 5
    assert read(job, cloud, cursor)[0] == []


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


@pytest.mark.parametrize("ahead_s", [7200, -7200])
def test_a_line_whose_stamp_is_hours_off_is_shown_and_hides_no_other(job, say, cloud, vertex, ahead_s):
    (only,) = vertex.jobs.values()
    labels = {"job_id": only.id, "project_id": only.project.id, "task_name": "workerpool0-0"}
    seen, cursor = [], ""
    for number in range(8):
        say(f"right {number}", rank=0)
        cloud.world.part(Logs).write(
            only.project,
            "workerpool0-0",
            resource={"type": "ml_job", "labels": labels},
            payload={"message": f"wrong {number}"},
            time=cloud.clock.now() + ahead_s,
        )
        cloud.clock.advance(20)
        lines, cursor = read(job, cloud, cursor)
        seen += [line.message for line in lines]
        assert {f"right {number}", f"wrong {number}"} <= set(seen)
    assert len(seen) == 16


def test_a_cursor_goes_on_in_another_process(job, say, cloud, make):
    say("one", rank=0)
    _, cursor = read(job, cloud)
    say("two", rank=0)
    other = Trainer(make()).attach(job.uri)
    assert [one.message for one in read(other, cloud, cursor)[0]] == ["two"]


def test_many_pages_are_read_to_their_end(job, say, cloud, monkeypatch):
    monkeypatch.setattr(logs, "PAGE_SIZE", 7)
    for number in range(100):
        say(f"line {number}", rank=0)
    lines, _ = read(job, cloud)
    assert sorted(one.message for one in lines) == sorted(f"line {n}" for n in range(100))


def test_a_cursor_in_the_middle_of_a_long_log_stays_short(job, say, cloud, monkeypatch):
    monkeypatch.setattr(logs, "PAGE_SIZE", 10)
    for number in range(300):
        say(f"line {number}", rank=0)
        cloud.clock.advance(5)
    found, cursor, longest = [], "", 0
    while (page := job._backend.logs(job.ref, cursor)).lines:
        found += [line.message for line in page.lines if line.message.startswith("line")]
        cursor = page.cursor
        longest = max(longest, len(json.loads(cursor)["known"]))
    assert found == [f"line {n}" for n in range(300)]
    assert longest < 20  # those of the last 30 seconds, not of all pages


def test_every_reader_may_begin_at_once(job, say, cloud):
    say("hello", rank=0)
    for _ in range(2):
        assert "hello" in [line.message for line in job._backend.logs(job.ref).lines]


def test_structured_lines_without_a_message_are_shown_whole(job, vertex, cloud):
    (only,) = vertex.jobs.values()
    vertex.write_log(only, "workerpool0-0", "", payload={"step": 1, "loss": 0.5})
    assert [one.message for one in read(job, cloud)[0]] == ['{"loss": 0.5, "step": 1}']


def test_a_replica_is_known_by_the_label_of_its_lines_as_well(job, vertex, cloud):
    (only,) = vertex.jobs.values()
    cloud.world.part(Logs).write(
        only.project,
        "stdout",
        resource={"type": "ml_job", "labels": {"job_id": only.id}},
        labels={"ml.googleapis.com/task_name": "workerpool1-0"},
        text="hello",
    )
    assert [(one.message, one.node_rank) for one in read(job, cloud)[0]] == [("hello", 1)]


@pytest.mark.parametrize("apart_s", [29, 30, 31])
def test_a_line_is_read_once_however_long_the_next_one_takes(job, say, cloud, apart_s):
    say("one", rank=0)
    cloud.clock.advance(apart_s)
    say("two", rank=0)
    lines, cursor = read(job, cloud)
    assert [one.message for one in lines] == ["one", "two"]
    assert read(job, cloud, cursor) == ([], cursor)


def test_the_last_lines_are_read_from_near_the_end_and_none_before_them(job, say, cloud):
    for number in range(40):
        say(f"line {number}", rank=0)
        cloud.clock.advance(1)
    backend, every = job._backend, len(job._backend.logs(job.ref).lines)
    for lines in (1, 5):
        found, _ = read(job, cloud, backend.cursor_near_end(job.ref, lines))
        assert [one.message for one in found] == [f"line {number}" for number in range(40 - lines, 40)]
    told = [backend.cursor_near_end(job.ref, lines) for lines in (-1, 0, every, every + 1, 10**6)]
    assert [bool(cursor) for cursor in told] == [False, False, True, False, False]


def test_no_read_asks_for_more_lines_than_the_1000_that_google_gives(job, cloud):
    read(job, cloud)
    assert [job._backend.cursor_near_end(job.ref, lines) for lines in (1000, 1001)] == ["", ""]
    sizes = [json.loads(one.body)["pageSize"] for one in cloud.requests if one.method == ENTRIES]
    assert (max(sizes), sizes[-1]) == (1000, 1000)


def test_however_many_jobs_are_read_along_they_stay_within_sixty_reads_a_minute(make, there, cloud):
    refs = [attrs.evolve(REF, name=name) for name in ("a-1", "b-1", "c-1")]
    for ref in refs:
        there(job_id=ref.name)
    backend, cursors = make(), {}
    for _ in range(120):
        for ref in refs:
            cursors[ref] = backend.logs(ref, cursors.get(ref, "")).cursor
        cloud.clock.advance(0.5)
    assert 40 <= sum(one.method == ENTRIES for one in cloud.requests) <= 60


def test_reading_too_often_costs_no_call(job, say, cloud):
    say("hello", rank=0)
    _, cursor = read(job, cloud)
    before = sum(one.method == ENTRIES for one in cloud.requests)
    for _ in range(10):
        job._backend.logs(job.ref, cursor)
    assert sum(one.method == ENTRIES for one in cloud.requests) <= before + 1


def test_the_last_lines_of_an_ended_job_are_read_without_waiting_for_a_turn(job, say, cloud):
    read(job, cloud)
    say("last words", rank=0)
    cloud.clock.advance(1000)
    found = [line.message for line in job.logs()]
    assert "last words" in found


def test_a_short_failure_is_not_noticed(job, say, cloud):
    say("hello", rank=0)
    cloud.fail(ENTRIES, faults.server_error(503), times=2)
    assert [one.message for one in read(job, cloud)[0]] == ["hello"]


def test_a_failure_that_lasts_is_transient(job, cloud):
    cloud.fail(ENTRIES, faults.server_error(503), times=None)
    with pytest.raises(TransientError):
        read(job, cloud)


@pytest.mark.parametrize("cursor", ["x", "[]", '{"since": "yesterday", "known": {}, "page": ""}'])
def test_a_cursor_of_somebody_else_is_refused(job, cursor):
    with pytest.raises(SpecError, match="cursor"):
        job._backend.logs(job.ref, cursor)


def test_only_a_whole_result_line_is_believed():
    assert logs._document('GPUTRAIN_RESULT {"state": "done"}') == {"state": "done"}
    for words in (
        'I print GPUTRAIN_RESULT {"state": "done"}',
        "GPUTRAIN_RESULT {torn",
        "GPUTRAIN_RESULT []",
        json.dumps({}),
    ):
        assert logs._document(words) is None


def test_a_result_that_a_rank_prints_of_a_job_within_it_is_not_its_own(job, say, cloud):
    say('GPUTRAIN_RESULT {"node_rank": 0, "state": "failed"}')
    cloud.clock.advance(5)
    say('GPUTRAIN_RESULT {"node_rank": 0, "state": "done"}', rank=0)
    cloud.clock.advance(60)
    (found,) = logs.results(job._backend._access, job._backend._look(job.ref))
    assert found["state"] == "failed"


@pytest.mark.parametrize(
    "told", ['{"node_rank": "x"}', '{"node_rank": [1]}', '{"node_rank": 1e999}', "[" * 60_000]
)
def test_a_script_that_prints_what_looks_like_a_result_ends_no_look(job, say, cloud, told):
    say(f"GPUTRAIN_RESULT {told}")
    say("of a rank that is none", rank=float(1 << 40))
    cloud.clock.advance(60)
    assert logs.results(job._backend._access, job._backend._look(job.ref)) in ([], [{}])
    lines, _ = read(job, cloud)
    assert [one.rank for one in lines if "of a rank" in one.message] == [None]


def test_a_rush_of_lines_is_read_to_its_end_though_pages_of_it_are_known(job, say, cloud, monkeypatch):
    monkeypatch.setattr(logs, "PAGE_SIZE", 10)
    reader, found = LogReader(), []
    for many in (140, 1, 10):
        for number in range(many):
            say(f"line {len(found) + number}")
        cloud.clock.advance(3)
        found += [
            one for page in reader.pages(job._backend, job.ref) for one in page if "line" in one.message
        ]
    assert [one.message for one in found] == [f"line {number}" for number in range(151)]
