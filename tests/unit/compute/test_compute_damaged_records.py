"""A job whose record nobody can read is ended all the same, and its ranks may save before its VMs go."""

import pytest

from gputrain.backends.compute.cleanup import HEARD_S, SENT_S, UNREAD_EVERY_S
from gputrain.records import DamagedRecordError
from gputrain.spec import TrainingSpec

GRACE_S = 25.0
"""What ranks have to save, unless the spec says otherwise, which nobody can read."""


@pytest.fixture
def ref(cloud, road, code):
    """Two VMs that run, by a record that is damaged."""
    cloud.quota("NVIDIA_L4_GPUS", 100)
    cloud.quota("GPUS_ALL_REGIONS", 100)
    found = road.submit(
        TrainingSpec(script=code, gpu="L4:1", num_nodes=2, max_run_duration="1h"), job_id="bert-1"
    )
    cloud.clock.advance(120)
    road.backend._stored.write("records/bert-1.json", b"[]", if_generation=None)
    return found


def end(cloud, road, ref):
    """How long its cancel took."""
    began = cloud.clock.now()
    with pytest.raises(DamagedRecordError, match="was asked to go"):
        road.backend.cancel(ref)
    return cloud.clock.now() - began


def test_guests_that_say_nothing_have_as_long_as_they_may_take(cloud, road, ref):
    took_s = end(cloud, road, ref)
    most_s = HEARD_S + GRACE_S + SENT_S
    assert most_s <= took_s < most_s + 2 * UNREAD_EVERY_S
    cloud.clock.advance(300)
    assert not cloud.compute.vms


@pytest.mark.parametrize("ends", ["power_off", "host_error"])
def test_guests_that_have_ended_are_not_waited_for(cloud, road, ref, ends):
    for name in ("bert-1-0-0", "bert-1-0-1"):
        getattr(cloud, ends)(name)
    cloud.clock.advance(180)
    assert end(cloud, road, ref) < UNREAD_EVERY_S
    cloud.clock.advance(300)
    assert not cloud.compute.vms


def test_the_last_of_the_guests_to_end_is_waited_for_and_no_longer(cloud, road, ref):
    cloud.host_error("bert-1-0-0")
    cloud.clock.after(20.0, lambda: cloud.host_error("bert-1-0-1"))
    assert 20.0 <= end(cloud, road, ref) < 20.0 + 2 * UNREAD_EVERY_S


def test_vms_that_are_gone_are_not_waited_for(cloud, road, ref):
    for name in ("bert-1-0-0", "bert-1-0-1"):
        road.backend._gangs.delete("us-central1-a", name)
    cloud.clock.advance(300)
    assert end(cloud, road, ref) < UNREAD_EVERY_S
