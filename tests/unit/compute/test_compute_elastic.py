"""A job that may go on with fewer nodes does, where there is no room for all, and its bill says so."""

import pytest

from gputrain.lifecycle import State
from gputrain.trainer import Trainer

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


@pytest.mark.parametrize("fields", [{}, {"min_nodes": 2}])
def test_with_room_for_less_than_it_may_have_it_waits(interrupted, fields):
    jobs = interrupted(1, **fields)
    jobs.reconcile()
    assert jobs.vms() == []
    assert jobs.look().state is State.INTERRUPTED
