"""An attempt on VMs: whole or not at all, with fewer nodes where a job may, ended as a whole, replaced."""

import dataclasses
import uuid

import attrs
import pytest

from gputrain import causes
from gputrain.errors import CapacityError, QuotaExceededError, RequestError, TransientError
from gputrain.google import Objects
from gputrain.jobstore import Attempt, Launch, RecordError
from gputrain.lifecycle import State
from gputrain.trainer import Trainer
from gputrain_emulator import faults
from gputrain_emulator.errors import ApiError
from tests.unit.compute.test_compute_causes import result

BULK = "compute.instances.bulkInsert"
DELETE = "compute.instances.delete"


def test_a_gang_is_made_whole_and_bears_its_attempts_id_everywhere(cloud, jobs):
    stored = jobs.submit()
    attempt = stored.record.attempt
    assert attempt.state is Launch.LAUNCHED
    assert jobs.vms() == [f"bert-{attempt.id}-0", f"bert-{attempt.id}-1"]
    (sent,) = [one for one in cloud.requests if one.method == BULK]
    assert dict(sent.query)["requestId"] == [str(uuid.uuid5(uuid.NAMESPACE_OID, f"bert-{attempt.id}"))]
    (vm, _) = cloud.compute.vms.values()
    assert vm.resource["labels"]["gputrain-attempt"] == attempt.id
    status = jobs.status()
    assert (status.state, status.exists, status.is_whole, status.has_run) == (
        State.PROVISIONING, True, True, False,
    )  # fmt: skip
    jobs.run()
    status = jobs.status()
    assert (status.state, status.has_run, status.cause) == (State.RUNNING, True, None)
    assert status.started_at is not None
    assert jobs.backend.ssh_command(stored.record, 1).startswith(f"gcloud compute ssh bert-{attempt.id}-1 ")


def test_an_answer_to_a_create_that_is_no_operation_is_no_answer(cloud, jobs):
    cloud.fail(BULK, faults.Reshape(change=lambda _: {}), times=1)
    assert jobs.submit().record.attempt.state is Launch.LAUNCHED
    made = [row for row in cloud.ledger.events("create") if "/instances/" in row.resource]
    assert len(jobs.vms()) == len(made) == 2


def test_what_is_left_of_a_refused_try_and_cannot_be_removed_keeps_the_attempt(cloud, jobs):
    cloud.stock("us-central1-a", "g2-standard-4", 1)
    cloud.compute.settings.rollback_s = 10_000
    refusal = faults.Refuse(error=ApiError(403, "Required 'x' permission for 'y'", reason="forbidden"))
    cloud.fail(DELETE, refusal, times=None)
    with pytest.raises(TransientError, match="unknown whether VMs of bert are left") as caught:
        jobs.submit()
    assert caught.value.kind == "left_behind"
    assert jobs.record().attempt.option.place == "us-central1-a"


def test_a_quota_that_only_an_operation_tells_sends_the_job_to_another_region(cloud, jobs_of):
    jobs = jobs_of(regions=["us-central1", "us-east4"])
    cloud.fail(BULK, "C06b")
    record = jobs.submit().record
    (past,) = record.history
    assert (past.outcome, record.attempt.option.region) == ("no quota", "us-east4")
    assert jobs.left() == list(record.attempt.names)
    cloud.fail("compute.instances.insert", "C06b")
    jobs.submit("flex", num_nodes=1, provisioning_model="flex-start", max_wait_duration="1h")
    cloud.clock.advance(60)
    jobs.reconcile("flex")
    assert jobs.record("flex").history[0].outcome == "quota_region"


def test_a_half_gang_saves_is_ended_and_is_replaced_with_a_new_attempt(cloud, jobs):
    first = jobs.submit(provisioning_model="spot", max_restarts=1).record.attempt
    jobs.run()
    cloud.preempt(first.names[1])
    cloud.clock.advance(200)
    status = jobs.status()
    assert status.lost_for_s is not None
    assert (status.state, status.has_run, status.is_whole) == (State.RUNNING, True, False)
    jobs.pass_by(120)
    assert first.names[0] in jobs.vms()  # it may be saving
    jobs.pass_by(180)
    record = jobs.record()
    assert record.attempt.id != first.id
    (past,) = record.history
    assert (past.outcome, past.has_run) == ("preempted", True)
    assert past.ran_s > 60
    assert jobs.vms() == list(record.attempt.names)
    assert (record.restarts, record.used_s) == (1, past.ran_s)


