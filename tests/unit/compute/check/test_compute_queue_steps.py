"""Each step out of Google's queue by itself: what it asks for, how often, and what it says came of it."""

import attrs
import pytest

from gputrain.backends.compute.names import VmNames
from gputrain.backends.compute.queue import FADES_S, LOOK_EVERY_S
from gputrain.errors import PermissionDeniedError, QuotaExceededError
from gputrain.gcp import UndoneError
from gputrain.spec import TrainingSpec
from gputrain_emulator import faults
from gputrain_emulator.errors import ApiError

ZONES, MACHINE = [f"us-central1-{letter}" for letter in "abc"], "g2-standard-4"
TEMPLATE = "compute.instanceTemplates"
GROUP = "compute.instanceGroupManagers"
REQUEST = "compute.instanceGroupManagerResizeRequests"
REFUSED = faults.Refuse(error=ApiError(403, "Required 'x' permission for 'y'", reason="forbidden"))


@pytest.fixture
def spec(cloud, code):
    """Two VMs, for which there is no room."""
    for metric in ("PREEMPTIBLE_NVIDIA_L4_GPUS", "GPUS_ALL_REGIONS"):
        cloud.quota(metric, 100)
    stock(cloud, 0)
    fields = {"script": code, "gpu": "L4:1", "machine_type": MACHINE, "num_nodes": 2}
    return TrainingSpec(**fields, provisioning_model="flex-start", max_run_duration="1h")


@pytest.fixture
def ask(cloud, road, spec):
    """They wait in the queue; the names that they have."""
    ref = road.submit(spec, job_id="bert-1")
    cloud.clock.advance(60)
    return VmNames.of(road.backend._recorder.known(ref))


@pytest.fixture
def queue(road):
    return road.backend._queue


def stock(cloud, count):
    for zone in ZONES:
        cloud.stock(zone, MACHINE, count)


def asked(cloud, *methods):
    """How often each was asked for."""
    seen = [one.method for one in cloud.requests]
    return tuple(map(seen.count, methods))


def left(cloud):
    kinds = ("instanceTemplates", "instanceGroupManagers", "instanceGroupManagerResizeRequests")
    return [kind for kind in kinds if cloud.compute.resources[kind]]


def test_a_request_that_waits_waits_no_more(cloud, queue, ask):
    assert queue.cancel(ask.zone, ask.queue)
    cloud.clock.advance(10)
    assert queue.request(ask)["state"] == "CANCELLED"


def test_one_that_is_not_there_waits_no_more(cloud, queue, ask):
    assert queue.cancel(ask.zone, "bert-2-00000000cafe")
    assert queue.request(ask)["state"] == "ACCEPTED"


def test_one_that_was_served_can_only_be_removed(cloud, queue, ask):
    stock(cloud, 2)
    cloud.clock.advance(120)
    assert not queue.cancel(ask.zone, ask.queue)
    assert len(cloud.compute.vms) == 2


def test_who_may_not_cancel_is_told(cloud, queue, ask):
    cloud.fail(f"{REQUEST}.cancel", REFUSED)
    with pytest.raises(PermissionDeniedError):
        queue.cancel(ask.zone, ask.queue)


def test_what_takes_longer_to_go_than_is_waited_for_is_still_there(cloud, queue, ask):
    stock(cloud, 2)
    cloud.clock.advance(120)
    assert not queue.withdraw(ask.zone, ask.queue, within_s=1.5 * LOOK_EVERY_S)
    assert "instanceTemplates" in left(cloud)
    assert queue.withdraw(ask.zone, ask.queue, within_s=600)
    assert left(cloud) == []
    assert not cloud.compute.vms


def test_what_is_gone_is_looked_for_once_and_not_waited_for(cloud, queue, ask):
    assert queue.withdraw(ask.zone, ask.queue, within_s=600)
    before, began = asked(cloud, f"{GROUP}.get"), cloud.clock.now()
    assert queue.withdraw(ask.zone, ask.queue, within_s=600)
    assert asked(cloud, f"{GROUP}.get") == (before[0] + 1,)
    assert cloud.clock.now() - began < LOOK_EVERY_S


def test_what_was_swept_is_not_swept_again(cloud, queue, ask):
    queue.sweep(ask)
    assert left(cloud) == []
    before = len(cloud.requests)
    queue.sweep(ask)
    assert len(cloud.requests) == before


