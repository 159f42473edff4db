"""What Vertex AI's looks, its logs and a lock amount to: of a job put there by hand, to the second."""

import json

import pytest

from gputrain import records
from gputrain.backends.vertex.states import NO_LOGS
from gputrain.entrypoint import contract
from gputrain.lifecycle import State
from gputrain_emulator import faults
from gputrain_emulator.vertex.states import State as Theirs
from tests.unit.vertex.test_vertex_alone import GET, REF, refusal

ENTRIES = "logging.entries.list"
PENDS, RUNS, DONE = Theirs.PENDING, Theirs.RUNNING, Theirs.SUCCEEDED


def result(**document):
    return contract.RESULT_MARKER + json.dumps({contract.R_NODE_RANK: 0, **document})


RAISED = {
    "state": "failed",
    "cause": {**dict.fromkeys(contract.CAUSE_FIELDS), "kind": "exception", "message": "nan"},
    contract.R_EXIT_CODE: 1,
}
SAVED = "it was stopped: from outside; the ranks saved and left: submit again to go on from there"
SILENT = "it ran for all of max_run_duration; no rank had said anything for 2m"


@pytest.fixture
def read(cloud):
    """How often logs were read, and how often the lock."""

    def count():
        seen = [(one.method, one.path) for one in cloud.requests]
        locks = sum("lock" in path for method, path in seen if method == "storage.objects.get")
        return sum(method == ENTRIES for method, _ in seen), locks

    return count


@pytest.mark.parametrize(
    ("said", "error", "has_begun", "kind", "message"),
    [
        ([result(**RAISED)], "", True, "exception", "nan"),
        ([result(**RAISED)], "", False, "exception", "nan"),  # it ended before it was said to run
        ([result(**RAISED)], "Internal error occurred", True, "exception", "nan"),
        (["hello"], "Internal error occurred", True, "internal", "Internal error occurred"),
        ([], "Internal error occurred", True, "internal", f"Internal error occurred ({NO_LOGS})"),
        ([], "Internal error occurred", False, "internal", "Internal error occurred"),
        ([result(state=contract.STATE_STOPPED)], "x", True, "stopped", SAVED),
        ([result(state="failed")], "x", True, "unknown", "x"),
        ([result(**RAISED), "later"], "x", True, "exception", "nan"),
        ([f"{result(**RAISED)} broken"], "x", True, "unknown", "x"),
    ],
)
def test_a_failure_is_told_by_the_ranks_before_the_service(
    make, there, vertex, read, said, error, has_begun, kind, message
):
    job, backend = there(Theirs.FAILED, error, has_begun=has_begun), make()
    for one in said:
        vertex.write_log(job, "workerpool0-0", one)
    told = backend.observe(REF)
    assert (told.state, told.failure.kind, told.failure.message, told.detail) == (
        State.FAILED, kind, message, message,
    )  # fmt: skip
    before = read()
    assert backend.observe(REF) is told  # an end is worked out once
    assert read() == before


def test_logs_that_may_not_be_read_are_told_of_in_the_failure(make, there, cloud):
    there(Theirs.FAILED, "Internal error occurred", has_begun=True)
    cloud.fail(ENTRIES, refusal(403), times=None)
    told = make().observe(REF).failure.message
    assert told.startswith("Internal error occurred (its logs could not be read: ")
    assert told.endswith(")")


@pytest.mark.parametrize(
    ("our_clock_s", "is_dated", "before_s", "after_s", "is_late"),
    [
        (0, True, 90, 0, False),
        (0, True, 91, 0, True),
        (-3600, True, 0, 90, False),
        (-3600, True, 0, 91, True),
        (0, False, 91, 90, False),
        (0, False, 0, 91, True),
    ],
)
def test_a_reason_is_waited_for_a_minute_and_a_half_by_googles_clock_or_ours(
    make, there, cloud, vertex, our_clock_s, is_dated, before_s, after_s, is_late
):
    vertex.write_log(there(Theirs.FAILED, has_begun=True), "workerpool0-0", "hello")
    if not is_dated:
        undated = lambda told: {name: value for name, value in told.items() if name != "endTime"}  # noqa: E731
        cloud.fail(GET, faults.Reshape(change=undated), times=None)
    cloud.clock.advance(before_s)
    backend = make(now=lambda: cloud.clock.now() + our_clock_s)
    if after_s:
        assert backend.observe(REF).state is None
        cloud.clock.advance(after_s)
    told = backend.observe(REF)
    assert (told.state, told.failure and told.failure.kind) == (
        (State.FAILED, "unknown") if is_late else (None, None)
    )


