"""Once the write was sent, a gang is there or each VM was seen to be gone; nobody else's is touched."""

import json

import attrs
import pytest

from gputrain import catalog
from gputrain.backends.base import JobRef
from gputrain.backends.compute import ComputeEngine
from gputrain.backends.compute.left_behind import LeftBehindError
from gputrain.errors import (
    CapacityError,
    GputrainError,
    JobLostError,
    PermissionDeniedError,
    ProviderError,
    RequestError,
    TransientError,
)
from gputrain.gcp import Objects
from gputrain.lifecycle import State
from gputrain.records import CANCELLED, MADE, WITHDRAWN
from gputrain.spec import TrainingSpec
from gputrain.trainer import Trainer, attach
from gputrain_emulator import faults
from gputrain_emulator.compute import lifecycle
from gputrain_emulator.errors import ApiError
from gputrain_emulator.storage import Storage
from tests.unit.steps import Steps

BULK = "compute.instances.bulkInsert"


def spec(code, **fields):
    return TrainingSpec(**{"script": code, "gpu": "L4:1", "num_nodes": 4, "max_run_duration": "1h", **fields})


def vms(cloud):
    return sorted(vm.name for vm in cloud.compute.vms.values())


def writes(cloud):
    return [one.method for one in cloud.requests if one.verb != "GET"]


@pytest.fixture(autouse=True)
def room(cloud):
    for metric in ("NVIDIA_L4_GPUS", "GPUS_ALL_REGIONS"):
        cloud.quota(metric, 100)


@pytest.mark.parametrize("bucket", ["gs://other-bucket", "gs://my-bucket/team"])
def test_a_clean_up_leaves_the_gangs_of_another_bucket_or_prefix_alone(cloud, make, code, bucket):
    cloud.add_bucket("other-bucket", location="us-central1")
    Steps(make()).submit(spec(code), job_id="alice-1")
    cloud.clock.advance(120)
    bob = Trainer(make(bucket=bucket))
    assert bob.orphans() == bob.clean_up() == ()
    assert len(vms(cloud)) == 4


def test_a_vm_whose_bucket_is_gone_is_an_orphan(cloud, make, code):
    ref = Steps(make()).submit(spec(code, num_nodes=1), job_id="bert-1")
    remove_bucket(cloud, make()._access)
    with pytest.raises(JobLostError, match="clean_up"):
        attach(ref.uri, backend=make()).cancel()
    machine = cloud.compute.find_vm("bert-1-0-0").resource["machineType"].rpartition("/")[2]
    (gone,) = Trainer(make()).clean_up()
    assert (gone.name, gone.price) == ("bert-1-0-0", catalog.price(machine, "us-central1"))
    cloud.clock.advance(300)
    assert vms(cloud) == []


def test_one_that_cannot_be_judged_hides_none_that_can(cloud, make, code, caplog):
    backend = make()
    for name in ("bert-1", "bert-2"):
        Steps(backend).submit(spec(code, num_nodes=1), job_id=name)
    board = backend.recorder().board
    board.write(attrs.evolve(board.read("bert-2"), over=CANCELLED))
    cloud.fail("storage.objects.get", faults.Refuse(error=ApiError(403, "no", reason="forbidden")))
    assert [one.job_id for one in make().orphans()] == ["bert-2"]
    assert "bert-1 could not be looked at" in caplog.text


@pytest.mark.parametrize("other", ["vertex", "a-cloud"])
def test_a_vm_of_a_job_that_has_gone_on_to_another_backend_is_an_orphan(cloud, make, code, other):
    backend = make()
    Steps(backend).submit(spec(code, num_nodes=1), job_id="bert-1")
    board = backend.recorder().board
    record = board.read("bert-1")
    way = attrs.evolve(record.latest.way, backend=other, place="us-central1")
    board.write(
        record.answered(MADE).asked(attrs.evolve(record.latest, way=way, nonce="0123456789ab", at=0.0))
    )
    assert [one.name for one in Trainer(make()).orphans()] == ["bert-1-0-0"]


