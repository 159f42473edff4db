"""Many jobs are looked at with few calls."""

import threading

import pytest

from gputrain.backends.vertex import backend
from gputrain.backends.vertex.watch import RegionWatch
from gputrain.lifecycle import State
from gputrain.trainer import Trainer
from gputrain_emulator.vertex.state import Vertex
from gputrain_emulator.vertex.states import Fate

READS = ("aiplatform.customJobs.get", "aiplatform.customJobs.list")


def reads(cloud, start):
    return sum(one.method in READS for one in cloud.requests[start:])


@pytest.fixture
def submit(make, cloud, vertex, code):
    """Submits so many jobs at once; quota and rates are no matter here."""
    cloud.rate_limit("aiplatform.job_writes", 10_000)
    cloud.rate_limit("aiplatform.requests", 100_000)
    vertex.set_limit("custom_model_training_nvidia_l4_gpus", 10_000, region="us-central1")

    def many(number):
        trainer = Trainer(make())
        return [trainer.submit("train.py", source_dir=code, gpu="L4:1") for _ in range(number)]

    return many


def test_one_job_is_looked_at_alone_and_its_end_is_seen_within_two_seconds(submit, cloud, vertex):
    vertex.set_fate(Fate(run_s=50.1))
    (job,) = submit(1)
    cloud.clock.advance(100)
    while not job.refresh().state.is_terminal:
        cloud.clock.advance(job._backend.poll_s)
    assert cloud.clock.now() - job.refresh().ended_at.timestamp() <= 2


def test_looks_within_a_second_share_a_call(submit, cloud):
    (job,) = submit(1)
    start = len(cloud.requests)
    for _ in range(50):
        job.refresh()
    assert reads(cloud, start) == 1


def test_many_jobs_share_lists(submit, cloud, vertex):
    vertex.set_fate(Fate(run_s=400))
    jobs = submit(40)
    cloud.clock.advance(200)
    start, began = len(cloud.requests), cloud.clock.now()
    for _ in range(8):
        for job in jobs:
            job.refresh()
        cloud.clock.advance(3)
    minutes = (cloud.clock.now() - began) / 60
    assert all(job.state is State.RUNNING for job in jobs)
    assert reads(cloud, start) / minutes <= 110
    cloud.clock.advance(400)
    for job in jobs:
        job.refresh()
    assert all(job.state is State.SUCCEEDED for job in jobs)


def test_the_end_of_one_of_many_is_seen_within_fifteen_seconds(submit, cloud, vertex):
    vertex.set_fate(Fate(run_s=float("inf")))
    jobs = submit(20)
    cloud.clock.advance(200)
    for job in jobs:
        job.refresh()
    theirs = cloud.world.part(Vertex)
    name = jobs[7].ref.name
    chosen = next(one for one in theirs.jobs.values() if one.document["displayName"] == name)
    theirs.replica_exited(chosen, "workerpool0-0", 0)
    for _ in range(10):
        cloud.clock.advance(1.5)
        for job in jobs:
            job.refresh()
        if jobs[7].state is State.SUCCEEDED:
            break
    assert jobs[7].state is State.SUCCEEDED
    assert sum(job.state is State.RUNNING for job in jobs) == 19


def test_threads_that_look_at_once_share_a_list(submit, cloud):
    jobs = submit(32)
    start = len(cloud.requests)
    threads = [threading.Thread(target=job.refresh) for job in jobs]
    for thread in threads:
        thread.start()
    for thread in threads:
        thread.join()
    assert reads(cloud, start) <= 5  # the first two looks are single ones, then one list serves all


def test_a_job_that_joins_many_costs_one_call(submit, cloud, vertex, code):
    vertex.set_fate(Fate(run_s=float("inf")))
    jobs = submit(8)
    for job in jobs:
        job.refresh()
    late = Trainer(jobs[0]._backend).submit("train.py", source_dir=code, gpu="L4:1")
    start = len(cloud.requests)
    late.refresh()
    assert reads(cloud, start) == 1


def test_what_never_changes_is_read_once_and_not_forgotten(submit, cloud, vertex):
    vertex.set_fate(Fate(run_s=float("inf")))
    jobs = submit(5)
    cloud.clock.advance(200)
    for _ in range(5):
        for job in jobs:
            job.refresh()
        cloud.clock.advance(30)
    cloud.clock.advance(24 * 3600)  # its timeout, which only the first look has read
    assert {job.refresh().state for job in jobs} == {State.EXPIRED}


def test_a_look_makes_no_watch_of_its_own(submit, monkeypatch):
    made = []
    jobs = submit(2)
    monkeypatch.setattr(backend, "RegionWatch", lambda *of: made.append(of) or RegionWatch(*of))
    for job in [*jobs, *jobs]:
        job.refresh()
    assert made == []
