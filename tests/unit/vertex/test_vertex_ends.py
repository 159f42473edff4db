"""What looks and logs of Vertex AI amount to: of a job put there by hand, to the second."""

import pytest

from gputrain.backends.vertex.states import NO_LOGS
from gputrain.jobstore import Attempt, JobRecord, Launch, Option
from gputrain.lifecycle import State
from gputrain.runtime import contract
from gputrain_emulator.vertex.states import State as Theirs
from tests.support.clouds import REGION
from tests.unit.vertex.runs import tell

DONE = Theirs.SUCCEEDED

RAISED = {
    "state": "failed",
    "cause": {**dict.fromkeys(contract.CAUSE_FIELDS), "kind": "exception", "message": "nan"},
    contract.R_EXIT_CODE: 1,
}
SAVED = "it was stopped: from outside; the ranks saved and left: submit again to resume"
SILENT = "it ran for all of max_run_duration; no rank had said anything for 2m"


@pytest.fixture
def look(make):
    """Looks at a job through a backend, which remembers what it has seen."""

    def build(job, **settings):
        option = Option(backend="vertex", place=REGION, region=REGION)
        attempt = Attempt(
            id="a0000000", option=option, names=("bert-1-a0000000-0",), state=Launch.LAUNCHED, handle=job.name
        )
        spec = {"script": "train.py"}
        record, attempts = JobRecord(job_id="bert-1", spec=spec, attempt=attempt), make(**settings)
        return lambda: attempts.inspect_many([record])["bert-1"]

    return build


@pytest.mark.parametrize(
    ("told", "line", "error", "has_begun", "kind", "message"),
    [
        (RAISED, "", "", True, "exception", "nan"),
        (RAISED, "", "", False, "exception", "nan"),  # it ended before it was said to run
        (RAISED, "hello", "Internal error occurred", True, "exception", "nan"),
        (None, "hello", "Internal error occurred", True, "internal", "Internal error occurred"),
        (None, "", "Internal error occurred", True, "internal", f"Internal error occurred ({NO_LOGS})"),
        (None, "", "Internal error occurred", False, "internal", "Internal error occurred"),
        ({"state": contract.STATE_STOPPED}, "", "x", True, "stopped", SAVED),
        ({"state": "failed"}, "", "x", True, "unknown", "x"),
        ([1], "", "x", True, "unknown", "x"),
    ],
)
def test_a_failure_is_told_by_the_ranks_before_the_service(
    look, there, make, vertex, told, line, error, has_begun, kind, message
):
    job = there(Theirs.FAILED, error, has_begun=has_begun)
    if told:
        tell(make(), job, told)
    if line:
        vertex.write_log(job, "workerpool0-0", line)
    status = look(job)()
    assert (status.state, status.failure.kind, status.failure.message, status.detail) == (
        State.FAILED, kind, message, message,
    )  # fmt: skip


@pytest.mark.parametrize(
    ("state", "error", "has_begun", "ours", "kind", "detail"),
    [
        (DONE, "", True, State.SUCCEEDED, None, "succeeded"),
        (Theirs.CANCELLED, "CANCELED", True, State.CANCELLED, "cancelled", "cancelled: CANCELED"),
        (Theirs.EXPIRED, "", True, State.EXPIRED, "time_limit", SILENT),
        (Theirs.EXPIRED, "", False, State.EXPIRED, "wait_limit", "it waited too long for machines"),
    ],
)
def test_an_end_that_is_no_failure_is_told_as_what_it_is(
    look, there, make, state, error, has_begun, ours, kind, detail
):
    job = there(state, error, has_begun=has_begun)
    tell(make(), job, {"state": "failed", contract.R_EXIT_CODE: 75, contract.R_SILENT_S: 120.0})
    status = look(job)()
    assert (status.state, status.failure and status.failure.kind, status.detail) == (ours, kind, detail)