@pytest.mark.parametrize(
    ("answer", "over", "has_vms", "left"),
    [
        ("", "", True, 0),
        ("no-room", "", True, 0),
        (MADE, "", True, 1),
        ("", "", False, 0),
        (MADE, CANCELLED, False, 1),
        (MADE, WITHDRAWN, False, 0),
    ],
)
def test_what_vms_wrote_goes_with_them_but_for_an_attempt_that_was_made(
    cloud, make, code, answer, over, has_vms, left
):
    backend = make()
    Steps(backend).submit(spec(code, num_nodes=2), job_id="bert-1")
    stored = Objects(backend._access, "my-bucket")
    stored.write("jobs/bert-1/attempt-0/lock", b"0", if_generation=None)
    if not has_vms:
        cloud.compute.vms.clear()
    record = backend.recorder().board.read("bert-1")
    asked = attrs.evolve(record, over=over, asks=(attrs.evolve(record.latest, answer=answer),))
    assert backend.recorder().clear(asked)
    assert vms(cloud) == []
    assert len(stored.list("jobs/bert-1/attempt-0/").whole("look at what is left")) == left


COMING = [
    (("RUNNING", "RUNNING"), 0, True),
    (("RUNNING", "PENDING"), 0, True),
    (("RUNNING", "STAGING"), 1, False),
    (("STAGING", "STAGING"), 1, False),
    (("STAGING", "STAGING"), 0, False),
    (("STOPPING", "STOPPING"), 2, True),
    (("STOPPING", "STOPPING"), 1, False),
    (("STOPPING", "STOPPING"), 0, False),
    (("RUNNING",), 2, True),
    (("RUNNING",), 1, False),
    (("RUNNING",), 0, False),
    ((), 2, True),
    ((), 1, False),
    ((), 0, False),
]
"""The VMs that are there, how many have written of themselves, the first of which took the lock; and whether
the gang is there: one that waited in vain for the other is a half of it."""


def test_a_gang_is_there_once_all_of_it_has_come_or_each_has_written_of_itself(cloud, make, code):
    backend = make()
    ref = Steps(backend).submit(spec(code, num_nodes=2), job_id="bert-1")
    stored, recorder = Objects(backend._access, "my-bucket"), backend.recorder()
    record, lock = recorder.board.read("bert-1"), "jobs/bert-1/attempt-0/lock"
    written = [lock, *(f"jobs/bert-1/attempt-0/status-{rank}.json" for rank in range(2))]
    for statuses, heard, is_there in COMING:
        while len(cloud.compute.vms) > len(statuses):
            cloud.compute.vms.popitem()
        for vm, status in zip(cloud.compute.vms.values(), statuses):
            vm.resource["status"] = status
        for number, name in enumerate(written):
            if number <= heard and heard:
                stored.write(name, b"0", if_generation=None)
            else:
                stored.remove(name)
        assert recorder.there(record) == (ref if is_there else None), (statuses, heard)


def remove_bucket(cloud, access):
    """What somebody does who tidies up a project by hand."""
    stored = Objects(access, "my-bucket")
    for one in stored.list("").whole("empty the bucket"):
        stored.remove(one.name)
    access.delete(f"{cloud.endpoints.storage}/storage/v1/b/my-bucket", action="delete the bucket")


@pytest.mark.parametrize("status", [403, 404, 418])
def test_an_operation_that_cannot_be_read_loses_no_gang(cloud, make, code, status):
    refusal = faults.Refuse(error=ApiError(status, "compute.zoneOperations.get"))
    cloud.fail("compute.zoneOperations.get", refusal, times=None)
    ref = Steps(make()).submit(spec(code), job_id="bert-1")
    assert len(vms(cloud)) == 4
    assert make().find() == (ref,)


@pytest.mark.parametrize("status", [400, 403, 503])
def test_a_refusal_after_a_lost_answer_says_nothing_of_the_first_try(cloud, make, code, status):
    """The first try was done, and is the job; what its repetition was told is not what became of it."""
    message = "ZONE_RESOURCE_POOL_EXHAUSTED" if status == 503 else "drawn"
    refusal = faults.Refuse(error=ApiError(status, message, reason=message))
    cloud.fail(BULK, "lost-after")
    cloud.clock.after(1e-6, lambda: cloud.fail(BULK, refusal))
    ref = Steps(make()).submit(spec(code), job_id="bert-1")
    cloud.clock.advance(60)
    assert len(vms(cloud)) == 4
    assert make().find() == (ref,)