def test_a_job_succeeds_once_all_of_its_nodes_have_ended_well(cloud, jobs):
    names = jobs.submit().record.attempt.names
    jobs.run()
    jobs.say(1, "ended", exit_code=0, result=result("done", 0, node_rank=1))
    jobs.leave(names[1])
    jobs.pass_by(600)  # node 0 still sends what was written
    assert jobs.look().state is State.RUNNING
    assert jobs.vms() == [names[0]]
    jobs.say(0, "ended", exit_code=0, result=result("done", 0))
    assert jobs.reconcile().state is State.SUCCEEDED
    assert jobs.record().result == "succeeded"
    assert jobs.vms() == []


def test_ranks_that_heed_no_cancel_are_ended(cloud, jobs):
    jobs.submit()
    jobs.run()
    jobs.cancel(grace_s=30)
    jobs.pass_by(170)
    assert len(jobs.vms()) == 2
    jobs.pass_by(60)
    assert (jobs.record().result, jobs.vms()) == ("cancelled", [])


def test_a_job_whose_record_is_damaged_is_cleaned_up_and_nothing_beside_it(cloud, jobs, make):
    damaged, living = jobs.submit("damaged").record, jobs.submit("living").record
    Objects(jobs.backend._access, "my-bucket").write("records/damaged.json", b"{}", if_generation=None)
    trainer = Trainer(make(), now=jobs.context.now)
    assert {one.name for one in trainer.orphans()} == set(damaged.attempt.names)
    assert len(trainer.clean_up()) == 2
    cloud.clock.advance(60)
    assert jobs.vms() == list(living.attempt.names)


def test_what_lists_lack_is_asked_for_by_its_name(cloud, jobs):
    cloud.compute.settings.list_lag_s = 600
    jobs.submit()
    jobs.run()
    assert jobs.status().state is State.RUNNING
    assert jobs.status().is_whole


def test_a_record_that_names_what_is_not_ours_is_not_followed(jobs):
    record = jobs.submit().record
    hostile = [
        {"names": ["prod-db-0", "prod-db-1"]},
        {"option": attrs.evolve(record.attempt.option, place="us-central1-a/instances/x?y=")},
    ]
    for changes in hostile:
        bad = attrs.evolve(record, attempt=attrs.evolve(record.attempt, **changes))
        assert jobs.backend.inspect_many([bad])["bert"].state is None
        with pytest.raises(RecordError):
            jobs.backend.terminate(bad, 0)
    strangers = Attempt(option=record.attempt.option, names=("x-database-0",), id="database")
    cloud_vm = next(iter(jobs.cloud.compute.vms.values()))
    cloud_vm.name = cloud_vm.resource["name"] = "x-database-0"
    jobs.backend.terminate(attrs.evolve(record, attempt=strangers), 0)
    assert "x-database-0" in jobs.vms()


def test_a_look_over_many_jobs_is_few_calls(cloud, jobs):
    """200 jobs that run, and one of them is preempted: 150 calls a minute at most."""
    record = jobs.submit("job-0", num_nodes=1, provisioning_model="spot", max_restarts=0).record
    cloud.clock.advance(60)
    (vm,) = cloud.compute.vms.values()
    records = []
    for number in range(200):
        attempt_id = f"a{number:07}"
        names = (f"job-{number}-{attempt_id}-0",)
        attempt = attrs.evolve(record.attempt, id=attempt_id, names=names)
        records.append(attrs.evolve(record, job_id=f"job-{number}", attempt=attempt))
        labels = {**vm.resource["labels"], "gputrain-attempt": attempt_id}
        resource = {**vm.resource, "name": names[0], "labels": labels}
        copy = dataclasses.replace(vm, name=names[0], resource=resource)
        cloud.compute.vms[copy.key] = copy
        jobs.say(0, "running", record=records[-1])
    before, began = len(cloud.requests), cloud.clock.now()
    while cloud.clock.now() - began < 180:
        found = jobs.backend.inspect_many(records)
        cloud.clock.advance(5)
    asked = [one.method for one in cloud.requests[before:]]
    assert len(asked) / 3 <= 150
    assert asked.count("compute.instances.list") == len(asked) - asked.count("storage.objects.get")
    assert {one.state for one in found.values()} == {State.RUNNING}
    cloud.preempt(names[0])
    cloud.clock.advance(200)
    found = jobs.backend.inspect_many(records)
    assert found["job-199"].cause is causes.PREEMPTED
    assert all(one.state is not None for one in found.values())


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


MACHINE = "g2-standard-4"
ZONES = ("us-central1-a", "us-central1-b", "us-central1-c")


