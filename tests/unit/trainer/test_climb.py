"""A submit against the emulated cloud: where it goes when places say no, and what the ledger tells of it."""

import pickle

import pytest

from gputrain import (
    ApiDisabledError,
    NoPlacementError,
    PermissionDeniedError,
    QuotaExceededError,
    RequestError,
    State,
    StoppedError,
    Trainer,
    TransientError,
)
from gputrain.gcp import UnclearError
from gputrain.job import Job
from gputrain.trainer import road
from gputrain.trainer.undo import LATE_EVERY_S
from gputrain_emulator.faults import DropAfterCommit, DropBeforeCommit, Reshape
from tests import present
from tests.struck import press
from tests.unit.trainer.conftest import L4, MACHINE, VERTEX_L4, creates, tried

BULK = "compute.instances.bulkInsert"
OPERATION = "compute.zoneOperations.get"
CREATE_JOB = "aiplatform.customJobs.create"


def test_without_quota_on_vertex_and_with_zone_a_full_it_lands_in_zone_b(cloud, trainer, script):
    cloud.quota(VERTEX_L4, 0)
    cloud.stock("us-central1-a", MACHINE, 0)
    job = trainer().submit(script, **L4)
    assert job.ref.place == "us-central1-b~my-bucket"
    assert [one.outcome.value for one in job.attempts] == ["not tried", "no room", "accepted"]
    assert "custom_model_training_nvidia_l4_gpus in us-central1 is 0" in job.attempts[0].answer
    assert "there may be some in us-central1-b" in job.attempts[1].answer
    assert [seen.method for seen in creates(cloud)] == [BULK, BULK]


def test_a_quota_cut_after_the_plan_is_met_by_the_next_backend(cloud, trainer, script):
    plan = trainer().plan(script, **L4)
    cloud.quota(VERTEX_L4, 0)
    job = plan.submit()
    assert [one.outcome.value for one in job.attempts] == ["no quota", "accepted"]
    assert job.ref.backend == "compute"


def test_zones_that_google_names_are_tried_before_the_plans_next(cloud, trainer, script):
    for zone in "ab":
        cloud.stock(f"us-central1-{zone}", MACHINE, 0)
    job = trainer("compute").submit(script, **L4)
    assert tried(job) == [("compute", "us-central1-a"), ("compute", "us-central1-c")]


def test_a_regional_quota_cut_after_the_plan_sends_it_to_the_next_region(cloud, trainer, script):
    plan = trainer("compute", regions=["us-central1", "europe-west4"]).plan(script, **L4)
    cloud.quota("NVIDIA_L4_GPUS", 0, region="us-central1")
    job = plan.submit()
    assert [place[:-2] for _, place in tried(job)] == ["us-central1", "europe-west4"]


def test_no_quota_in_all_regions_together_means_no_call_at_all(cloud, trainer, script):
    cloud.quota("GPUS_ALL_REGIONS", 0)
    with pytest.raises(QuotaExceededError, match="nothing was tried") as caught:
        trainer("compute", regions=["us-central1", "europe-west4"]).submit(script, **L4)
    assert (caught.value.metric, caught.value.limit, caught.value.need) == ("GPUS_ALL_REGIONS", 0, 2)
    assert creates(cloud) == []


def test_a_project_wide_zero_that_came_after_the_plan_costs_one_call(cloud, trainer, script):
    plan = trainer("compute", regions=["us-central1", "europe-west4"]).plan(script, **L4)
    cloud.quota("GPUS_ALL_REGIONS", 0)
    with pytest.raises(QuotaExceededError):
        plan.submit()
    assert len(creates(cloud)) == 1


def test_a_switched_off_api_sends_it_to_the_next_backend(cloud, trainer, script):
    plan = trainer("compute", "vertex").plan(script, **L4)
    cloud.enable_api("compute", enabled=False)
    job = plan.submit()
    assert job.ref.backend == "vertex"
    assert [one.outcome.value for one in job.attempts] == ["no access", "accepted"]


