"""A job whose record nobody can read is ended all the same, and its ranks may save before its VMs go."""

import json

import pytest

from gputrain import catalog
from gputrain.backends.compute.cleanup import HEARD_S, SENT_S, UNREAD_EVERY_S
from gputrain.lifecycle import State
from gputrain.records import CANCELLED, DamagedRecordError
from gputrain.spec import TrainingSpec
from gputrain.trainer import Trainer

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


SCRIPT = {"script": "train.py", "gpu": "L4:1"}
NO_SPECS = [{}, {**SCRIPT, "of_tomorrow": 1}, {**SCRIPT, "env": [[1]]}, {**SCRIPT, "max_run_duration": {}}]


def respecced(backend, job_id, spec):
    """Have its record tell of another spec, or of none."""
    name = f"records/{job_id}.json"
    found = json.loads(backend._stored.read(name).content)
    told = {"backend": "compute", "place": "us-central1-a"}
    document = json.dumps({**found, "spec": spec}).encode()
    backend._stored.write(name, document, if_generation=None, metadata=told)


@pytest.fixture
def reclaimed(cloud, road, code):
    """A job that would start again, and its VM, which has only halted."""
    spec = TrainingSpec(script=code, gpu="L4:1", provisioning_model="spot", max_restarts=2)
    ref = road.submit(spec, job_id="bert-1")
    cloud.clock.advance(120)
    cloud.host_error("bert-1-0-0")
    cloud.clock.advance(250)
    assert road.backend.observe(ref).state is State.INTERRUPTED
    return ref


@pytest.mark.parametrize("spec", NO_SPECS)
def test_a_job_whose_spec_cannot_be_read_is_shown_and_not_started_again(cloud, make, reclaimed, spec, caplog):
    respecced(make(), "bert-1", spec)
    trainer = Trainer(make())
    (job,) = trainer.jobs()
    trainer.supervise()
    assert job.state is State.FAILED
    assert "cannot be read, so nobody starts it again from here" in job.detail
    assert (job.spec, len(cloud.compute.vms)) == (None, 1)


@pytest.mark.parametrize("spec", NO_SPECS)
@pytest.mark.parametrize("act", ["cancel", "clean_up"])
def test_what_has_halted_of_a_job_whose_spec_cannot_be_read_is_removed(cloud, make, reclaimed, spec, act):
    backend = make()
    respecced(backend, "bert-1", spec)
    if act == "cancel":
        backend.cancel(reclaimed)
        assert backend.recorder().board.read("bert-1").over == CANCELLED  # another release may read it
    else:
        assert [one.name for one in Trainer(backend).clean_up()] == ["bert-1-0-0"]
    cloud.clock.advance(120)
    assert not cloud.compute.vms


@pytest.mark.parametrize("spec", NO_SPECS)
def test_a_job_that_waits_for_room_is_started_by_no_spec_that_cannot_be_read(cloud, make, reclaimed, spec):
    machines = [one.machine_type for one in catalog.shapes("L4", 1)]
    full = [(f"us-central1-{zone}", machine) for zone in "abcf" for machine in machines]
    for one in full:
        cloud.stock(*one, 0)
    trainer = Trainer(make())
    job = trainer.attach(reclaimed.uri)
    job.supervise()
    for one in full:
        cloud.stock(*one, None)
    respecced(make(), "bert-1", spec)
    for _ in range(2):
        cloud.clock.advance(3600)
        assert not job.supervise()
    assert "cannot be read, so nobody starts it again from here" in trainer.attach(reclaimed.uri).detail
    job.cancel()
    assert (job.refresh().state, cloud.compute.vms) == (State.CANCELLED, {})


GRACES = [[[1]], "x", None, 1, {"GPUTRAIN_GRACE": [1]}, {"GPUTRAIN_GRACE": "nan"}, {"GPUTRAIN_GRACE": "1e9"}]


@pytest.mark.parametrize("env", [*GRACES, {"GPUTRAIN_GRACE": 10**400}, {"GPUTRAIN_GRACE": "-inf"}])
def test_ranks_whose_time_to_save_cannot_be_read_have_the_usual_one_and_go(cloud, road, code, env):
    spec = TrainingSpec(script=code, gpu="L4:1", max_run_duration="2h")
    ref = road.submit(spec, job_id="bert-1")
    cloud.clock.advance(120)
    respecced(road.backend, "bert-1", {**SCRIPT, "env": env})
    told = {"schema": 2, "phase": "running", "running_at": "2026-11-23T12:00:00.000Z"}
    told["vm_id"] = cloud.compute.find_vm("bert-1-0-0").resource["id"]
    status = "jobs/bert-1/attempt-0/status-0.json"
    road.backend._stored.write(status, json.dumps(told).encode(), if_generation=None)
    began = cloud.clock.now()
    road.backend.cancel(ref)
    assert HEARD_S + GRACE_S + SENT_S <= cloud.clock.now() - began < HEARD_S + GRACE_S + SENT_S + 10
    cloud.clock.advance(300)
    assert not cloud.compute.vms