def test_what_could_not_be_swept_is_swept_the_next_time(cloud, queue, ask):
    cloud.fail(f"{GROUP}.delete", REFUSED)
    with pytest.raises(PermissionDeniedError):
        queue.sweep(ask)
    assert left(cloud) == ["instanceTemplates", "instanceGroupManagers", "instanceGroupManagerResizeRequests"]
    queue.sweep(ask)
    assert left(cloud) == []


def test_what_takes_long_to_go_is_swept_to_its_end_the_next_time(cloud, queue, ask):
    stock(cloud, 2)
    cloud.clock.advance(120)
    cloud.compute.settings.delete_s = 3 * FADES_S
    queue.sweep(ask)
    assert "instanceTemplates" in left(cloud)
    cloud.clock.advance(3 * FADES_S)
    queue.sweep(ask)
    assert left(cloud) == []


def test_without_its_template_nothing_is_left_and_nothing_is_removed(cloud, queue, ask):
    assert queue.withdraw(ask.zone, ask.queue, within_s=600)
    before = asked(cloud, f"{TEMPLATE}.delete", f"{GROUP}.delete", f"{REQUEST}.cancel")
    queue.sweep(ask)
    assert asked(cloud, f"{TEMPLATE}.delete", f"{GROUP}.delete", f"{REQUEST}.cancel") == before


def test_a_gang_that_is_made_at_once_has_nothing_to_sweep(cloud, queue, ask):
    before = len(cloud.requests)
    queue.sweep(attrs.evolve(ask, queue=""))
    assert len(cloud.requests) == before


@pytest.mark.parametrize("word", ["home", "job", "zone"])
def test_a_template_that_does_not_tell_all_is_nobodys(cloud, road, queue, ask, word):
    (template,) = cloud.compute.resources["instanceTemplates"].values()
    (found,) = queue.left(road.backend._settings.home_label)
    assert (found.name, found.job_id, found.zone) == (ask.queue, "bert-1", ask.zone)
    words = template["description"].split()
    template["description"] = " ".join(one for one in words if not one.startswith(f"{word}="))
    assert list(queue.left(road.backend._settings.home_label)) == []


def test_the_home_of_a_template_is_read_whole(cloud, road, queue, ask):
    home = road.backend._settings.home_label
    (template,) = cloud.compute.resources["instanceTemplates"].values()
    template["description"] = template["description"].replace(f"home={home}", f"home={home}x")
    assert list(queue.left(home)) == []


def ends_with(word):
    return faults.OperationFails(errors=[{"code": word, "message": "drawn"}])


@pytest.mark.parametrize("step", [GROUP, REQUEST])
@pytest.mark.parametrize(
    ("word", "kind"),
    [("QUOTA_EXCEEDED", QuotaExceededError), ("RESOURCE_OPERATION_RATE_EXCEEDED", UndoneError)],
)
def test_a_step_that_was_taken_and_failed_is_told_and_nothing_is_left(cloud, road, spec, step, word, kind):
    cloud.fail(f"{step}.insert", ends_with(word))
    with pytest.raises(kind):
        road.create(road.request(spec, "bert-1"))
    assert left(cloud) == []


def test_what_is_there_by_its_name_when_a_step_ends_is_of_this_very_ask(cloud, road, spec):
    cloud.fail(f"{REQUEST}.insert", ends_with("RESOURCE_ALREADY_EXISTS"))
    road.create(road.request(spec, "bert-1"))
    assert left(cloud)[:2] == ["instanceTemplates", "instanceGroupManagers"]


def delete_by_hand(road, ask):
    road.backend._access.delete(road.backend._queue._url(ask.zone, ask.queue), action="delete the group")


def test_whoever_deleted_the_group_is_named(cloud, road, queue, ask):
    assert queue.deleted_by(ask) == ""
    delete_by_hand(road, ask)
    cloud.clock.advance(30)
    assert queue.deleted_by(ask) == "owner@my-project.example.com"


def test_a_group_that_we_removed_was_deleted_by_nobody(cloud, queue, ask):
    assert queue.withdraw(ask.zone, ask.queue, within_s=600)
    assert queue.deleted_by(ask) == ""


def test_whoever_tried_to_delete_the_group_in_vain_deleted_nothing(cloud, road, queue, ask):
    delete_by_hand(road, ask)
    cloud.clock.advance(30)
    error = {"errors": [{"code": "RESOURCE_IN_USE_BY_ANOTHER_RESOURCE", "message": "drawn"}]}
    vain = faults.Reshape(
        change=lambda told: {**told, "items": [{**one, "error": error} for one in told["items"]]}
    )
    cloud.fail("compute.zoneOperations.list", vain)
    assert queue.deleted_by(ask) == ""
