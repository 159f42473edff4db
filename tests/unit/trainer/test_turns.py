"""Several processes with one key and several backends: one of them places the job, the others find it."""

import threading
import time

import pytest

import gputrain_emulator
from gputrain import ComputeEngine, Trainer, TrainingSpec, VertexAI
from gputrain.gcp import Access
from gputrain.spec.entry import make_job_id
from gputrain.staging.bucket import Bucket
from gputrain.staging.turns import TURN_S, Turns
from tests.unit.trainer.conftest import L4, VERTEX_L4, creates


@pytest.fixture
def turns(cloud):
    access = Access(
        project="my-project", credentials=cloud.credentials, endpoints=cloud.endpoints,
        now=cloud.clock.now, sleep=cloud.clock.advance,
    )  # fmt: skip
    return Turns(access=access, bucket=Bucket.parse("gs://my-bucket"))


@pytest.fixture
def job_id(script):
    return make_job_id(TrainingSpec(script=script), "k")


def test_a_turn_is_one_owners_until_it_ends_or_lapses(cloud, turns):
    assert turns.take("j", "one")
    assert turns.take("j", "one")
    assert not turns.take("j", "two")
    turns.end("j", "two")
    assert not turns.take("j", "two")
    turns.end("j", "one")
    assert turns.take("j", "two")
    cloud.clock.advance(TURN_S)
    assert turns.take("j", "one")


def test_who_comes_while_another_is_at_it_waits_and_finds_the_job(cloud, trainer, turns, script, job_id):
    turns.take(job_id, "other")
    made = []

    def sleep(seconds):
        if not made:
            made.append(trainer("compute").submit(script, **L4, idempotency_key="k"))
            turns.end(job_id, "other")
        cloud.clock.advance(seconds)

    job = trainer(sleep=sleep).submit(script, **L4, idempotency_key="k")
    assert job.uri == made[0].uri
    assert not cloud.vertex.jobs


def test_a_turn_whose_owner_died_lapses(cloud, trainer, turns, script, job_id):
    turns.take(job_id, "dead")
    begun = cloud.clock.now()
    job = trainer().submit(script, **L4, idempotency_key="k")
    assert job.ref.backend == "vertex"
    assert TURN_S <= cloud.clock.now() - begun < TURN_S + 60
    assert turns.take(job_id, "next")


def test_a_turn_that_lapses_in_a_create_that_nobody_else_used_changes_nothing(
    cloud, trainer, turns, script, job_id
):
    stolen = []

    def sleep(seconds):
        if creates(cloud) and not stolen:
            cloud.clock.advance(TURN_S)
            stolen.append(turns.take(job_id, "other"))
        cloud.clock.advance(seconds)

    job = trainer("compute", "vertex", sleep=sleep).submit(script, **L4, idempotency_key="k")
    assert stolen == [True]
    assert job.ref.backend == "compute"
    assert len(creates(cloud)) == 1


def test_of_two_jobs_that_a_lapsed_turn_let_be_the_late_one_goes(cloud, trainer, turns, script, job_id):
    others = []

    def sleep(seconds):
        if creates(cloud) and not others:
            cloud.clock.advance(TURN_S)
            turns.take(job_id, "other")
            others.append(trainer("vertex").submit(script, **L4, idempotency_key="k"))
            turns.end(job_id, "other")
        cloud.clock.advance(seconds)

    job = trainer("compute", "vertex", sleep=sleep).submit(script, **L4, idempotency_key="k")
    assert job.uri == others[0].uri
    cloud.clock.advance(60)
    assert not cloud.compute.vms
    assert len(cloud.vertex.jobs) == 1


def test_threads_that_submit_under_one_key_make_one_job_whatever_the_quotas_do(script):
    with gputrain_emulator.start(wall_clock=True) as cloud:
        cloud.add_bucket("my-bucket", location="us-central1")
        times = cloud.compute.settings
        times.provision_s = times.staging_s = times.rollback_s = times.delete_s = 0.05
        reach = {"bucket": "gs://my-bucket", "regions": ["us-central1"], "project": "my-project",
                 "endpoints": cloud.endpoints, "credentials": cloud.credentials}  # fmt: skip
        uris = []

        def submit():
            backends = [VertexAI(**reach), ComputeEngine(**reach)]
            trainer = Trainer(backends, sleep=lambda seconds: time.sleep(min(seconds, 0.1)))
            uris.append(trainer.submit(script, **L4, idempotency_key="k").uri)

        cloud.quota(VERTEX_L4, 0)
        threads = [threading.Thread(target=submit) for _ in range(3)]
        for thread in threads:
            thread.start()
        cloud.quota(VERTEX_L4, 64)  # some have read that there is none, some that there is
        for thread in threads:
            thread.join()
        assert len(uris) == 3
        assert len(set(uris)) == 1
        assert len(cloud.compute.vms) + len(cloud.vertex.jobs) == 1
