"""What a refusal on the way of a gang comes to: nothing where nothing was made, and else all of it goes."""

import json

import pytest

from gputrain.backends.compute.gang import COME_S, SETTLE_EVERY_S, SETTLE_S
from gputrain.backends.compute.left_behind import LeftBehindError
from gputrain.backends.compute.names import VmNames
from gputrain.errors import GputrainError, PermissionDeniedError, RequestError, TransientError
from gputrain.retry import WRITE
from gputrain.spec import TrainingSpec
from gputrain_emulator import faults
from gputrain_emulator.errors import ApiError

ZONES = [f"us-central1-{letter}" for letter in "abc"]
BULK = "compute.instances.bulkInsert"
TEMPLATE = "compute.instanceTemplates.insert"
GROUP = "compute.instanceGroupManagers.insert"
FORBIDDEN = faults.Refuse(error=ApiError(403, "Required 'x' permission for 'y'", reason="forbidden"))
INVALID = faults.Refuse(error=ApiError(400, "Invalid value for field 'x'", reason="invalid"))
AWAY = faults.Refuse(error=ApiError(503, "The service is away", reason="backendError"))


@pytest.fixture(autouse=True)
def room(cloud):
    for metric in ("NVIDIA_L4_GPUS", "PREEMPTIBLE_NVIDIA_L4_GPUS", "GPUS_ALL_REGIONS"):
        cloud.quota(metric, 100)


@pytest.fixture
def spec(code):
    return TrainingSpec(script=code, gpu="L4:1", num_nodes=2, max_run_duration="1h")


@pytest.fixture
def queued(code):
    fields = {"script": code, "gpu": "L4:1", "machine_type": "g2-standard-4", "num_nodes": 2}
    return TrainingSpec(**fields, provisioning_model="flex-start", max_run_duration="1h")


@pytest.fixture
def gang(road, spec):
    """Two VMs that run, and their names."""
    return VmNames.of(road.backend._recorder.known(road.submit(spec, job_id="bert-1")))


def asked(cloud, *methods):
    return [one.method for one in cloud.requests if one.method.startswith(methods)]


@pytest.mark.parametrize("refusal", [FORBIDDEN, INVALID], ids=["forbidden", "invalid"])
def test_nothing_is_looked_for_where_the_only_try_was_refused(cloud, road, spec, refusal):
    cloud.fail(BULK, refusal)
    with pytest.raises((PermissionDeniedError, RequestError)):
        road.create(road.request(spec, "bert-1"))
    assert asked(cloud, "compute.instances.") == [BULK]


@pytest.mark.parametrize("refusal", [FORBIDDEN, INVALID], ids=["forbidden", "invalid"])
@pytest.mark.parametrize("gone", [0, 1, 2])
def test_what_a_lost_answer_made_is_the_job_if_all_of_it_is_there(cloud, road, spec, refusal, gone):
    """What the next try is refused is no answer for it: others may have been told of the job."""
    request = road.request(spec, "bert-1")
    lost = cloud.fail(BULK, faults.DropAfterCommit(), times=None)
    with pytest.raises(TransientError):
        road.create(request)
    assert len(cloud.compute.vms) == 2
    for key in list(cloud.compute.vms)[:gone]:
        del cloud.compute.vms[key]
    lost.cancel()
    cloud.fail(BULK, refusal)
    if gone:
        with pytest.raises((PermissionDeniedError, RequestError)):
            road.backend.create(road.backend.complete(request))
        assert not cloud.compute.vms
    else:
        assert road.backend.create(road.backend.complete(request)) == request.ref
        assert len(cloud.compute.vms) == 2


