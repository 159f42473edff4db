"""What a cancel of a job that is over writes down: nothing, unless its key would have it made anew."""

import attrs
import pytest

from gputrain.lifecycle import State
from gputrain.records import CANCELLED, WITHDRAWN
from gputrain.spec import TrainingSpec
from gputrain.trainer import Trainer

LOCK = "jobs/bert-1/attempt-0/lock"
"""The first VM of an attempt that boots writes it: the attempt has begun."""


@pytest.fixture
def ref(cloud, road, code):
    """A job whose only VM its host has lost."""
    cloud.quota("NVIDIA_L4_GPUS", 8)
    found = road.submit(TrainingSpec(script=code, gpu="L4:1", max_run_duration="1h"), job_id="bert-1")
    cloud.host_error("bert-1-0-0")
    cloud.clock.advance(180)
    return found


@pytest.mark.parametrize(
    ("has_begun", "over", "then"),
    [(True, "", ""), (False, "", CANCELLED), (True, WITHDRAWN, CANCELLED), (False, WITHDRAWN, CANCELLED)],
)
def test_the_end_of_an_attempt_that_began_stays_as_it_is(cloud, road, make, ref, has_begun, over, then):
    board = road.backend.recorder().board
    board.write(attrs.evolve(board.read("bert-1"), over=over))
    if has_begun:
        road.backend._stored.write(LOCK, b"0", if_generation=None)
    make().cancel(ref)
    assert board.read("bert-1").over == then


def test_what_waited_too_long_is_asked_for_no_more_once_it_was_cancelled(cloud, make, code):
    """What the cancel left in the bucket would keep each gang of its key from training."""
    for zone in "abc":
        cloud.stock(f"us-central1-{zone}", "g2-standard-4", 0)
    cloud.quota("NVIDIA_L4_GPUS", 8)
    order = {"script": code, "gpu": "L4:1", "machine_type": "g2-standard-4", "num_nodes": 2}
    wait = {"provisioning_model": "flex-start", "max_run_duration": "1h", "max_wait_duration": "10m"}
    trainer = Trainer(make())
    job = trainer.submit(**order, **wait, idempotency_key="bert")
    cloud.clock.advance(900)
    job.refresh()
    job.supervise()
    assert job.refresh().state is State.EXPIRED
    job.cancel()
    again = trainer.submit(**order, **wait, idempotency_key="bert")
    assert (again.id, again.refresh().state) == (job.id, State.CANCELLED)
    assert not cloud.compute.queued


def test_a_job_that_has_ended_is_told_the_same_after_a_cancel(road, make, ref):
    road.backend._stored.write(LOCK, b"0", if_generation=None)
    before = make().observe(ref)
    make().cancel(ref)
    after = make().observe(ref)
    assert (after.state, after.failure) == (before.state, before.failure)
    assert before.failure.kind == "host_error"
