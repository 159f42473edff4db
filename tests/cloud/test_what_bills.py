"""What a job leaves that costs money, and for how long: what is there, and what the emulator billed."""

import math

import pytest

from gputrain import RequestError, State
from gputrain_emulator.faults import DropAfterCommit
from gputrain_emulator.vertex.states import Fate

JOB = {"gpu": "L4:1", "num_nodes": 2, "max_run_duration": "1h"}
HOUR_S = 3600
CREATES = {"compute": "compute.instances.bulkInsert", "vertex": "aiplatform.customJobs.create"}


@pytest.fixture(params=["compute", "vertex"])
def kind(request, cloud):
    """One of the two clouds, on which a job runs until something ends it."""
    cloud.vertex.set_fate(Fate(run_s=math.inf))
    return request.param


def bills(cloud):
    """US dollars of the next ten hours, which pass."""
    before = cloud.cost_usd
    cloud.clock.advance(10 * HOUR_S)
    return cloud.cost_usd - before


def test_a_plan_of_code_that_no_job_has_sent_yet_writes_nothing(cloud, trainer, kind, script):
    before = len(cloud.requests)
    trainer(kind).plan(script, **JOB)
    assert {one.verb for one in cloud.requests[before:]} == {"GET"}


def test_a_job_that_everybody_forgot_bills_until_its_limit_and_leaves_no_disk(cloud, trainer, kind, script):
    job = trainer(kind).submit(script, **JOB)
    cloud.clock.advance(2 * HOUR_S)
    assert cloud.cost_usd == pytest.approx(job.candidate.price_usd_h, rel=0.05)
    assert bills(cloud) == 0
    assert not cloud.compute.vms
    assert not cloud.compute.resources["disks"]


def test_a_cancel_ends_every_node(cloud, trainer, kind, script):
    job = trainer(kind).submit(script, **JOB)
    cloud.clock.advance(300)
    job.cancel()
    cloud.clock.advance(300)
    assert bills(cloud) == 0
    assert job.refresh().state is State.CANCELLED


def test_a_spot_job_is_billed_as_one(cloud, trainer, kind, script):
    prices = []
    for model in ("standard", "spot"):
        job = trainer(kind).submit(script, **JOB, provisioning_model=model)
        cloud.clock.advance(300)
        prices.append(sum(one.price_usd_h for one in cloud.ledger.meters if one.until is None))
        assert prices[-1] == pytest.approx(job.candidate.price_usd_h)
        job.cancel()
        cloud.clock.advance(300)
    assert prices[1] < prices[0]


def test_one_key_is_one_job_in_any_process(cloud, trainer, kind, script):
    first, second = (trainer(kind).submit(script, **JOB, idempotency_key="k") for _ in range(2))
    assert second.uri == first.uri
    assert len([one for one in cloud.requests if one.method == CREATES[kind]]) == 1


def test_a_create_whose_answer_was_lost_makes_one_job(cloud, trainer, kind, script):
    cloud.fail(CREATES[kind], DropAfterCommit())
    trainer(kind).submit(script, **JOB)
    cloud.clock.advance(300)
    assert sum(one.until is None for one in cloud.ledger.meters) == {"compute": 2, "vertex": 1}[kind]


def test_a_preempted_job_starts_again_as_often_as_was_asked_and_no_more(cloud, trainer, script):
    cloud.quota("PREEMPTIBLE_NVIDIA_L4_GPUS", 8)
    asked = {**JOB, "num_nodes": 1, "provisioning_model": "spot", "max_restarts": 1}
    job = trainer("compute").submit(script, **asked)
    starts = 0
    for _ in range(4):
        starts += len(cloud.compute.vms)
        for vm in list(cloud.compute.vms.values()):
            cloud.preempt(vm.name)
        cloud.clock.advance(300)
        job.refresh()
        job.supervise()
        cloud.clock.advance(300)
    assert (starts, job.refresh().state) == (2, State.FAILED)
    assert bills(cloud) == 0


def test_the_attempts_of_a_job_have_its_time_limit_together(cloud, trainer, script):
    cloud.quota("PREEMPTIBLE_NVIDIA_L4_GPUS", 8)
    asked = {**JOB, "num_nodes": 1, "provisioning_model": "spot", "max_restarts": 1}
    job = trainer("compute").submit(script, **asked)
    cloud.clock.advance(HOUR_S / 2)
    for vm in list(cloud.compute.vms.values()):
        cloud.preempt(vm.name)
    cloud.clock.advance(300)
    job.refresh()
    assert job.supervise()
    bills(cloud)
    assert cloud.cost_usd == pytest.approx(job.candidate.price_usd_h, rel=0.05)


def test_a_job_that_asked_for_no_restart_ends_with_its_machine(cloud, trainer, kind, script):
    cloud.quota("PREEMPTIBLE_NVIDIA_L4_GPUS", 8)
    job = trainer(kind).submit(script, **{**JOB, "num_nodes": 1, "provisioning_model": "spot"})
    cloud.clock.advance(300)
    for vm in list(cloud.compute.vms.values()):
        cloud.preempt(vm.name)
    for custom_job in list(cloud.vertex.jobs.values()):
        cloud.vertex.preempt(custom_job)
    cloud.clock.advance(300)
    assert job.refresh().state is State.FAILED
    assert not job.supervise()
    assert bills(cloud) == 0


def test_a_full_zone_sends_the_job_to_the_next_one(cloud, trainer, script):
    cloud.stock("us-central1-a", "g2-standard-4", 0)
    job = trainer("compute").submit(script, **{**JOB, "num_nodes": 1, "machine_type": "g2-standard-4"})
    assert job.candidate.place == "us-central1-b"
    assert [vm.zone for vm in cloud.compute.vms.values()] == ["us-central1-b"]


def test_a_clean_up_leaves_what_runs_and_what_others_own(cloud, trainer, script):
    alice, bob = (trainer("compute", bucket=f"gs://my-bucket/{who}") for who in ("alice", "bob"))
    jobs = [one.submit(script, **JOB) for one in (alice, bob)]
    cloud.clock.advance(300)
    assert not alice.clean_up()
    jobs[1].cancel()
    assert not alice.clean_up()
    cloud.clock.advance(300)
    assert len(cloud.compute.vms) == 2
    assert jobs[0].refresh().state is not State.CANCELLED


def test_a_key_of_another_spec_starts_nothing(cloud, trainer, kind, script):
    trainer(kind).submit(script, **JOB, idempotency_key="k")
    with pytest.raises(RequestError):
        trainer(kind).submit(script, **{**JOB, "num_nodes": 1}, idempotency_key="k")
    assert len([one for one in cloud.requests if one.method == CREATES[kind]]) == 1


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
