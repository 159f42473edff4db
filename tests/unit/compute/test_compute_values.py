"""How long an attempt ran, by what its guest wrote and what operations say."""

from datetime import datetime, timezone

import pytest

from gputrain.backends.agent_reports import read
from gputrain.backends.compute.causes import VmReport, seconds_of
from gputrain.backends.compute.status import ran_s
from gputrain.backends.run_reports import Report
from gputrain.jobstore import Attempt, JobRecord, Option
from gputrain.keeper.status import SCHEMA
from gputrain.spec import TrainingSpec

ID = "a1234567"


def at(seconds):
    return datetime.fromtimestamp(seconds, timezone.utc).isoformat()


def word(phase, **more):
    return {"schema": SCHEMA, "phase": phase, **more}


def record_of(model):
    """A job whose attempt was launched at second 1000."""
    option = Option(
        backend="compute", place="us-central1-a", region="us-central1", gpu="L4", gpu_count="1",
        machine_type="g2-standard-4", model=model,
    )  # fmt: skip
    attempt = Attempt(id=ID, option=option, names=(f"bert-1-{ID}-0",), at=1000.0)
    spec = TrainingSpec(script="train.py", gpu="L4:1", max_run_duration="1h", max_wait_duration="2h")
    return JobRecord(job_id="bert-1", spec=spec.to_dict(), options=(option,), attempt=attempt)


def made(number, user="me", at_s=10, kind="insert"):
    return {"operationType": kind, "targetId": number, "user": user, "insertTime": at(at_s)}


def report(document, written_at=1400.0):
    return Report(document=document, told=read(document), written_at=written_at, seen_at=1500.0)


PREEMPTED = made(1, kind="compute.instances.preempted", at_s=1200)


@pytest.mark.parametrize(
    ("model", "document", "operations", "seconds"),
    [
        ("spot", None, (), 0),
        ("spot", None, (made(1, at_s=1000), PREEMPTED), 350),  # with all the notice that it may have had
        ("spot", word("running", waiting_at=at(1100)), (), 400),
        ("spot", word("running", waiting_at=at(1100)), (PREEMPTED,), 250),
        ("spot", word("ended", waiting_at=at(1100), ended_at=at(1300)), (PREEMPTED,), 200),
        ("flex-start", None, (made(1, at_s=1000), PREEMPTED), 0),  # what it waited was free
        ("flex-start", word("running", waiting_at=at(1100)), (PREEMPTED,), 250),
        ("spot", word("ended", waiting_at=at(1100), ended_at=at(9000)), (), 3600),  # the time limit at most
    ],
)
def test_an_attempt_took_rather_too_many_seconds_than_too_few(model, document, operations, seconds):
    node = VmReport(rank=0, document=document, operations=operations)
    written_at = seconds_of((document or {}).get("ended_at") or (document or {}).get("waiting_at"))
    reports = {0: report(document, written_at)} if document else {}
    assert ran_s(record_of(model), [node], reports) == seconds
