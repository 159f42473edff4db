"""Nodes of a flex-start job wait in Google's queue, and then train for real."""

import pytest

from gputrain import State
from tests.contract.clouds import MACHINE, ComputeRoad, live_cloud

ZONES = ("us-central1-a", "us-central1-b", "us-central1-c")
SAYS = """
import os, time
print("rank", os.environ["RANK"], "of", os.environ["WORLD_SIZE"], flush=True)
time.sleep(6)  # so the supervisors ask how the others are
"""


@pytest.fixture
def cloud():
    with live_cloud() as running:
        running.quota("PREEMPTIBLE_NVIDIA_L4_GPUS", 100)
        running.compute.settings.flex_poll_s = 2.0
        yield running


@pytest.fixture
def road(cloud):
    return ComputeRoad(cloud)


@pytest.fixture
def wait(road, script, room_for):
    """Submits a job of two nodes that waits, as there is room for one."""

    def submit():
        room_for(1)
        fields = {"machine_type": MACHINE, "num_nodes": 2, "provisioning_model": "flex-start"}
        job = road.submit(script(SAYS), max_run_duration="1h", **fields)
        road.until(job, lambda job: "does not have enough" in job.detail)
        assert job.state is State.QUEUED
        return job

    return submit


@pytest.fixture
def room_for(cloud):
    def set_stock(nodes):
        for zone in ZONES:
            cloud.stock(zone, MACHINE, nodes)

    return set_stock


@pytest.fixture
def trains(cloud, road):
    """It comes to a good end, and leaves nothing in the queue."""

    def check(job):
        assert road.end(job) is State.SUCCEEDED, job.to_dict()
        assert {"rank 0 of 2", "rank 1 of 2"} <= set(road.text(job).splitlines())
        road.trainer.clean_up()
        assert not cloud.compute.resources["instanceGroupManagers"]
        road.until_idle()

    return check


@pytest.mark.parametrize("has_false_starts", [False, True])
def test_all_nodes_meet_once_there_is_room_for_all(cloud, wait, room_for, trains, has_false_starts):
    cloud.compute.settings.flex_false_starts = has_false_starts
    job = wait()
    room_for(4)
    trains(job)


def test_a_job_that_is_cancelled_in_the_queue_leaves_it(cloud, road, wait, room_for):
    job = wait()
    job.cancel()
    assert road.end(job) is State.CANCELLED
    room_for(4)
    assert not cloud.compute.resources["instanceGroupManagers"]
    assert (road.living(), road.begun(), road.text(job)) == ([], 0, "")
