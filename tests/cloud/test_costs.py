"""What a job says that it has cost is what the cloud billed."""

import pytest

from tests.cloud.test_what_bills import JOB

SPOT = {**JOB, "num_nodes": 1, "provisioning_model": "spot", "max_restarts": 1}


def test_the_cost_of_a_job_is_that_of_all_its_attempts(cloud, trainer, script):
    cloud.quota("PREEMPTIBLE_NVIDIA_L4_GPUS", 8)
    job = trainer("compute").submit(script, **SPOT)
    cloud.clock.advance(1200)
    (first,) = cloud.compute.vms.values()
    cloud.preempt(first.name)
    cloud.clock.advance(300)
    job.refresh()
    assert job.supervise()
    cloud.clock.advance(1200)
    job.cancel()
    cloud.clock.advance(300)
    job.refresh()
    assert job.attempt == 1
    assert job.cost_usd == pytest.approx(cloud.cost_usd, rel=0.1)
    assert trainer("compute").attach(job.uri).cost_usd == pytest.approx(job.cost_usd)


def test_the_cost_of_a_vertex_job_is_what_was_billed(cloud, trainer, script):
    job = trainer("vertex").submit(script, **JOB)
    cloud.clock.advance(1200)
    job.refresh()
    assert job.cost_usd == pytest.approx(cloud.cost_usd, rel=0.1)
    assert job.cost_usd > 0
