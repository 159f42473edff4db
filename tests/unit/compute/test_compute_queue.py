"""Attempts in Google's flex-start queue: served, given up, waited for too long, cancelled, removed."""

import pytest

from gputrain.errors import PermissionDeniedError
from gputrain.lifecycle import State
from gputrain_emulator import faults
from gputrain_emulator.errors import ApiError
from tests.unit.compute.test_compute_causes import result

MACHINE = "g2-standard-4"
KINDS = ("instanceTemplates", "instanceGroupManagers", "instanceGroupManagerResizeRequests")
FLEX = {"provisioning_model": "flex-start"}


def room(cloud, count):
    for zone in "abcf":
        cloud.stock(f"us-central1-{zone}", MACHINE, count)


def test_a_gang_waits_whole_and_then_runs_under_its_names(cloud, jobs):
    room(cloud, 1)
    attempt = jobs.submit(**FLEX).record.attempt
    cloud.clock.advance(120)
    found = jobs.reconcile()
    assert (found.state, found.status.is_whole, jobs.vms()) == (State.QUEUED, True, [])
    assert found.status.detail.startswith("2 g2-standard-4 wait in Google's queue, all or none, and cost")
    assert cloud.cost_usd == 0
    room(cloud, 2)
    cloud.clock.advance(120)
    assert jobs.vms() == list(attempt.names)
    jobs.run()
    assert jobs.reconcile().state is State.RUNNING
    for rank in range(2):
        jobs.say(rank, "ended", exit_code=0, result=result("done", 0, node_rank=rank))
    assert jobs.reconcile().state is State.SUCCEEDED
    assert jobs.left() == []
    assert jobs.record().used_s < 200  # what it waited was free


@pytest.mark.parametrize("kind", KINDS)
def test_a_refusal_leaves_nothing(kind, cloud, jobs):
    refusal = faults.Refuse(error=ApiError(403, "Required 'x' permission for 'y'", reason="forbidden"))
    cloud.fail(f"compute.{kind}.insert", refusal, times=None)
    stopped = jobs.submit(**FLEX)
    assert isinstance(stopped.failover.attempts[-1].error, PermissionDeniedError)
    cloud.clock.advance(60)
    assert jobs.left() == []


def test_a_wait_that_was_too_long_ends_the_job(cloud, jobs):
    room(cloud, 0)
    jobs.submit(**FLEX, max_wait_duration="30m")
    jobs.pass_by(1700, every_s=100)
    assert jobs.look().state is State.QUEUED
    jobs.pass_by(200, every_s=100)
    assert jobs.record().result == "wait_limit"
    assert jobs.look().state is State.EXPIRED
    assert jobs.left() == []


def test_a_request_that_google_gives_up_is_moved_elsewhere(cloud, jobs):
    room(cloud, 0)
    record = jobs.submit(**FLEX).record
    cloud.clock.advance(60)
    (request,) = cloud.compute.resources[KINDS[2]].values()
    request["state"] = "FAILED"
    error = {"code": "ZONE_RESOURCE_POOL_EXHAUSTED", "message": "The zone has not enough resources."}
    request["status"] = {"error": {"errors": [error]}}
    found = jobs.reconcile()
    history = found.stored.record.history
    assert history[0].outcome == "stockout_region"
    assert found.stored.record.attempt.id != record.attempt.id
    assert f"bert-{record.attempt.id}" not in jobs.left()


@pytest.mark.parametrize("comes", [False, True])
def test_one_vm_waits_by_itself(comes, cloud, jobs):
    room(cloud, 0)
    attempt = jobs.submit(**FLEX, num_nodes=1, max_wait_duration="1h").record.attempt
    cloud.clock.advance(60)
    assert jobs.reconcile().state is State.QUEUED
    assert jobs.vms() == list(attempt.names)
    if comes:
        room(cloud, 1)
        cloud.clock.advance(120)
        jobs.run()
        assert jobs.reconcile().state is State.RUNNING
    else:
        jobs.pass_by(3900, every_s=100)
        assert jobs.record().result == "wait_limit"
        assert jobs.left() == []


def test_a_cancel_leaves_a_queue_that_has_made_only_some_vms(cloud, jobs):
    """They wait for the others, and the queue would make them anew each time they leave."""
    cloud.compute.settings.flex_false_starts, cloud.compute.settings.flex_poll_s = True, 120
    room(cloud, 1)
    jobs.submit(**FLEX)
    cloud.clock.advance(60)
    assert [vm.status for vm in cloud.compute.vms.values()] == ["RUNNING"]
    jobs.say(0, "running")
    jobs.cancel()
    cloud.clock.advance(120)
    assert jobs.vms() == []
    assert not cloud.compute.resources["instanceGroupManagers"]