def test_vms_of_this_ask_are_the_job_where_an_operation_finds_their_names_taken(cloud, road, spec):
    """Of two who ask again, once a failed try has left the name, one may be told so by its operation."""
    error = {"code": "RESOURCE_ALREADY_EXISTS", "message": "drawn"}
    ended = {"kind": "compute#operation", "name": "drawn", "status": "DONE", "error": {"errors": [error]}}
    cloud.fail("compute.zoneOperations.*", faults.RawReply(status=200, body=json.dumps(ended).encode()))
    request = road.request(spec, "bert-1")
    assert road.create(request) == request.ref
    assert len(cloud.compute.vms) == 2
    assert asked(cloud, "compute.instances.delete") == []


def test_nothing_is_looked_for_where_the_queue_refused_the_first_step(cloud, road, queued):
    cloud.fail(TEMPLATE, FORBIDDEN)
    with pytest.raises(PermissionDeniedError):
        road.create(road.request(queued, "bert-1"))
    assert asked(cloud, "compute.instances.", "compute.instanceGroupManagers.") == []
    assert asked(cloud, "compute.instanceTemplates.") == [TEMPLATE]


def test_what_the_queue_took_goes_where_its_next_step_is_refused(cloud, road, queued):
    cloud.fail(GROUP, FORBIDDEN)
    with pytest.raises(PermissionDeniedError):
        road.create(road.request(queued, "bert-1"))
    assert asked(cloud, "compute.instanceTemplates.delete")
    assert not cloud.compute.resources["instanceTemplates"]


def test_who_may_not_delete_is_told_at_once(cloud, road, gang):
    cloud.fail("compute.instances.delete", FORBIDDEN, times=None)
    began = cloud.clock.now()
    with pytest.raises(PermissionDeniedError):
        road.backend._gangs.end([gang])
    assert cloud.clock.now() - began < 5


def test_who_may_not_delete_one_vm_deletes_the_others_and_is_told(cloud, road, gang):
    cloud.fail("compute.instances.delete", FORBIDDEN)
    with pytest.raises(PermissionDeniedError):
        road.backend._gangs.end([gang])
    cloud.clock.advance(300)
    assert len(cloud.compute.vms) == 1


@pytest.mark.parametrize("refusal", [INVALID, AWAY], ids=["on its way out", "away"])
def test_a_delete_that_is_refused_for_now_is_asked_for_again(cloud, road, gang, refusal):
    cloud.fail("compute.instances.delete", refusal, times=3)
    road.backend._gangs.clear(gang, and_traces=False)
    assert not cloud.compute.vms


@pytest.mark.parametrize("refusal", [INVALID, AWAY], ids=["invalid", "away"])
def test_an_orphan_that_cannot_be_deleted_now_is_none_of_those_that_went(cloud, road, gang, refusal):
    refusing = cloud.fail("compute.instances.delete", refusal, times=None)
    assert not road.backend._gangs.delete(gang.zone, gang.names[0])
    refusing.cancel()
    assert road.backend._gangs.delete(gang.zone, gang.names[0])


def test_who_may_not_delete_an_orphan_is_told(cloud, road, gang):
    cloud.fail("compute.instances.delete", FORBIDDEN)
    with pytest.raises(PermissionDeniedError):
        road.backend._gangs.delete(gang.zone, gang.names[0])


@pytest.mark.parametrize("refusal", [FORBIDDEN, INVALID, AWAY], ids=["forbidden", "invalid", "away"])
def test_a_cancel_whose_word_to_the_guests_is_refused_ends_the_vms_and_says_so(cloud, road, gang, refusal):
    ref = road.backend._recorder.name_of(road.backend._recorder.board.read("bert-1"))
    assert len(cloud.compute.vms) == 2
    cloud.fail("storage.objects.insert", refusal, times=None)
    with pytest.raises(GputrainError):
        road.backend.cancel(ref)
    cloud.clock.advance(300)
    assert not cloud.compute.vms


def without_room(cloud):
    """Google has room for one of the two, and rolls back late."""
    for zone in ZONES:
        cloud.stock(zone, "g2-standard-4", 1)
    cloud.compute.settings.rollback_s = 3600.0


