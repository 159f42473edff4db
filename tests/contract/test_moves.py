"""A job that cannot stay where it is, or cannot begin there, runs elsewhere; it is the same job."""

import pytest

from gputrain import Local, State, Trainer

RESUMES = """
import os, pathlib, signal, sys, time
saved = pathlib.Path(os.environ["GPUTRAIN_CHECKPOINT_DIR"], "step")
print("begins at step", saved.read_text() if saved.exists() else "0", flush=True)
if saved.exists():
    sys.exit()
saved.parent.mkdir(parents=True, exist_ok=True)
def save(*_):
    saved.write_text("7")
    sys.exit(75)
signal.signal(signal.SIGTERM, save)
print("trains, pid", os.getpid(), flush=True)
while True:
    time.sleep(0.05)
"""
HELLO = "print('hello')"


def test_a_job_that_is_preempted_saves_and_resumes(road, script):
    job = road.submit(script(RESUMES), **road.preemptible())
    first = job.uri
    road.until_said(job, "trains")
    road.preempt(job)
    assert road.end(job) is State.SUCCEEDED, (job.to_dict(), road.text(job))
    assert (job.uri, job.attempt, job.result().attempt) == (first, 1, 1)
    said = [line.message for line in job.logs() if line.message.startswith("begins")]
    assert said == ["begins at step 0", "begins at step 7"]
    road.until_idle()


def test_a_job_without_restarts_that_is_preempted_is_over(road, script):
    job = road.submit(script(RESUMES), **{**road.preemptible(), "max_restarts": 0})
    road.until_said(job, "trains")
    road.preempt(job)
    assert road.end(job) is State.FAILED
    assert road.text(job).count("begins") == 1
    road.until_idle()


def test_a_place_without_machines_sends_a_job_to_the_next(road, script):
    plan = road.plan(script(HELLO), **road.movable())
    full = plan.best.place
    road.exhaust(full)
    job = plan.submit()
    first = job.uri
    assert road.end(job) is State.SUCCEEDED
    assert job.place not in (full, "")
    there = road.fresh().attach(first)
    assert (there.id, there.state) == (job.id, State.SUCCEEDED)
    assert [one.candidate.place for one in job.attempts.tries][:1] == [full]
    assert road.text(job).count("hello") == 1
    road.until_idle()


def test_a_backend_without_machines_sends_a_job_to_the_next(slurmlike_here, script, tmp_path):
    from tests.contract.partitions import SlurmRoad

    road = SlurmRoad(tmp_path / "cluster")
    plan = Trainer([road.backend(), Local(gpus=0, root=tmp_path / "jobs")]).plan(script(HELLO))
    for one in plan.candidates:
        if one.backend == "slurm":
            road.exhaust(one.place)
    job = plan.submit()
    assert road.end(job) is State.SUCCEEDED
    assert [job.attempts.tries[at].candidate.backend for at in (0, -1)] == ["slurm", "local"]
    assert (road.text(job), road.trainer.jobs()) == ("hello", [])


@pytest.mark.check
def test_a_cloud_service_without_machines_sends_a_job_to_the_next(script):
    from tests.contract.clouds import MACHINE, ComputeRoad, VertexRoad, live_cloud

    with live_cloud(allow_unconfined=True) as cloud:
        vms, jobs = ComputeRoad(cloud), VertexRoad(cloud)
        fields = {"gpu": "L4:1", "machine_type": MACHINE, "provisioning_model": "standard"}
        plan = Trainer([vms.backend(), jobs.backend()]).plan(script(HELLO), **fields)
        for one in plan.candidates:
            if one.backend == "compute":
                vms.exhaust(one.place)
        job = plan.submit()
        assert jobs.end(job) is State.SUCCEEDED
        assert [job.attempts.tries[at].candidate.backend for at in (0, -1)] == ["compute", "vertex"]
        assert jobs.text(job).count("hello") == 1
        jobs.until_idle()
