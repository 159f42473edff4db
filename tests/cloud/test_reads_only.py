"""Planning, checking and following change nothing on a cloud."""

import pytest

from gputrain import PermissionDeniedError
from tests.each import each

QUERIES = ("testIamPermissions", "logging.entries.list", "advice", "batch")
"""What Google reads by POST."""


def writes(seen):
    return seen.verb not in ("GET", "HEAD") and not any(word in seen.method for word in QUERIES)


def left_behind(cloud, trainer, script):
    """The ids of jobs that were cancelled by an account that may delete no VM."""
    job = trainer.submit(script, gpu="L4:1")
    order = cloud.fail("compute.instances.delete", "C26", times=None)
    with pytest.raises(PermissionDeniedError):
        job.cancel()
    order.cancel()
    cloud.clock.advance(600)
    return [job.id]


@each("kind", ["vertex", "compute"])
def test_plan_doctor_quotas_and_lists_only_read(cloud, trainer, script, kind):
    there = trainer(kind)
    spec = {"gpu": "L4:2", "max_run_duration": "1h"}
    job = there.submit(script, **spec)
    left = left_behind(cloud, there, script) if kind == "compute" else []
    made = len(cloud.requests)
    assert any(map(writes, cloud.requests))
    plan = there.plan(script, provisioning_model=["spot", "standard"], **spec)
    assert plan.candidates
    assert plan.requests
    assert plan.explain()
    assert there.doctor(script, **spec)
    assert there.quotas("L4:2")
    assert job.id in [one.id for one in there.jobs()]
    assert [one.job_id for one in there.orphans()] == left
    other = there.attach(job.uri)
    other.refresh()
    assert other.attempts
    list(other.logs())
    assert [(one.verb, one.method) for one in cloud.requests[made:] if writes(one)] == []
    assert len(cloud.requests) > made
