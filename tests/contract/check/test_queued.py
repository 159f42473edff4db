"""A gang waits in Google's flex-start queue, and then trains for real."""

import json

import pytest

from gputrain.backends.compute import ComputeEngine
from gputrain.gcp import Objects
from gputrain.keeper.status import PHASES, RUNNING, STARTING
from gputrain.lifecycle import State
from gputrain.spec import TrainingSpec
from gputrain_emulator import faults
from tests.contract.emulated_compute import ComputeRoad, live_cloud

MACHINE = "g2-standard-4"
ZONES = ("us-central1-a", "us-central1-b", "us-central1-c")
SAYS = """
import os, time
print("rank", os.environ["RANK"], "of", os.environ["WORLD_SIZE"], flush=True)
time.sleep(6)  # so the keepers ask how the others are
"""


@pytest.fixture
def cloud():
    with live_cloud() as running:
        running.quota("PREEMPTIBLE_NVIDIA_L4_GPUS", 100)
        running.compute.settings.flex_poll_s = 2.0
        yield running


@pytest.fixture
def road(cloud):
    reach = {"endpoints": cloud.endpoints, "credentials": cloud.credentials, "poll_s": 0.2}
    return ComputeRoad(ComputeEngine("my-project", regions=["us-central1"], bucket="gs://my-bucket", **reach))


@pytest.fixture
def wait(road, script, room_for):
    """Submits a gang of two that waits, as there is room for one."""

    def submit():
        room_for(1)
        fields = {"machine_type": MACHINE, "num_nodes": 2, "provisioning_model": "flex-start"}
        ref = road.submit(TrainingSpec(script=script(SAYS), max_run_duration="1h", **fields))
        waiting = road.until(ref, lambda seen: "does not have enough" in seen.detail)
        assert waiting.state is State.QUEUED
        return ref

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

    def check(ref):
        seen = road.until(ref, lambda seen: "is gone" in seen.detail or seen.state.is_terminal)
        assert seen.state is State.SUCCEEDED, seen
        assert {"rank 0 of 2", "rank 1 of 2"} <= set(road.text(ref).splitlines())
        road.supervise(ref)
        road.backend.clean_up()
        assert not cloud.compute.resources["instanceGroupManagers"]

    return check


@pytest.mark.parametrize("has_false_starts", [False, True])
def test_all_nodes_meet_once_there_is_room_for_all(cloud, wait, room_for, trains, has_false_starts):
    cloud.compute.settings.flex_false_starts = has_false_starts
    ref = wait()
    room_for(4)
    trains(ref)


@pytest.mark.parametrize(("phase", "filling_s"), [(STARTING, 5), (RUNNING, 0)])
def test_a_node_that_google_takes_back_ends_none_that_comes_after_it(
    cloud, road, wait, room_for, trains, phase, filling_s
):
    """Be it that its agent waits for the others by then, or that its folders are being filled."""
    cloud.compute.settings.flex_false_starts, cloud.compute.settings.flex_poll_s = True, 300.0
    slow = cloud.fail("storage.objects.list", faults.Delay(seconds=filling_s), times=None)
    ref, board = wait(), Objects(road.backend._access, "my-bucket")

    def has_come_so_far(_):
        word = board.read(f"jobs/{ref.name}/attempt-0/status-0.json")
        return word is not None and PHASES.index(json.loads(word.content)["phase"]) >= PHASES.index(phase)

    road.until(ref, has_come_so_far)
    slow.cancel()
    room_for(4)
    cloud.clock.advance(300.0)
    trains(ref)