@pytest.mark.parametrize("status", [403, 418])
def test_a_refusal_after_a_lost_answer_is_none_where_nobody_may_look(cloud, make, code, status):
    cloud.fail(BULK, "lost-after")
    for method in (BULK, "compute.instances.list", "compute.instances.get"):
        refusal = faults.Refuse(error=ApiError(status, method, reason="forbidden"))
        cloud.clock.after(
            1e-6, lambda method=method, refusal=refusal: cloud.fail(method, refusal, times=None)
        )
    with pytest.raises(TransientError):
        Steps(make()).submit(spec(code), job_id="bert-1")
    assert len(vms(cloud)) == 4
    assert [ref.name for ref in make().find()] == ["bert-1"]


def test_an_operation_that_cannot_be_read_and_no_room_leaves_nothing(cloud, make, code):
    cloud.stock("us-central1-a", "g2-standard-4", 3)
    cloud.compute.settings.rollback_s = 3600.0
    cloud.fail("compute.zoneOperations.get", faults.Refuse(error=ApiError(403, "no")), times=None)
    with pytest.raises(CapacityError):
        Steps(make()).submit(spec(code), job_id="bert-1")
    assert vms(cloud) == []


def test_an_operation_that_never_ends_is_left_for_the_names_of_its_vms(cloud, make, code):
    for_ever = faults.Reshape(change=lambda told: {**told, "status": "RUNNING", "error": None})
    cloud.fail("compute.zoneOperations.get", for_ever, times=None)
    begun = cloud.clock.now()
    Steps(make()).submit(spec(code), job_id="bert-1")
    assert len(vms(cloud)) == 4
    assert cloud.clock.now() - begun < 330


@pytest.mark.parametrize("lag_s", [30.0, 120.0])
def test_lists_that_come_late_leave_no_half_gang(cloud, make, code, lag_s):
    cloud.stock("us-central1-a", "g2-standard-4", 3)
    cloud.compute.settings.rollback_s = 3600.0
    cloud.compute.settings.list_lag_s = lag_s
    with pytest.raises(CapacityError):
        Steps(make()).submit(spec(code), job_id="bert-1")
    assert vms(cloud) == []


def test_a_half_gang_that_may_not_be_deleted_is_told_and_kept_on_record(cloud, make, code):
    cloud.stock("us-central1-a", "g2-standard-4", 3)
    cloud.compute.settings.rollback_s = 36_000.0
    cloud.fail("compute.instances.delete", faults.Refuse(error=ApiError(403, "no")), times=None)
    with pytest.raises(LeftBehindError, match="3 of 4 VMs of bert-1 in us-central1-a could not be deleted"):
        Steps(make()).submit(spec(code), job_id="bert-1")
    assert make().recorder().board.read("bert-1").is_open


def test_a_cancel_whose_deletes_fail_says_so_and_the_next_look_after_it_deletes(cloud, make, code):
    ref = Steps(make()).submit(spec(code), job_id="bert-1")
    cloud.clock.advance(120)
    fault = cloud.fail("compute.instances.delete", faults.server_error(503), times=None)
    with pytest.raises(TransientError, match="could not be deleted"):
        make().cancel(ref)
    fault.cancel()
    watcher = make()
    seen = watcher.observe(ref)
    assert seen.state is State.STOPPING
    watcher.tidy(ref, seen)
    cloud.clock.advance(120)
    assert make().observe(ref).state is State.CANCELLED
    assert vms(cloud) == []


def test_a_gang_on_its_way_out_whose_ranks_never_ran_is_not_running(cloud, make, code):
    ref = Steps(make()).submit(spec(code), job_id="bert-1")
    for vm in list(cloud.compute.vms.values()):
        lifecycle.delete(cloud.compute, vm, lambda: None, grace_s=90.0)
    assert {vm.status for vm in cloud.compute.vms.values()} == {"STOPPING"}
    assert make().observe(ref).state is State.PROVISIONING


