"""A gang waits in Google's flex-start queue, and then trains for real."""

import pytest

from gputrain.backends.compute import ComputeEngine
from gputrain.lifecycle import State
from gputrain.spec import TrainingSpec
from tests.contract.emulated_compute import ComputeRoad, live_cloud

MACHINE = "g2-standard-4"
ZONES = ("us-central1-a", "us-central1-b", "us-central1-c")
SAYS = "import os\nprint('rank', os.environ['RANK'], 'of', os.environ['WORLD_SIZE'], flush=True)\n"


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


@pytest.mark.parametrize("has_false_starts", [False, True])
def test_all_nodes_meet_once_there_is_room_for_all(cloud, road, script, has_false_starts):
    cloud.compute.settings.flex_false_starts = has_false_starts
    for zone in ZONES:
        cloud.stock(zone, MACHINE, 1)
    fields = {"machine_type": MACHINE, "num_nodes": 2, "provisioning_model": "flex-start"}
    ref = road.submit(TrainingSpec(script=script(SAYS), max_run_duration="1h", **fields))
    waiting = road.until(ref, lambda seen: "does not have enough" in seen.detail)
    assert waiting.state is State.QUEUED
    for zone in ZONES:
        cloud.stock(zone, MACHINE, 4)
    assert road.end(ref).state is State.SUCCEEDED
    assert {"rank 0 of 2", "rank 1 of 2"} <= set(road.text(ref).splitlines())
    road.supervise(ref)
    road.backend.clean_up()
    assert not cloud.compute.resources["instanceGroupManagers"]