def test_the_only_refusal_there_was_is_raised_as_it_is(cloud, trainer, script):
    plan = trainer("compute").plan(script, **L4)
    cloud.enable_api("compute", enabled=False)
    with pytest.raises(ApiDisabledError):
        plan.submit()
    cloud.enable_api("compute")
    cloud.fail(BULK, "C26")
    with pytest.raises(PermissionDeniedError):
        plan.submit()


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
    assert job.ref.place.startswith("us-central1-c")
    waited = (job.attempts[-1].at - job.attempts[0].at).total_seconds()
    assert 500 < waited < 1200


def test_a_quota_that_is_freed_is_waited_for(cloud, trainer, script):
    cloud.quota("NVIDIA_L4_GPUS", 1)
    cloud.clock.after(600, lambda: cloud.quota("NVIDIA_L4_GPUS", 8))
    job = trainer("compute").submit(script, **L4, max_wait_duration="1h")
    assert job.attempts.tries[-1].outcome.value == "accepted"
    assert len(creates(cloud)) == 1


def test_what_another_has_placed_while_it_rested_to_its_end_is_the_job(cloud, trainer, script):
    for zone in "abcf":
        cloud.stock(f"us-central1-{zone}", MACHINE, 0)
    placed = []

    def sleep(seconds):
        cloud.clock.advance(seconds)
        if seconds > 10 and not placed:
            for zone in "abcf":
                cloud.stock(f"us-central1-{zone}", MACHINE, 1)
            placed.append(trainer("compute").submit(script, **asked))

    asked = {**L4, "max_wait_duration": "20s", "idempotency_key": "one"}
    job = trainer("compute", sleep=sleep).submit(script, **asked)
    assert [job] == placed == trainer("compute").jobs()


def test_waiting_ends_with_max_wait_duration(cloud, trainer, script):
    for zone in "abcf":
        cloud.stock(f"us-central1-{zone}", MACHINE, 0)
    begun = cloud.clock.now()
    with pytest.raises(NoPlacementError, match="max_wait_duration has passed"):
        trainer("compute").submit(script, **L4, max_wait_duration="20m")
    assert 1200 <= cloud.clock.now() - begun < 1500


def test_a_zone_that_was_full_a_minute_ago_comes_last_for_the_next_job(cloud, trainer, script):
    cloud.stock("us-central1-a", MACHINE, 0)
    shared = trainer("compute")
    shared.submit(script, **L4)
    assert tried(shared.submit(script, **L4)) == [("compute", "us-central1-b")]
    cloud.clock.advance(3600)
    assert tried(shared.submit(script, **L4))[0] == ("compute", "us-central1-a")


def test_two_trainers_share_no_memory(cloud, trainer, script):
    cloud.stock("us-central1-a", MACHINE, 0)
    trainer("compute").submit(script, **L4)
    assert tried(trainer("compute").submit(script, **L4))[0] == ("compute", "us-central1-a")


def test_a_lost_answer_never_leads_to_a_second_gang_elsewhere(cloud, trainer, script):
    for fault in (DropAfterCommit(), DropBeforeCommit(), DropBeforeCommit()):
        cloud.fail(BULK, fault)
    job = trainer("compute", "vertex").submit(script, **L4)
    assert job.ref.backend == "compute"
    assert len(cloud.compute.vms) == 1
    assert not cloud.vertex.jobs


def test_an_answer_that_never_comes_is_raised_and_nothing_is_asked_elsewhere(cloud, trainer, script):
    cloud.fail(CREATE_JOB, DropBeforeCommit(), times=None)
    with pytest.raises(TransientError):
        trainer().submit(script, **L4)
    assert not cloud.vertex.jobs
    assert {seen.method for seen in creates(cloud)} == {CREATE_JOB}


