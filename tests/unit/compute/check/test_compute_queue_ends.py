"""A gang in Google's flex-start queue that somebody or something takes away: what is told of it."""

import json

import pytest
from google.cloud.compute_v1 import InstanceGroupManagersClient

from gputrain.errors import PermissionDeniedError
from gputrain.lifecycle import State
from gputrain.spec import TrainingSpec
from gputrain.trainer import Trainer
from gputrain_emulator import faults
from gputrain_emulator.errors import ApiError

ZONES, MACHINE = [f"us-central1-{letter}" for letter in "abc"], "g2-standard-4"
REFUSED = faults.Refuse(error=ApiError(403, "Required 'x' permission for 'y'", reason="forbidden"))


@pytest.fixture(autouse=True)
def room(cloud):
    for metric in ("PREEMPTIBLE_NVIDIA_L4_GPUS", "GPUS_ALL_REGIONS"):
        cloud.quota(metric, 100)


@pytest.fixture
def spec(code):
    fields = {"script": code, "gpu": "L4:1", "machine_type": MACHINE, "num_nodes": 2}
    return TrainingSpec(
        **fields, provisioning_model="flex-start", max_run_duration="1h", max_wait_duration="9h"
    )


def full(cloud, count=0):
    for zone in ZONES:
        cloud.stock(zone, MACHINE, count)


def delete_group(cloud):
    """As a person does in the console."""
    (group,) = cloud.compute.resources["instanceGroupManagers"]
    groups = InstanceGroupManagersClient(credentials=cloud.credentials, client_options=cloud.client_options)
    groups.delete_unary(**dict(zip(("project", "zone", "instance_group_manager"), group.split("/")[1::2])))
    cloud.clock.advance(30)


def left(cloud):
    kinds = ("instanceTemplates", "instanceGroupManagers", "instanceGroupManagerResizeRequests")
    return [name for kind in kinds for name in cloud.compute.resources[kind]]


def test_a_group_that_a_person_deletes_is_told_at_once(cloud, make, spec):
    full(cloud)
    job = Trainer(make()).submit(spec)
    cloud.clock.advance(60)
    delete_group(cloud)
    assert job.refresh().state is State.CANCELLED
    assert job.failure.kind == "stopped_by_person"
    assert f"by {cloud.owner.email}" in job.failure.message
    job.supervise()
    assert left(cloud) == []


def test_what_another_process_withdraws_is_no_persons_wish(cloud, make, spec):
    full(cloud)
    road = make()
    job = Trainer(road).submit(spec)
    cloud.clock.advance(60)
    cloud.fail("compute.instanceTemplates.delete", REFUSED, times=None)
    with pytest.raises(PermissionDeniedError):
        road.recorder().clear(road.recorder().known(job.ref))
    cloud.clock.advance(60)
    assert Trainer(make()).attach(job.uri).state is State.QUEUED


def test_vms_that_google_took_back_do_not_tell_why_later_ones_went(cloud, make, spec):
    cloud.compute.settings.flex_false_starts = True
    full(cloud, 1)
    job = Trainer(make()).submit(spec)
    cloud.clock.advance(100)
    full(cloud, 9)
    cloud.clock.advance(400)
    assert {vm.status for vm in cloud.compute.vms.values()} == {"RUNNING"}
    for vm in tuple(cloud.compute.vms.values()):
        cloud.host_error(vm.path)
    cloud.clock.advance(200)
    assert job.refresh().failure.kind == "host_error", job.failure


def test_the_wait_goes_on_where_the_next_place_is_asked(cloud, make, spec):
    full(cloud)
    trainer = Trainer(make(regions=["us-central1"]))
    job = trainer.submit(spec)
    cloud.clock.advance(8.5 * 3600)
    ((path, _),) = cloud.compute.queued.items()
    error = {"code": "ZONE_RESOURCE_POOL_EXHAUSTED", "message": "The zone does not have enough resources."}
    document = cloud.compute.resources["instanceGroupManagerResizeRequests"][path]
    document.update(state="FAILED", status={"error": {"errors": [error]}})
    del cloud.compute.queued[path]
    job.refresh()
    assert job.supervise()
    cloud.clock.advance(3600)
    job.refresh()
    job.supervise()
    assert job.refresh().state is State.EXPIRED, job
    assert job.failure.kind == "wait_limit"


@pytest.mark.parametrize("method", ["compute.instanceTemplates.get", "compute.instanceGroupManagers.get"])
def test_who_may_not_look_at_the_queue_is_told_of_it_in_words(cloud, make, spec, method):
    full(cloud)
    job = Trainer(make()).submit(spec)
    cloud.clock.advance(60)
    cloud.fail(method, REFUSED, times=None)
    with pytest.raises(PermissionDeniedError) as told:
        job.cancel()
    assert "://" not in told.value.what
    assert job.ref.name in told.value.what


def test_a_cancel_of_a_gang_whose_group_was_deleted_as_it_came_up_ends_its_key(cloud, make, spec):
    full(cloud, 9)
    job = Trainer(make()).submit(spec, idempotency_key="bert")
    cloud.clock.advance(120)
    first = min(cloud.compute.vms.values(), key=lambda vm: vm.name)
    word = json.dumps({"vm_id": first.resource["id"]}).encode()
    stored, folder = make()._stored, f"jobs/{job.ref.name}/attempt-0"
    stored.write(f"{folder}/status-0.json", word, if_generation=0)
    nonce = make().recorder().board.read(job.ref.name).latest.nonce
    stored.write(f"{folder}/lock", json.dumps({"nonce": nonce, "token": "0a"}).encode(), if_generation=0)
    delete_group(cloud)
    cloud.clock.advance(120)
    assert job.refresh().state is State.CANCELLED
    job.cancel()
    assert Trainer(make()).submit(spec, idempotency_key="bert").refresh().state is State.CANCELLED
    assert (cloud.compute.vms, left(cloud)) == ({}, [])


def test_who_submits_it_once_more_after_its_group_was_deleted_asks_anew(cloud, make, spec):
    full(cloud)
    Trainer(make()).submit(spec, idempotency_key="bert")
    cloud.clock.advance(60)
    delete_group(cloud)
    full(cloud, 9)
    again = Trainer(make()).submit(spec, idempotency_key="bert")
    cloud.clock.advance(120)
    assert again.refresh().state is State.PROVISIONING
    assert len(cloud.compute.vms) == 2


@pytest.mark.parametrize(
    ("word", "message", "kind"),
    [
        ("ZONE_RESOURCE_POOL_EXHAUSTED", "The zone does not have enough resources.", "stockout_region"),
        (
            "QUOTA_EXCEEDED",
            "Quota 'NVIDIA_L4_GPUS' exceeded.  Limit: 1.0 in region us-central1.",
            "quota_region",
        ),
        ("PERMISSION_DENIED", "Required 'compute.disks.create' permission for 'x'", "permission"),
        ("NEVER_SEEN", "something new", "unknown"),
    ],
)
def test_a_request_that_google_gives_up_is_told_by_what_it_lacked(cloud, make, spec, word, message, kind):
    full(cloud)
    road = make(regions=["us-central1"])
    ref = Trainer(road).submit(spec).ref
    cloud.clock.advance(60)
    ((path, _),) = cloud.compute.queued.items()
    document = cloud.compute.resources["instanceGroupManagerResizeRequests"][path]
    document.update(state="FAILED", status={"error": {"errors": [{"code": word, "message": message}]}})
    del cloud.compute.queued[path]
    failure = road.observe(ref).failure
    assert failure.kind == kind
    assert message.rstrip(".") in failure.message