@pytest.fixture
def interrupted(cloud, jobs):
    """A job of Spot nodes, three unless said, that was preempted; its first zone has room for so many."""
    cloud.compute.settings.quotas = False

    def submit(room, **fields):
        spot = {"provisioning_model": "spot", "max_run_duration": "10h", "max_wait_duration": "6h"}
        jobs.submit(**{**spot, "num_nodes": 3, "max_restarts": 3, **fields})
        preempt(cloud, jobs, room)
        return jobs

    return submit


def preempt(cloud, jobs, room):
    """All of its VMs go while there is no room, and later there is room for so many."""
    jobs.run()
    for name in jobs.names():
        cloud.preempt(name)
    for zone in ZONES:
        cloud.stock(zone, MACHINE, 0)
    cloud.clock.advance(300)
    cloud.stock(ZONES[0], MACHINE, room)


@pytest.mark.parametrize(("room", "wanted"), [(2, 3), (3, 4)])
def test_it_goes_on_with_as_many_as_there_is_room_for(make, interrupted, room, wanted):
    jobs = interrupted(room, num_nodes=wanted, min_nodes=1)
    whole = jobs.record().attempt
    jobs.reconcile()
    record = jobs.record()
    assert len(jobs.vms()) == len(record.attempt.names) == room
    assert record.attempt.option.missing_nodes == wanted - room
    assert record.attempt.price_usd_h == pytest.approx(whole.price_usd_h * room / wanted)
    (job,) = Trainer(make()).jobs()
    job.refresh()
    assert job.candidate.num_nodes == room
    assert any(f"with {room} of {wanted} nodes" in one.answer for one in job.attempts)
    assert job.attempts[0].candidate.num_nodes == wanted


@pytest.mark.parametrize("count", [1, 16])
def test_a_group_of_any_size_costs_one_write_and_five_reads(cloud, jobs, count):
    jobs.submit(num_nodes=1)  # what every process asks once is asked
    before = len(cloud.requests)
    jobs.launch("other", num_nodes=count)
    seen = [one for one in cloud.requests[before:] if one.method.startswith("compute.")]
    assert [one.method for one in seen if one.verb != "GET"] == [BULK]
    reads = [one.method for one in seen if one.verb == "GET" and one.method != "compute.zoneOperations.get"]
    assert len(reads) <= 5, reads
    assert len(jobs.vms()) == 1 + count


@pytest.mark.parametrize("has_members", [True, False])
def test_a_full_zone_leaves_nothing_and_names_the_zones_that_have_room(cloud, jobs, has_members):
    cloud.stock("us-central1-a", "g2-standard-4", 1)
    if not has_members:  # who may not list operations is told all the same
        cloud.fail("compute.zoneOperations.list", "C26", times=None)
    request = jobs.request()
    with pytest.raises(CapacityError) as caught:
        jobs.backend.launch(request)
    assert request.candidate.place == "us-central1-a"
    assert caught.value.zones_available
    assert jobs.vms() == []


def test_half_a_group_lives_for_less_than_a_minute(cloud, jobs):
    cloud.stock("us-central1-a", "g2-standard-4", 1)
    cloud.compute.settings.rollback_s = 3600.0
    with pytest.raises(CapacityError):
        jobs.launch()
    times = {row.event: row.time for row in cloud.ledger if "/instances/" in row.resource}
    assert "start" in times
    assert times["delete"] - times["start"] < 60


def test_a_quota_is_told_with_its_metric_limit_and_region(cloud, jobs):
    request = jobs.request()
    cloud.quota("NVIDIA_L4_GPUS", 1)
    with pytest.raises(QuotaExceededError) as caught:
        jobs.backend.launch(request)
    assert (caught.value.metric, caught.value.limit) == ("NVIDIA_L4_GPUS", 1.0)
    assert caught.value.where == "us-central1"
    assert jobs.vms() == []


@pytest.mark.parametrize("row", ["C21", "C23"])
def test_a_name_that_is_taken_is_this_attempts_own(cloud, jobs, row):
    cloud.fail(BULK, row)
    assert jobs.submit().record.attempt.state is Launch.LAUNCHED


def test_an_image_that_is_not_there_is_told_by_name_before_anything_is_made(jobs_of):
    jobs = jobs_of(image_family="deeplearning-platform-release/of-yesterday")
    with pytest.raises(RequestError, match="image_family=") as caught:
        jobs.launch()
    assert "of-yesterday" in caught.value.why
    assert jobs.vms() == []


def test_a_cancel_that_could_not_delete_a_vm_says_so(cloud, jobs):
    jobs.submit()
    cloud.clock.advance(60)
    lost = faults.Refuse(error=ApiError(503, "Try again later."))
    cloud.fail(DELETE, lost, times=None)
    with pytest.raises(TransientError):
        jobs.cancel()
    assert jobs.vms()
