"""A job that is asked of another backend than before: whoever has an older name of it finds it there."""

import pytest

from gputrain import JobLostError, State, VertexAI, attach
from gputrain.backends.base import JobRef
from gputrain.records import WITHDRAWN
from gputrain_emulator import faults
from gputrain_emulator.errors import ApiError
from tests.unit.trainer.conftest import MACHINE, creates
from tests.unit.trainer.test_restart import L4, SPOT, late

CREATE = "aiplatform.customJobs.create"
FULL = faults.Refuse(error=ApiError(400, f'Machine type "{MACHINE}" is not supported.'))


def preempted(cloud, trainer, script):
    """A job of VMs that Google has taken, in a region that has no more of them."""
    job = trainer("compute", "vertex").submit(script, **SPOT, idempotency_key="k")
    assert job.ref.backend == "compute"
    cloud.clock.advance(120)
    for zone in "abcf":
        cloud.stock(f"us-central1-{zone}", MACHINE, 0)
    cloud.preempt(f"{job.ref.name}-0-0")
    cloud.clock.advance(400)
    assert job.refresh().state is State.INTERRUPTED
    return job


def test_whoever_watches_a_job_that_others_took_elsewhere_is_not_told_that_it_failed(cloud, trainer, script):
    job = late(cloud, trainer, script)
    other = trainer("vertex", "compute").attach(job.uri)
    assert job.supervise()
    other.refresh()
    assert (other.uri, other.state) == (job.uri, job.refresh().state)
    assert not other.state.is_terminal


def test_a_late_refusal_of_vms_is_not_told_of_a_job_that_has_gone_on_since(cloud, trainer, script):
    there = {"regions": ("us-central1", "us-east4")}

    def die(*_):
        raise SystemExit

    plan = trainer("compute", sleep=die, **there).plan(script, **L4, max_wait_duration="6h")
    cloud.quota("NVIDIA_L4_GPUS", 0, region="us-central1")
    with pytest.raises(SystemExit):
        plan.submit(idempotency_key="k")
    cloud.clock.advance(300)
    (told,) = trainer("compute", **there).jobs()
    job, other = (trainer("compute", **there).attach(told.uri) for _ in range(2))
    assert other.refresh().state is job.refresh().state is State.INTERRUPTED
    assert job.supervise()
    cloud.clock.advance(300)
    assert [vm.zone for vm in cloud.compute.vms.values()] == ["us-east4-a"]
    assert other.refresh().state is job.refresh().state is State.PROVISIONING


def test_whoever_lacks_the_backend_that_others_took_it_to_is_told_where_it_went(cloud, trainer, script):
    job = late(cloud, trainer, script)
    other = trainer("vertex").attach(job.uri)
    told = job.uri
    assert job.supervise()
    with pytest.raises(JobLostError, match="it went on to compute in us-central1-a"):
        other.refresh()
    bare = VertexAI.for_ref(JobRef.parse(told), endpoints=cloud.endpoints, credentials=cloud.credentials)
    with pytest.raises(JobLostError, match="it went on to compute in us-central1-a"):
        attach(told, backend=bare)


def test_a_name_that_was_told_first_leads_to_where_the_job_is(cloud, trainer, script):
    job = preempted(cloud, trainer, script)
    told = job.uri
    assert job.supervise()
    assert job.ref.backend == "vertex"
    found = trainer("compute", "vertex").attach(told)
    assert (found.uri, found.state) == (job.uri, job.refresh().state)
    assert [one.uri for one in trainer("compute", "vertex").jobs()] == [job.uri]


def test_a_job_that_the_last_backend_refused_waits_for_room_and_can_be_cancelled(cloud, trainer, script):
    job = preempted(cloud, trainer, script)
    cloud.fail(CREATE, FULL, times=None)
    assert not job.supervise()
    assert job.refresh().state is State.INTERRUPTED
    (listed,) = trainer("compute", "vertex").jobs()
    assert (listed.uri, listed.state) == (job.uri, State.INTERRUPTED)
    listed.cancel()
    assert job.refresh().state is State.CANCELLED
    cloud.clock.advance(3600)
    assert trainer("compute", "vertex").supervise() == []
    assert not [vm for vm in cloud.compute.vms.values() if vm.status == "RUNNING"]


def test_a_submit_of_the_key_first_ends_what_a_ctrl_c_was_taking_back(cloud, trainer, script):
    job = late(cloud, trainer, script)
    assert job.supervise()
    board = job._backend.recorder().board
    board.write(board.read(job.id).answered(WITHDRAWN))
    (left,) = cloud.compute.vms.values()
    trainer("vertex", "compute").submit(script, **L4, idempotency_key="k")
    (fresh,) = cloud.compute.vms.values()
    assert fresh is not left


def test_whoever_lacks_the_backend_that_was_asked_last_makes_no_second_gang(cloud, trainer, script):
    """A Ctrl-C was taking the ask back, and its machines are there still."""
    job = late(cloud, trainer, script)
    told = job.uri
    assert job.supervise()
    board = job._backend.recorder().board
    board.write(board.read(job.id).answered(WITHDRAWN))
    cloud.vertex.set_stock(MACHINE, 10, region="us-central1")
    cloud.clock.advance(3600)
    start, other = len(creates(cloud)), trainer("vertex").attach(told)
    assert not other.supervise()
    assert len(creates(cloud)) == start


def test_who_lacks_a_backend_that_has_refused_the_job_cancels_it_all_the_same(cloud, trainer, script):
    cloud.fail(CREATE, FULL, times=None)
    job = trainer("vertex", "compute").submit(script, **L4, idempotency_key="k")
    assert job.ref.backend == "compute"
    (told,) = trainer("compute").jobs()
    told.cancel()
    cloud.clock.advance(60)
    assert told.refresh().state is State.CANCELLED
    assert not cloud.compute.vms
