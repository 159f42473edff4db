"""What a refusal on the way of a gang comes to: nothing where nothing was made, and else all of it goes."""

import pytest

from gputrain.backends.compute.names import VmNames
from gputrain.errors import GputrainError, PermissionDeniedError, RequestError, TransientError
from gputrain.spec import TrainingSpec
from gputrain_emulator import faults
from gputrain_emulator.errors import ApiError

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
def test_what_a_lost_answer_made_goes_where_the_next_try_is_refused(cloud, road, spec, refusal):
    request = road.request(spec, "bert-1")
    lost = cloud.fail(BULK, faults.DropAfterCommit(), times=None)
    with pytest.raises(TransientError):
        road.create(request)
    assert len(cloud.compute.vms) == 2
    lost.cancel()
    cloud.fail(BULK, refusal)
    with pytest.raises((PermissionDeniedError, RequestError)):
        road.backend.create(road.backend.complete(request))
    assert asked(cloud, "compute.instances.delete")
    assert not cloud.compute.vms


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
        road.backend._gangs.end(gang)
    assert cloud.clock.now() - began < 5


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