def never_seen_to_end(cloud):
    without_room(cloud)
    cloud.fail("compute.zoneOperations.get", FORBIDDEN, times=None)


@pytest.mark.parametrize("happens", [without_room, never_seen_to_end])
def test_what_the_vms_of_a_failed_try_wrote_goes_with_them(cloud, road, spec, happens):
    """What they said would be taken for the next gang's, and their lock keep that from training."""
    written, word = road.backend._stored, "jobs/bert-1/attempt-0/status-0.json"
    request = road.request(spec, "bert-1")
    written.write(word, b"{}", if_generation=None)
    happens(cloud)
    with pytest.raises(GputrainError):
        road.create(request)
    assert not cloud.compute.vms
    assert written.stat(word) is None


def test_what_the_vms_of_a_gang_wrote_stays_once_it_was_made(cloud, road, gang):
    road.backend._stored.write("jobs/bert-1/attempt-0/lock", b"0", if_generation=None)
    road.backend._gangs.end([gang])
    cloud.clock.advance(300)
    assert not cloud.compute.vms
    assert road.backend._stored.stat("jobs/bert-1/attempt-0/lock") is not None


def test_an_end_that_is_refused_for_a_while_comes_about(cloud, road, gang):
    refusing = cloud.fail("compute.instances.delete", INVALID, times=None)
    cloud.clock.after(COME_S / 2, refusing.cancel)
    road.backend._gangs.end([gang])
    cloud.clock.advance(300)
    assert not cloud.compute.vms


@pytest.mark.parametrize(
    ("fault", "patience_s", "why"),
    [(INVALID, 0.0, "the request is refused"), (AWAY, WRITE.budget_s, "no answer that says what was done")],
)
def test_an_end_that_is_refused_for_good_is_told_once_it_was_tried_for_a_minute(
    cloud, road, gang, fault, patience_s, why
):
    """One VM alone is tried with the patience for a service that is away; then all have their minute."""
    cloud.fail("compute.instances.delete", fault, times=None)
    began = cloud.clock.now()
    with pytest.raises(LeftBehindError, match="2 of 2 VMs of bert-1") as caught:
        road.backend._gangs.end([gang])
    took_s = cloud.clock.now() - began
    assert patience_s + COME_S < took_s < patience_s + COME_S + 3 * SETTLE_EVERY_S
    assert caught.value.why == f"could not delete bert-1-0-0: {why}"
    assert len(cloud.compute.vms) == 2


@pytest.mark.parametrize("away_s", [30.0, 170.0])
def test_one_vm_that_cannot_be_deleted_uses_up_the_patience_of_all_and_ends_none_of_their_rounds(
    cloud, road, gang, away_s
):
    """A service that is away for longer than a call is tried; then the others have their minute still."""
    refusing = cloud.fail("compute.instances.delete", AWAY, times=None)
    cloud.clock.after(away_s, refusing.cancel)
    road.backend._gangs.end([gang])
    cloud.clock.advance(300)
    assert not cloud.compute.vms


def test_what_is_on_its_way_out_is_waited_for_and_not_asked_again(cloud, road, gang):
    cloud.compute.settings.delete_s = 60.0
    road.backend._gangs.end([gang])
    assert len(asked(cloud, "compute.instances.delete")) == 2
    road.backend._gangs.clear(gang, and_traces=False)
    assert not cloud.compute.vms
    assert len(asked(cloud, "compute.instances.delete")) == 2


def test_vms_that_do_not_go_are_told_of_after_five_minutes(cloud, make, gang):
    cloud.compute.settings.delete_s = 36_000.0
    backend = make(sleep=cloud.clock.advance)
    began = cloud.clock.now()
    with pytest.raises(LeftBehindError) as caught:
        backend._gangs.clear(gang, and_traces=True)
    assert SETTLE_S < cloud.clock.now() - began < SETTLE_S + 3 * SETTLE_EVERY_S
    assert caught.value.why == "they are on their way out and do not go"
