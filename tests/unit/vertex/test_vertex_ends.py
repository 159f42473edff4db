"""What Vertex AI's looks, its logs and a lock amount to: on logs in memory, to the second."""

import json

import attrs
import pytest

from gputrain import records
from gputrain.backends.vertex import outcome
from gputrain.backends.vertex.outcome import JobEnds, Locks
from gputrain.backends.vertex.states import NO_LOGS
from gputrain.backends.vertex.waiting import Reasons
from gputrain.entrypoint import contract
from gputrain.errors import AccessError, TransientError
from gputrain.lifecycle import Observation, State
from tests.unit.vertex.test_vertex_alone import CANCELLED, FAILED, NOON, seen


class Words:
    """What replicas and the service have written, as Cloud Logging answers; its own clock included."""

    project = "p"

    def __init__(self):
        self.seconds = NOON.timestamp()
        self.entries = []
        self.asked = 0
        self.refuses = None

    def now(self):
        return self.seconds

    def url(self, _api):
        return "http://logs"

    def write(self, message, task="workerpool0-0"):
        labels = {"task_name": task}
        self.entries.insert(0, {"textPayload": message, "resource": {"labels": labels}})

    def post(self, _url, *, json, **_):
        self.asked += 1
        if self.refuses is not None:
            raise self.refuses
        wanted = json["filter"]
        is_service = 'task_name="service"' in wanted
        found = [
            one for one in self.entries if is_service == (one["resource"]["labels"]["task_name"] == "service")
        ]
        if contract.RESULT_MARKER.strip() in wanted:
            found = [one for one in found if contract.RESULT_MARKER in one["textPayload"]]
        return {"entries": found[: json["pageSize"]]}


class Lock(Locks):
    """A lock that says who has it, and how often he began again."""

    def __init__(self, number="", restarts=0):
        self.told = outcome.Lock(number=number, restarts=restarts)
        self.reads = 0

    def of(self, _seen):
        self.reads += 1
        return self.told


def result(**document):
    return contract.RESULT_MARKER + json.dumps({contract.R_NODE_RANK: 0, **document})


RAISED = {
    "state": "failed",
    "cause": {**dict.fromkeys(contract.CAUSE_FIELDS), "kind": "exception", "message": "nan"},
}
RAISED |= {contract.R_EXIT_CODE: 1}


SAVED = "it was stopped: from outside; the ranks saved and left: submit again to go on from there"
SILENT = "it ran for all of max_run_duration; no rank had said anything for 2m"


@pytest.fixture
def words():
    return Words()


def ended(state=FAILED, **more):
    return seen(state=state, started_at=NOON, ended_at=NOON, **more)


@pytest.mark.parametrize(
    ("said", "error", "kind", "message"),
    [
        ([result(**RAISED)], "", "exception", "nan"),
        ([result(**RAISED)], "Internal error occurred", "exception", "nan"),
        (["hello"], "Internal error occurred", "internal", "Internal error occurred"),
        ([], "Internal error occurred", "internal", f"Internal error occurred ({NO_LOGS})"),
        ([result(state=contract.STATE_STOPPED)], "x", "stopped", SAVED),
        ([result(**RAISED), "later"], "x", "exception", "nan"),
        ([f"{result(**RAISED)} broken"], "x", "unknown", "x"),
    ],
)  # fmt: skip
def test_a_failure_is_told_by_the_ranks_before_the_service(words, said, error, kind, message):
    for one in said:
        words.write(one)
    ends, one = JobEnds(words, Lock()), ended(error=error)
    told = ends.observe(one)
    assert (told.state, told.failure.kind, told.failure.message, told.detail) == (
        State.FAILED, kind, message, message,
    )  # fmt: skip
    asked = words.asked
    assert ends.observe(one) is told  # an end is worked out once
    assert words.asked == asked


def test_logs_that_may_not_be_read_are_told_of_in_the_failure(words):
    words.refuses = AccessError("you may not", fix="ask")
    told = JobEnds(words, Lock()).observe(ended(error="Internal error occurred"))
    assert told.failure.message == ("Internal error occurred (its logs could not be read: you may not. ask)")


@pytest.mark.parametrize(
    ("ended_ago_s", "passes_s", "is_late"), [(0, 90, False), (0, 91, True), (91, 0, True)]
)
def test_a_reason_is_waited_for_a_minute_and_a_half_by_googles_clock_or_ours(
    words, ended_ago_s, passes_s, is_late
):
    words.write("hello")
    ends, one = JobEnds(words, Lock()), ended()
    words.seconds += ended_ago_s
    if passes_s:
        assert ends.observe(one).state is None
    one = attrs.evolve(one, ended_at=None) if passes_s else one
    words.seconds += passes_s
    told = ends.observe(one)
    assert (told.state, told.failure and told.failure.kind) == (
        (State.FAILED, "unknown") if is_late else (None, None)
    )