@pytest.mark.parametrize("reason", ["retentionPolicyNotMet", "forbidden"])
def test_a_cancel_that_cannot_be_written_down_ends_the_vms_and_says_so(cloud, make, code, reason):
    ref = Steps(make()).submit(spec(code), job_id="bert-1")
    cloud.clock.advance(120)
    refusal = faults.Refuse(error=ApiError(403, "not this object", reason=reason))
    cloud.fail("storage.objects.insert", refusal, times=None)
    with pytest.raises(GputrainError, match="a watcher may start it again"):
        make().cancel(ref)
    cloud.clock.advance(120)
    assert vms(cloud) == []


def test_guests_are_told_of_a_cancel_whose_record_cannot_be_written(cloud, make, code):
    ref = Steps(make()).submit(spec(code), job_id="bert-1")
    cloud.clock.advance(120)
    backend = make()
    refusal = faults.Refuse(error=ApiError(403, "not this object", reason="retentionPolicyNotMet"))
    cloud.fail("storage.objects.insert", refusal)
    with pytest.raises(RequestError, match="a watcher may start it again"):
        backend.cancel(ref)
    assert Objects(backend._access, "my-bucket").read("jobs/bert-1/cancel") is not None


def test_a_cancel_that_may_not_delete_names_the_permission(cloud, make, code):
    ref = Steps(make()).submit(spec(code), job_id="bert-1")
    cloud.clock.advance(120)
    cloud.fail("compute.instances.delete", "C26", times=None)
    with pytest.raises(PermissionDeniedError):
        make().cancel(ref)


def test_a_name_in_somebody_elses_bucket_is_refused_and_nothing_is_done(cloud, make):
    cloud.add_project("attacker-project")
    cloud.add_bucket("attacker-bucket", location="us-central1", project="attacker-project")
    uri = "gputrain://compute/my-project/us-central1-a~attacker-bucket/evil-1"
    reach = {"endpoints": cloud.endpoints, "credentials": cloud.credentials}
    backend = ComputeEngine.for_ref(
        JobRef.parse(uri), sleep=cloud.clock.advance, now=cloud.clock.now, **reach
    )
    with pytest.raises(GputrainError, match="does not belong to project my-project"):
        attach(uri, backend=backend)
    assert writes(cloud) == []


def test_a_look_deletes_nothing_whatever_the_guests_say(cloud, make, code):
    ref = Steps(make()).submit(spec(code, num_nodes=1), job_id="bert-1")
    cloud.clock.advance(120)
    cloud.power_off("bert-1-0-0")
    cloud.clock.advance(60)
    before = len(writes(cloud))
    attach(ref.uri, backend=make()).refresh()
    Trainer(make()).jobs()
    assert len(writes(cloud)) == before


def test_what_may_not_be_removed_keeps_no_other_orphan(cloud, make, code):
    Steps(make()).submit(spec(code), job_id="bert-1")
    cloud.clock.advance(120)
    remove_bucket(cloud, make()._access)
    cloud.fail("compute.instances.delete", faults.Refuse(error=ApiError(403, "no")), times=1)
    with pytest.raises(PermissionDeniedError):
        make().clean_up()
    cloud.clock.advance(300)
    assert len(vms(cloud)) == 1


def test_a_vm_without_our_labels_is_never_deleted(cloud, make, code):
    ref = Steps(make()).submit(spec(code, num_nodes=1), job_id="bert-1")
    cloud.clock.advance(120)
    for vm in cloud.compute.vms.values():
        vm.resource["labels"] = {"team": "other"}
    make().cancel(ref)
    Trainer(make()).clean_up()
    cloud.clock.advance(120)
    assert vms(cloud) == ["bert-1-0-0"]


def test_one_bad_record_hides_no_other_job_and_stops_no_clean_up(cloud, make, code):
    Steps(make()).submit(spec(code, num_nodes=1), job_id="bert-1")
    Steps(make()).submit(spec(code, num_nodes=1), job_id="gpt-1")
    cloud.world.part(Storage).objects.delete("my-bucket", "records/gpt-1.json")
    rest = {"params": {"uploadType": "media", "name": "records/gpt-1.json"}, "data": json.dumps([1]).encode()}
    url = f"{cloud.endpoints.storage}/upload/storage/v1/b/my-bucket/o"
    make()._access.post(url, action="write what is no record", **rest)
    trainer = Trainer(make())
    assert [job.ref.name for job in trainer.jobs()] == ["bert-1"]
    trainer.supervise()
    assert [one.name for one in trainer.clean_up()] == ["gpt-1-0-0"]