def test_the_same_key_finds_the_job_on_the_other_backend(cloud, trainer, script):
    cloud.quota(VERTEX_L4, 0)
    first = trainer().submit(script, **L4, idempotency_key="k")
    assert first.ref.backend == "compute"
    cloud.quota(VERTEX_L4, 64)
    second = trainer().submit(script, **L4, idempotency_key="k")
    assert second.uri == first.uri
    assert second.candidate.place == first.candidate.place
    assert not cloud.vertex.jobs


def test_the_same_key_finds_the_job_although_it_has_used_up_the_quota(cloud, trainer, script):
    cloud.quota("NVIDIA_L4_GPUS", 2)
    first = trainer("compute").submit(script, **L4, idempotency_key="k")
    cloud.clock.advance(120)
    assert trainer("compute").submit(script, **L4, idempotency_key="k").uri == first.uri


def test_a_plan_that_is_submitted_twice_gives_one_job(cloud, trainer, script):
    plan = trainer("compute").plan(script, **L4)
    assert plan.submit().uri == plan.submit().uri
    assert len(cloud.compute.vms) == 1


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
    cloud.fail(step, Reshape(change=press))
    with pytest.raises(KeyboardInterrupt, match="withdrawn"):
        trainer(name).submit(script, **L4)
    cloud.clock.advance(600)
    assert not cloud.compute.vms
    assert all(job.life.state.value == "JOB_STATE_CANCELLED" for job in cloud.vertex.jobs.values())
    assert trainer(name).jobs() == [] or name == "vertex"


def test_a_second_ctrl_c_ends_the_withdrawing(cloud, trainer, script):
    slept = []

    def sleep(seconds):
        slept.append(seconds)
        cloud.clock.advance(seconds)
        press()

    cloud.fail(BULK, Reshape(change=press))
    with pytest.raises(KeyboardInterrupt, match="it may be there"):
        trainer("compute", sleep=sleep).submit(script, **L4)
    assert slept == [LATE_EVERY_S]


def test_ctrl_c_when_the_job_is_there_says_how_to_take_it_up(tmp_path, script, monkeypatch):
    pressed = []

    def press_once(*words, **named):
        if not pressed:
            pressed.append(True)
            press()
        return Job(*words, **named)

    monkeypatch.setattr(road, "Job", press_once)
    trainer = Trainer(present.backend("local")(gpus=0, root=tmp_path / "jobs"))
    with pytest.raises(KeyboardInterrupt, match=r"goes on: gputrain.attach\('gputrain://local/") as caught:
        trainer.submit(script)
    uri = str(caught.value).split("'")[1]
    assert trainer.attach(uri).wait(timeout=60) is State.SUCCEEDED


def test_ctrl_c_before_anything_was_asked_for_says_that_nothing_was_made(cloud, trainer, script):
    cloud.fail("storage.buckets.list", Reshape(change=press))
    with pytest.raises(KeyboardInterrupt, match="nothing was made"):
        trainer("compute").submit(script, **L4)
    assert creates(cloud) == []


def test_ctrl_c_while_waiting_says_that_nothing_was_made(cloud, trainer, script):
    for zone in "abcf":
        cloud.stock(f"us-central1-{zone}", MACHINE, 0)

    def sleep(seconds):
        if seconds > 20:
            raise KeyboardInterrupt
        cloud.clock.advance(seconds)

    with pytest.raises(KeyboardInterrupt, match="nothing was made at the 3 places"):
        trainer("compute", sleep=sleep).submit(script, **L4, max_wait_duration="1h")
    assert not cloud.compute.vms
    assert trainer("compute").jobs() == []