@pytest.mark.parametrize(
    ("state", "error", "has_begun", "lock", "ours", "kind", "code", "detail"),
    [
        (DONE, "", True, "", State.SUCCEEDED, None, 0, "succeeded"),
        (DONE, "", True, records.CANCELLED, State.CANCELLED, "cancelled", 75, "succeeded"),
        (Theirs.CANCELLED, "CANCELED", True, "", State.CANCELLED, "cancelled", 75, "cancelled: CANCELED"),
        (Theirs.EXPIRED, "", True, "", State.EXPIRED, "time_limit", 75, SILENT),
        (Theirs.EXPIRED, "", False, "", State.EXPIRED, "wait_limit", None, "it waited too long for machines"),
    ],
)
def test_an_end_that_is_no_failure_is_told_as_what_it_is(
    make, there, vertex, write_lock, state, error, has_begun, lock, ours, kind, code, detail
):
    job = there(state, error, has_begun=has_begun)
    silent = result(state="failed", **{contract.R_EXIT_CODE: 75, contract.R_SILENT_S: 120.0})
    vertex.write_log(job, "workerpool0-0", silent)
    if lock:
        write_lock(lock)
    told = make().observe(REF)
    assert (told.state, told.failure and told.failure.kind, told.exit_code, told.detail) == (
        ours, kind, code, detail,
    )  # fmt: skip


@pytest.mark.parametrize(
    ("state", "holder", "reads"),
    [(DONE, "its own", 1), (DONE, "", 2), (DONE, records.CANCELLED, 1), (RUNS, "another's", 0)],
)
def test_a_job_that_ended_well_is_asked_about_once_whether_another_ran(
    make, there, write_lock, cloud, read, state, holder, reads
):
    job, backend = there(state, has_begun=True), make()
    if holder:
        write_lock({"its own": job.id, "another's": "9"}.get(holder, holder))
    for _ in range(2):
        assert backend.observe(REF).raw["name"].endswith(job.id)
        cloud.clock.advance(2)
    assert read()[1] == reads


@pytest.mark.parametrize(
    ("looks", "lock", "counts", "reads"),
    [
        ([PENDS, RUNS, RUNS, PENDS, RUNS, PENDS, PENDS, RUNS], "{} 0", [0, 0, 0, 0, 1, 1, 1, 2], 0),
        ([RUNS, RUNS, PENDS, RUNS], "{} 3", [3, 3, 3, 4], 1),  # it comes late, and others have seen more
        ([RUNS, PENDS, RUNS, DONE], "{} 0", [0, 0, 1, 1], 3),  # once more for whether another ran
        ([RUNS, DONE], "{} 2", [2, 2], 3),
        ([RUNS], "{}", [0], 1),
        ([RUNS], "", [0], 1),
    ],
)
def test_how_often_a_job_began_again_is_counted_by_looks_and_by_its_lock(
    make, there, vertex, write_lock, cloud, read, looks, lock, counts, reads
):
    job, backend, found = there(PENDS, disableRetries=False), make(), []
    if lock:
        write_lock(lock.format(job.id))
    for state in looks:
        vertex.put(job, state)
        found.append((backend.observe(REF).attempt, backend.observe(REF).attempt))
        cloud.clock.advance(2)
    assert found == [(one, one) for one in counts]
    assert read()[1] == reads


def test_a_job_that_may_not_begin_again_is_at_its_first_attempt_whatever_its_lock_says(
    make, there, write_lock
):
    write_lock(f"{there().id} 3")
    assert make().observe(REF).attempt == 0


@pytest.mark.parametrize("our_clock_s", [0, -7200])
def test_why_a_job_waits_is_read_after_a_minute_and_again_after_half_of_one(
    make, there, vertex, cloud, read, our_clock_s
):
    job, backend = there(PENDS), make(now=lambda: cloud.clock.now() + our_clock_s)
    vertex.say(job, "no machines")

    def look(after_s):
        cloud.clock.advance(after_s)
        return backend.observe(REF).detail, read()[0]

    assert look(0) == look(59) == ("pending", 0)
    assert look(1) == ("pending: no machines", 1)
    vertex.say(job, "still none")
    assert look(29.9) == ("pending: no machines", 1)
    assert look(0.1) == ("pending: still none", 2)
    refused = cloud.fail(ENTRIES, refusal(403), times=None)
    assert look(30) == ("pending: still none", 3)
    assert look(29.9) == ("pending: still none", 3)
    refused.cancel()
    vertex.put(job, RUNS)
    assert look(2) == ("running", 3)
    vertex.put(job, PENDS)
    vertex.say(job, "none again")
    if our_clock_s:  # it waits anew, by the clock that knows of no time before
        assert look(2) == look(57) == ("pending", 3)
    assert look(3) == ("pending: none again", 4)