@pytest.mark.parametrize(
    ("state", "more", "lock", "ours", "kind", "code", "detail"),
    [
        ("JOB_STATE_SUCCEEDED", {}, "", State.SUCCEEDED, None, 0, "succeeded"),
        ("JOB_STATE_SUCCEEDED", {}, records.CANCELLED, State.CANCELLED, "cancelled", 75, "succeeded"),
        (CANCELLED, {"error": "CANCELED"}, "", State.CANCELLED, "cancelled", 75, "cancelled: CANCELED"),
        ("JOB_STATE_EXPIRED", {}, "", State.EXPIRED, "time_limit", 75, SILENT),
        ("JOB_STATE_EXPIRED", {"started_at": None}, "", State.EXPIRED, "wait_limit", None,
         "it waited too long for machines"),
    ],
)  # fmt: skip
def test_an_end_that_is_no_failure_is_told_as_what_it_is(words, state, more, lock, ours, kind, code, detail):
    words.write(result(state="failed", **{contract.R_EXIT_CODE: 75, contract.R_SILENT_S: 120.0}))
    ends, one = JobEnds(words, Lock(lock)), attrs.evolve(ended(state), **more)
    assert ends.superseded_by(one) == ""
    told = ends.observe(one)
    assert (told.state, told.failure and told.failure.kind, told.exit_code, told.detail) == (
        ours,
        kind,
        code,
        detail,
    )


@pytest.mark.parametrize(
    ("state", "job_id", "holder", "instead", "reads"),
    [
        ("JOB_STATE_SUCCEEDED", "bert-1", "2", "2", 1),
        ("JOB_STATE_SUCCEEDED", "bert-1", "1", "", 1),
        ("JOB_STATE_SUCCEEDED", "bert-1", "", "", 1),
        ("JOB_STATE_SUCCEEDED", "bert-1", records.CANCELLED, "", 1),
        ("JOB_STATE_SUCCEEDED", "", "2", "", 0),
        ("JOB_STATE_RUNNING", "bert-1", "2", "", 0),
    ],
)
def test_a_job_that_ended_well_by_doing_nothing_says_which_one_ran(
    words, state, job_id, holder, instead, reads
):
    lock = Lock(holder)
    ends, one = JobEnds(words, lock), attrs.evolve(seen("1", state), job_id=job_id)
    assert (ends.superseded_by(one), ends.superseded_by(one), lock.reads) == (instead, instead, reads)


RUNS, PENDS = "JOB_STATE_RUNNING", "JOB_STATE_PENDING"


@pytest.mark.parametrize(
    ("looks", "restarts", "counts", "reads"),
    [
        ([PENDS, RUNS, RUNS, PENDS, RUNS, PENDS, PENDS, RUNS], 0, [0, 0, 0, 0, 1, 1, 1, 2], 0),
        ([RUNS, RUNS, PENDS, RUNS], 3, [3, 3, 3, 4], 1),  # it comes late, and others have seen more
        ([RUNS, PENDS, RUNS, "JOB_STATE_SUCCEEDED"], 0, [0, 0, 1, 1], 2),
        ([RUNS, "JOB_STATE_SUCCEEDED"], 2, [2, 2], 2),
    ],
)
def test_how_often_a_job_began_again_is_counted_by_looks_and_by_its_lock(
    words, looks, restarts, counts, reads
):
    lock = Lock("1", restarts)
    ends, found, has_begun = JobEnds(words, lock), [], False
    for state in looks:
        has_begun = has_begun or state == RUNS
        one = seen(state=state, started_at=NOON if has_begun else None, may_restart=True)
        found.append((ends.observe(one).attempt, ends.observe(one).attempt))
    assert found == [(one, one) for one in counts]
    assert lock.reads == reads
    assert JobEnds(words, lock).observe(seen(started_at=NOON)).attempt == 0


def test_why_a_job_waits_is_read_after_a_minute_and_again_after_half_of_one(words):
    reasons, one = Reasons(words), seen(state=PENDS)
    told = Observation(state=State.PROVISIONING, detail="pending")
    words.write("no machines", "service")

    def look(after_s, **more):
        words.seconds += after_s
        return reasons.tell(attrs.evolve(one, **more), told).detail, words.asked

    assert look(0) == look(59) == ("pending", 0)
    assert look(1) == ("pending: no machines", 1)
    words.write("still none", "service")
    assert look(29.9) == ("pending: no machines", 1)
    assert look(0.1) == ("pending: still none", 2)
    words.refuses = TransientError("later")
    assert look(30) == ("pending: still none", 3)
    assert look(29.9) == ("pending: still none", 3)
    running = Observation(state=State.RUNNING, detail="running")
    assert reasons.tell(one, running) is running
    words.refuses = None
    assert look(1, created_at=None) == ("pending", 3)  # it waits anew
    assert look(60, created_at=None) == ("pending: still none", 4)