def rewritten(backend, job_id, content):
    Objects(backend._access, "my-bucket").write(f"records/{job_id}.json", content, if_generation=None)


@pytest.fixture
def neighbours(cloud, make, code):
    """The name of a gang; beside it are another job's VM, and one of that very id in another home."""
    Steps(make(bucket="gs://my-bucket/team")).submit(spec(code, num_nodes=1), job_id="team-1")
    cloud.compute.find_vm("team-1-0-0").resource["labels"]["gputrain-job"] = "bert-1"
    Steps(make()).submit(spec(code, num_nodes=1), job_id="gpt-1")
    ref = Steps(make()).submit(spec(code, num_nodes=2), job_id="bert-1")
    cloud.clock.advance(120)
    return ref


BESIDE = ["gpt-1-0-0", "team-1-0-0"]


@pytest.mark.parametrize("content", [b"", b"[]", b"<html>", b'{"schema": 1}', b'{"job_id": "bert-1"}'])
def test_a_job_whose_record_is_damaged_is_cleaned_up_and_nothing_beside_it(cloud, make, neighbours, content):
    rewritten(make(), "bert-1", content)
    assert [one.job_id for one in Trainer(make()).clean_up()] == ["bert-1", "bert-1"]
    cloud.clock.advance(300)
    assert vms(cloud) == BESIDE


MADE_UP = {"x-goog-generation": "7", "Last-Modified": "Mon, 23 Nov 2026 12:00:00 GMT"}


@pytest.mark.parametrize(
    ("fault", "times"),
    [
        (faults.Refuse(error=ApiError(403, "no", reason="forbidden")), None),
        (faults.server_error(500), None),
        (faults.RawReply(status=200, body=b"<html>"), None),
        (faults.RawReply(status=200, body=b"[]", headers=MADE_UP), 1),
        (faults.Truncate(), None),
    ],
    ids=["forbidden", "down", "a page", "another object", "cut"],
)
def test_a_record_that_cannot_be_read_just_now_is_not_damaged(cloud, make, neighbours, fault, times):
    cloud.fail("storage.objects.get", fault, times=times)
    assert Trainer(make()).orphans() == ()


NOT_FOUND = faults.Refuse(error=ApiError(404, "No such object", reason="notFound"))
NO_BUCKETS = faults.RawReply(status=200, body=b"{}", content_type="application/json")


@pytest.mark.parametrize(
    "lies",
    [
        {"storage.objects.get": NOT_FOUND},
        {"storage.buckets.list": NO_BUCKETS, "storage.buckets.get": NOT_FOUND},
    ],
    ids=["a record", "the bucket"],
)
def test_one_answer_that_there_is_none_deletes_no_living_job(cloud, make, neighbours, lies):
    trainer = Trainer(make())
    for method, fault in lies.items():
        cloud.fail(method, fault)
    assert trainer.clean_up() == ()
    assert attach(neighbours.uri, backend=make()).state is State.PROVISIONING


@pytest.mark.parametrize("act", ["observe", "cancel"])
def test_one_answer_that_there_is_no_record_loses_no_job(cloud, make, neighbours, act):
    backend = make()
    cloud.fail("storage.objects.get", NOT_FOUND)
    getattr(backend, act)(neighbours)
    cloud.clock.advance(300)
    assert ("bert-1-0-0" in vms(cloud)) is (act == "observe")


def test_the_record_of_a_later_release_is_not_damaged(make, neighbours):
    rewritten(make(), "bert-1", b'{"schema": 2}')
    assert Trainer(make()).clean_up() == ()


def test_a_cancel_without_a_readable_record_ends_what_bears_its_home_and_says_so(cloud, make, neighbours):
    backend = make()
    job = attach(neighbours.uri, backend=backend)
    rewritten(backend, "bert-1", b"[]")
    with pytest.raises(ProviderError, match="asked to go") as caught:
        job.cancel()
    assert "trainer.clean_up()" in caught.value.fix
    cloud.clock.advance(300)
    assert vms(cloud) == BESIDE
    assert Objects(backend._access, "my-bucket").read("jobs/bert-1/cancel") is not None
