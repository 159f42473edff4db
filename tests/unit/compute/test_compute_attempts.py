"""An attempt on VMs: whole or not at all, once, ended as a whole, and told why."""

import dataclasses
import uuid

import attrs
import pytest

from gputrain import causes
from gputrain.errors import TransientError
from gputrain.google import Objects
from gputrain.jobstore import Attempt, Launch, RecordError
from gputrain.lifecycle import State
from gputrain.trainer import Trainer
from gputrain_emulator import faults
from gputrain_emulator.errors import ApiError
from tests.unit.compute.test_compute_causes import result

BULK = "compute.instances.bulkInsert"
DELETE = "compute.instances.delete"


def made(cloud):
    return [row for row in cloud.ledger.events("create") if "/instances/" in row.resource]


def test_a_gang_is_made_whole_and_bears_its_attempts_id_everywhere(cloud, jobs):
    stored = jobs.submit()
    attempt = stored.record.attempt
    assert attempt.state is Launch.LAUNCHED
    assert jobs.vms() == [f"bert-{attempt.id}-0", f"bert-{attempt.id}-1"]
    (sent,) = [one for one in cloud.requests if one.method == BULK]
    assert dict(sent.query)["requestId"] == [str(uuid.uuid5(uuid.NAMESPACE_OID, f"bert-{attempt.id}"))]
    (vm, _) = cloud.compute.vms.values()
    assert vm.resource["labels"]["gputrain-attempt"] == attempt.id
    assert "gputrain-gang" not in vm.resource["labels"]
    told = jobs.backend.build_request(
        stored.record, jobs.spec(), attempt, jobs._left(stored.record)[0], jobs.code(stored.record)
    )
    items = told.body["resource"]["instanceProperties"]["metadata"]["items"]
    document = next(one["value"] for one in items if one["key"] == "gputrain-job")
    for part in (
        f'"attempt": "{attempt.id}"',
        '"record": "records/bert.json"',
        '"folder": "jobs/bert/"',
    ):
        assert part in document
    status = jobs.status()
    assert (status.state, status.exists, status.is_whole, status.has_run) == (
        State.PROVISIONING, True, True, False,
    )  # fmt: skip
    jobs.run()
    status = jobs.status()
    assert (status.state, status.has_run, status.cause) == (State.RUNNING, True, None)
    assert status.started_at is not None
    assert jobs.backend.ssh_command(stored.record, 1).startswith(f"gcloud compute ssh bert-{attempt.id}-1 ")


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


def test_what_a_person_deletes_is_not_started_again(cloud, jobs):
    names = jobs.submit(num_nodes=1, max_restarts=3).record.attempt.names
    jobs.run()
    jobs.leave(names[0])  # without a word, and not by the account of the VM
    cloud.clock.advance(60)
    assert jobs.reconcile().state is State.CANCELLED
    assert jobs.record().result == "stopped_by_person"


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
