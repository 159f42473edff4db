"""Time and money carry over restarts, whoever restarts, and however little is known of an attempt."""

import pytest

from gputrain.lifecycle import State
from gputrain.trainer import Trainer
from tests.unit.compute.test_compute_causes import result

LIMIT_S = 3600
SPOT = {
    "num_nodes": 1, "provisioning_model": "spot", "max_restarts": 2, "max_run_duration": f"{LIMIT_S}s",
    "max_wait_duration": "6h",
}  # fmt: skip


@pytest.fixture
def job(jobs):
    """Submits a Spot job of one VM."""

    def submit(**fields):
        jobs.submit(**{**SPOT, **fields})
        return jobs

    return submit


def reclaim(jobs, after_s):
    (name,) = jobs.names()
    jobs.cloud.clock.advance(after_s)
    jobs.cloud.preempt(name, to_stock=True)
    jobs.cloud.clock.advance(300)


def limit_s(jobs):
    (vm,) = [vm for vm in jobs.cloud.compute.vms.values() if vm.name in jobs.names()]
    return int(vm.resource["scheduling"]["maxRunDuration"]["seconds"])


def test_money_that_was_spent_is_not_spent_again(job):
    jobs = job(max_cost=0.2, max_run_duration="10h")
    first = limit_s(jobs)
    assert first < 36000
    reclaim(jobs, 1000)
    jobs.reconcile()
    assert limit_s(jobs) <= first - 1000


def test_a_service_that_supervises_starts_what_was_interrupted_and_nothing_else(make, job):
    jobs = job()
    other = jobs.submit("gpt", **{**SPOT, "max_restarts": 0}).record.attempt
    reclaim(jobs, 10)
    service = Trainer(make(), now=jobs.context.now)
    assert [one.id for one in service.supervise()] == ["bert"]
    assert [one.id for one in service.supervise()] == []
    assert jobs.record("gpt").attempt == other


def test_a_log_that_is_not_whole_is_told_however_well_the_job_ended(job):
    jobs = job()
    jobs.run()
    jobs.say(0, "ended", exit_code=0, result={**result("done", 0), "lost_lines": 2}, lost_lines=3)
    found = jobs.reconcile()
    assert found.state is State.SUCCEEDED
    assert found.status.detail == "5 lines of the log were lost: they could not be written"
