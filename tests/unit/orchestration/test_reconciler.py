"""The table of what comes next for a job, a row a line: docs/design/record.md."""

import json

import attrs
import pytest

from gputrain import causes
from gputrain.jobstore import Attempt, JobRecord, Option, RecordError, from_json, to_json
from gputrain.lifecycle import State
from gputrain.orchestration.reconciler import (
    Action,
    Adopt,
    End,
    Nothing,
    Replace,
    Retry,
    Rules,
    Status,
    Terminate,
    decide,
)  # fmt: skip
from tests.each import each

OPTION = Option(backend="compute", place="us-central1-a", region="us-central1")
ATTEMPT = Attempt(id="k3x9q2ab", option=OPTION, names=("bert-k3x9q2ab-0",))
BETWEEN = JobRecord(job_id="bert", spec={})
LAUNCHING = BETWEEN.begin(ATTEMPT)
LAUNCHED = LAUNCHING.launched("")
RAN = LAUNCHED.end_attempt("preempted", 60.0, has_run=True)
RUNS = Status(state=State.RUNNING, exists=True, is_whole=True, has_run=True)
COMES = Status(state=State.PROVISIONING, exists=True)
INVISIBLE = Status(state=State.QUEUED)
GONE = Status(state=State.INTERRUPTED, has_run=True)
PREEMPTED = Status(state=State.INTERRUPTED, cause=causes.PREEMPTED, has_run=True)
RAISED = Status(state=State.FAILED, cause=causes.EXCEPTION, has_run=True)
FULL = Status(state=State.FAILED, cause=causes.STOCKOUT_REGION)
LATE = Status(state=State.EXPIRED, exists=True, cause=causes.WAIT_LIMIT)
DONE = Status(state=State.SUCCEEDED, has_run=True)


def half(lost_for_s, *, has_run=True):
    return Status(state=State.RUNNING, exists=True, lost_for_s=lost_for_s, has_run=has_run)


ONE, NONE = Rules(restarts_left=1), Rules()
ITSELF = Rules(restarts_left=1, restarts_itself=True)

ROWS: list[tuple[JobRecord, Status, float, Rules, Action]] = [
    (LAUNCHED.end("succeeded"), GONE, 1e6, ONE, Nothing(state=State.SUCCEEDED)),
    (LAUNCHED.end("time_limit"), GONE, 1e6, ONE, Nothing(state=State.EXPIRED)),
    (BETWEEN.cancel(), Status(), 0, ONE, End(result="cancelled")),
    (BETWEEN, Status(), 29, ONE, Nothing(state=State.QUEUED)),
    (RAN, Status(), 29, ONE, Nothing(state=State.INTERRUPTED)),
    (BETWEEN, Status(), 30, ONE, Retry()),
    (LAUNCHED, Status(), 1e6, ONE, Nothing(state=None)),
    (LAUNCHED, half(184), 0, ONE, Nothing(state=State.RUNNING)),
    (LAUNCHED, half(185), 0, ONE, Terminate()),
    (LAUNCHED, half(39, has_run=False), 0, ONE, Nothing(state=State.RUNNING)),
    (LAUNCHED, half(40, has_run=False), 0, ONE, Terminate()),
    (LAUNCHED.cancel(), half(1), 1e6, ONE, Nothing(state=State.STOPPING)),
    (LAUNCHED.cancel(), RUNS, 184, ONE, Nothing(state=State.STOPPING)),
    (LAUNCHED.cancel(), RUNS, 185, ONE, Terminate()),
    (LAUNCHED.cancel(), DONE, 1, ONE, End(result="succeeded")),
    (LAUNCHED.cancel(), PREEMPTED, 1, ONE, End(result="cancelled")),
    (LAUNCHING.cancel(), INVISIBLE, 1, ONE, End(result="cancelled")),
    (LAUNCHING, COMES, 599, ONE, Nothing(state=State.PROVISIONING)),
    (LAUNCHING, COMES, 600, ONE, Replace(outcome="launch_incomplete")),
    (LAUNCHING, RUNS, 1e6, NONE, Adopt(handle="")),
    (LAUNCHED, attrs.evolve(RUNS, handle="jobs/2"), 0, ONE, Adopt(handle="jobs/2")),
    (LAUNCHED, RUNS, 1e6, ONE, Nothing(state=State.RUNNING)),
    (LAUNCHING, DONE, 1, ONE, End(result="succeeded")),
    (LAUNCHING, INVISIBLE, 89, ONE, Nothing(state=State.QUEUED)),
    (LAUNCHING, INVISIBLE, 90, ONE, Replace(outcome="launch_lost")),
    (LAUNCHED, LATE, 0, ONE, End(result="wait_limit")),
    (LAUNCHED, FULL, 0, NONE, Replace(outcome="stockout_region")),
    (LAUNCHED, PREEMPTED, 0, ONE, Replace(outcome="preempted")),
    (LAUNCHED, PREEMPTED, 0, NONE, End(result="preempted")),
    (LAUNCHED, PREEMPTED, 0, ITSELF, Nothing(state=State.INTERRUPTED)),
    (LAUNCHED, GONE, 0, ONE, Replace(outcome="vanished")),
    (LAUNCHED, RAISED, 0, ONE, End(result="exception")),
]


@each(("record", "status", "age_s", "rules", "action"), ROWS)
def test_what_comes_next(record, status, age_s, rules, action):
    assert decide(record, status, age_s, rules) == action


def test_a_job_that_waits_asks_more_rarely_and_not_for_ever():
    rules = Rules(max_wait_s=7200)
    assert decide(BETWEEN, Status(), 299, rules, waited_s=599) == Nothing(state=State.QUEUED)
    assert decide(BETWEEN, Status(), 300, rules, waited_s=600) == Retry()
    assert decide(BETWEEN, Status(), 600, rules, waited_s=7000) == Retry()
    assert decide(BETWEEN, Status(), 600, rules, waited_s=7200) == End(result="wait_limit")


def test_a_record_is_read_as_it_was_written():
    for record in (
        BETWEEN,
        LAUNCHING,
        RAN.begin(ATTEMPT),
        LAUNCHED.refused("no room", now=5.0),
        RAN.end("stopped"),
    ):
        assert from_json("bert", to_json(record)) == record


WRITTEN = attrs.asdict(ATTEMPT)


@each("change", [
    {"schema": 2}, {"job_id": "other"}, {"restarts": -1}, {"used_s": "1"}, {"used_usd": float("nan")},
    {"extra": 1}, {"wanted": "maybe"}, {"options": ["a"]}, {"history": [1]}, {"attempt": 5}, {"argv": [1]},
    {"attempt": {**WRITTEN, "id": "../../etc"}}, {"attempt": {**WRITTEN, "names": ["; rm"]}},
    {"attempt": {**WRITTEN, "option": {"backend": "b", "place": "p\n", "region": "r"}}},
])  # fmt: skip
def test_a_document_that_does_not_fit_is_an_error_that_says_so(change):
    document = {**json.loads(to_json(RAN)), **change}
    with pytest.raises(RecordError, match="the record of bert cannot be read"):
        from_json("bert", json.dumps(document).encode())


def test_a_job_that_waits_for_days_keeps_its_latest_refusals_and_all_that_ran():
    record = RAN
    for number in range(1, 301):
        record = record.begin(attrs.evolve(ATTEMPT, at=float(number))).refused("no room", now=float(number))
    assert [one.has_run for one in record.history[:2]] == [True, False]
    assert [one.at for one in record.history[1:]] == [float(number) for number in range(201, 301)]
    assert record.waiting_since == 1.0