@pytest.mark.parametrize("end", [KeyboardInterrupt, StoppedError])
def test_an_end_between_a_lost_answer_and_the_next_try_leaves_nothing(
    cloud, trainer, backend, now, script, end
):
    slept = []

    class Lost(present.backend("compute")):
        def create(self, request):
            super().create(request)
            raise UnclearError("the answer was lost")

    def sleep(seconds):
        if not slept.append(seconds) and len(slept) == 1:
            raise end("it was to stop")
        cloud.clock.advance(seconds)

    lost = Lost(
        "my-project", bucket="gs://my-bucket", regions=["us-central1"], endpoints=cloud.endpoints,
        credentials=cloud.credentials, sleep=cloud.clock.advance, now=lambda: now().timestamp(),
    )  # fmt: skip
    with pytest.raises(end, match="what was made there was withdrawn"):
        Trainer(lost, now=now, sleep=sleep).submit(script, **L4, idempotency_key="k")
    cloud.clock.advance(60)
    assert not cloud.compute.vms
    assert trainer("compute").jobs() == []


def wait(job, cloud, *, until):
    """What a waiting client does: look, start again where that is left to it, and let time pass."""
    for _ in range(100):
        job.refresh()
        job.resume()
        if job.state is until:
            return
        cloud.clock.advance(30)
    raise AssertionError(job)


def test_a_job_that_vertex_takes_and_finds_no_machines_for_goes_on_to_the_next_backend(
    cloud, trainer, script
):
    cloud.vertex.set_stock(MACHINE, 0, region="us-central1")
    job = trainer().submit(script, **L4, idempotency_key="k")
    assert job.ref.backend == "vertex"
    cloud.clock.advance(1000)
    assert "next place of the plan" in job.refresh().detail
    assert job.resume()
    assert job.uri.startswith("gputrain://compute/my-project/us-central1-a")
    assert [one.answer for one in job.attempts] == ["accepted", "no room after all", "accepted"]
    assert job.candidate.backend == "compute"
    assert trainer().submit(script, **L4, idempotency_key="k").uri == job.uri
    assert len(cloud.compute.vms) == 1


def test_a_job_that_goes_on_and_finds_no_room_anywhere_has_failed(cloud, trainer, script):
    cloud.vertex.set_stock(MACHINE, 0, region="us-central1")
    job = trainer().submit(script, **L4)
    for zone in "abcf":
        cloud.stock(f"us-central1-{zone}", MACHINE, 0)
    wait(job, cloud, until=State.FAILED)
    assert [one.answer for one in job.attempts][:2] == ["accepted", "no room after all"]
    assert len(job.attempts) == 5
    assert not cloud.compute.vms


def test_a_job_that_found_no_machines_of_one_kind_goes_on_to_the_next_kind_in_the_same_region(
    cloud, trainer, script
):
    cloud.vertex.set_stock(MACHINE, 0, region="us-central1")
    job = trainer("vertex").submit(script, gpu=["L4:2", "T4:2"], max_run_duration="1h")
    wait(job, cloud, until=State.SUCCEEDED)
    assert [one.answer for one in job.attempts] == ["accepted", "no room after all", "accepted"]
    assert job.candidate.gpu == "T4"


def test_the_request_that_a_plan_shows_is_the_one_that_submit_would_send_first(cloud, trainer, script):
    cloud.quota(VERTEX_L4, 0)
    plan = trainer().plan(script, **L4)
    assert plan.candidates[0].backend == "vertex"
    assert plan.best.backend == "compute"
    assert plan.requests[0]["zone"] == plan.best.place


def test_a_spot_vm_that_is_reclaimed_and_restarted_elsewhere_is_in_the_ledger(cloud, trainer, script):
    spot = {**L4, "provisioning_model": "spot", "max_restarts": 1}
    job = trainer("compute").submit(script, **spot)
    first = job.candidate.place
    cloud.clock.advance(120)
    cloud.preempt(f"{job.ref.name}-0-0")
    cloud.stock(first, MACHINE, 0)
    cloud.clock.advance(120)
    for _ in range(20):
        job.refresh()
        if job.resume():
            break
        cloud.clock.advance(30)
    assert job.candidate.place != first
    assert [one.answer.partition(",")[0] for one in job.attempts] == [
        "accepted",
        "interrupted there",
        "accepted",
    ]
