"""A submit against the emulated cloud: where it goes when places say no, and what the ledger tells of it."""

import os
import pickle
import signal

import pytest

from gputrain import NoPlacementError, QuotaExceededError, RequestError
from gputrain_emulator.faults import Reshape
from tests.unit.trainer.conftest import L4, MACHINE, VERTEX_L4, creates

BULK = "compute.instances.bulkInsert"
OPERATION = "compute.zoneOperations.get"
CREATE_JOB = "aiplatform.customJobs.create"


def test_without_quota_on_vertex_and_with_zone_a_full_it_lands_in_zone_b(cloud, trainer, script):
    cloud.quota(VERTEX_L4, 0)
    cloud.stock("us-central1-a", MACHINE, 0)
    job = trainer().submit(script, **L4)
    assert job.place == "us-central1-b"
    assert [one.outcome.value for one in job.attempts] == ["not tried", "no room", "accepted"]
    assert "custom_model_training_nvidia_l4_gpus in us-central1 is 0" in job.attempts[0].answer
    assert "there may be some in us-central1-b" in job.attempts[1].answer
    assert [seen.method for seen in creates(cloud)] == [BULK, BULK]


def test_no_quota_in_all_regions_together_means_no_call_at_all(cloud, trainer, script):
    cloud.quota("GPUS_ALL_REGIONS", 0)
    with pytest.raises(QuotaExceededError, match="nothing was tried") as caught:
        trainer("compute", regions=["us-central1", "europe-west4"]).submit(script, **L4)
    assert (caught.value.metric, caught.value.limit, caught.value.need) == ("GPUS_ALL_REGIONS", 0, 2)
    assert creates(cloud) == []


def test_a_switched_off_api_sends_it_to_the_next_backend(cloud, trainer, script):
    plan = trainer("compute", "vertex").plan(script, **L4)
    cloud.enable_api("compute", enabled=False)
    job = plan.submit()
    assert job.backend == "vertex"
    assert [one.outcome.value for one in job.attempts] == ["no access", "accepted"]


def test_a_request_at_fault_is_not_sent_anywhere_else(cloud, trainer, script):
    cloud.fail(BULK, "C17")
    with pytest.raises(RequestError):
        trainer("compute", "vertex").submit(script, **L4)
    assert len(creates(cloud)) == 1


def test_where_nothing_has_room_the_error_tells_the_whole_story(cloud, trainer, script):
    for zone in "abcf":
        cloud.stock(f"us-central1-{zone}", MACHINE, 0)
    cloud.quota(VERTEX_L4, 0)
    with pytest.raises(NoPlacementError) as caught:
        trainer().submit(script, **L4)
    text = str(caught.value)
    assert "us-central1-a, -b, -c" in text
    assert "custom_model_training_nvidia_l4_gpus in us-central1 is 0" in text
    assert "max_wait_duration" in text
    assert caught.value.plan.candidates
    assert not cloud.compute.vms
    copy = pickle.loads(pickle.dumps(caught.value))
    assert str(copy) == text
    assert str(copy.plan) == str(caught.value.plan)
    assert copy.plan == caught.value.plan


def test_max_wait_duration_waits_and_goes_round_again(cloud, trainer, script):
    for zone in "abcf":
        cloud.stock(f"us-central1-{zone}", MACHINE, 0)
    cloud.clock.after(600, lambda: cloud.stock("us-central1-c", MACHINE, None))
    job = trainer("compute").submit(script, **L4, max_wait_duration="1h")
    assert job.place == "us-central1-c"
    waited = (job.attempts[-1].at - job.attempts[0].at).total_seconds()
    assert 500 < waited < 1200


def test_the_same_key_finds_the_job_on_the_other_backend(cloud, trainer, script):
    cloud.quota(VERTEX_L4, 0)
    first = trainer().submit(script, **L4, idempotency_key="k")
    assert first.backend == "compute"
    cloud.quota(VERTEX_L4, 64)
    second = trainer().submit(script, **L4, idempotency_key="k")
    assert second.uri == first.uri
    assert second.candidate.place == first.candidate.place
    assert not cloud.vertex.jobs


def test_a_stale_plan_reads_the_facts_anew_and_keeps_its_choices(cloud, trainer, script):
    plan = trainer().plan(script, **L4)
    cloud.clock.advance(700)
    assert "stale" in str(plan)
    assert "stale" in plan.explain()
    cloud.quota(VERTEX_L4, 0)
    job = plan.submit()
    assert [one.outcome.value for one in job.attempts] == ["not tried", "accepted"]


@pytest.mark.parametrize(
    ("name", "step"), [("compute", BULK), ("compute", OPERATION), ("vertex", CREATE_JOB)]
)
def test_ctrl_c_in_a_submit_leaves_nothing_and_says_so(cloud, trainer, script, name, step):
    cloud.fail(step, Reshape(change=lambda reply: os.kill(os.getpid(), signal.SIGINT) or reply))
    with pytest.raises(KeyboardInterrupt, match="what was made is cancelled"):
        trainer(name).submit(script, **L4)
    cloud.clock.advance(600)
    assert not cloud.compute.vms
    assert all(job.state.value == "JOB_STATE_CANCELLED" for job in cloud.vertex.jobs.values())
    assert trainer(name).jobs() == []


def test_the_request_that_a_plan_shows_is_the_one_that_submit_would_send_first(cloud, trainer, script):
    cloud.quota(VERTEX_L4, 0)
    plan = trainer().plan(script, **L4)
    assert plan.candidates[0].backend == "vertex"
    assert plan.best.backend == "compute"
    assert plan.requests[0]["zone"] == plan.best.place
