"""Planning, checking and following change nothing on a cloud."""

from tests.each import each

QUERIES = ("testIamPermissions", "logging.entries.list", "advice", "batch")
"""What Google reads by POST."""


def writes(seen):
    return seen.verb not in ("GET", "HEAD") and not any(word in seen.method for word in QUERIES)


@each("kind", ["vertex", "compute"])
def test_plan_doctor_quotas_and_lists_only_read(cloud, trainer, script, kind):
    there = trainer(kind)
    spec = {"gpu": "L4:2", "max_run_duration": "1h"}
    job = there.submit(script, **spec)
    made = len(cloud.requests)
    assert any(map(writes, cloud.requests))
    plan = there.plan(script, provisioning_model=["spot", "standard"], **spec)
    assert plan.candidates
    assert plan.requests
    assert plan.explain()
    assert there.doctor(script, **spec)
    assert there.quotas("L4:2")
    assert [one.id for one in there.jobs()] == [job.id]
    assert list(there.orphans()) == []
    other = there.attach(job.uri)
    other.refresh()
    assert other.attempts
    list(other.logs())
    assert [(one.verb, one.method) for one in cloud.requests[made:] if writes(one)] == []
    assert len(cloud.requests) > made
