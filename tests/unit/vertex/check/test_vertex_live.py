"""Real ranks behind the real wire: a Spot job that is taken back, and secrets."""

import hashlib

import pytest

from gputrain import JobFailedError, State
from gputrain.google.storage import BucketPrefix, upload
from gputrain_emulator.iam import Accounts
from tests.contract.clouds import VertexRoad, live_cloud
from tests.support.clouds import client

WAIT_FOR_GO = """
import os, signal, sys, time, urllib.error, urllib.request
signal.signal(signal.SIGTERM, lambda *_: (print("saved", flush=True), sys.exit(75)))
print("rank", os.environ["RANK"], "of", os.environ["WORLD_SIZE"], flush=True)
while True:
    try:
        urllib.request.urlopen(os.environ["STORAGE_EMULATOR_HOST"] + "/storage/v1/b/my-bucket/o/go").read()
        break
    except urllib.error.HTTPError:
        time.sleep(0.1)
print("done", flush=True)
"""
"""A script that ends once it may."""


@pytest.fixture
def road():
    with live_cloud(allow_unconfined=True) as cloud:
        yield VertexRoad(cloud)


def said(job, words):
    return [line for line in job.logs() if line.message.startswith(words)]


def test_a_spot_job_that_is_taken_back_runs_again_with_all_its_ranks(road, script):
    fields = {"num_nodes": 2, "nproc_per_node": 2, **road.preemptible(), "max_restarts": 2}
    job = road.submit(script(WAIT_FOR_GO), **fields)
    road.until(job, lambda job: job.state is State.RUNNING and len(said(job, "rank")) == 4)
    road.preempt(job)
    road.until(job, lambda job: job.state is State.INTERRUPTED)
    upload(client(road.cloud), BucketPrefix(name="my-bucket"), "go", b"go")
    assert road.end(job) is State.SUCCEEDED
    assert len(said(job, "rank")) == 8
    assert len(said(job, "done")) == 4
    assert job.attempt == job.result().attempt == 1
    assert road.fresh().attach(job.uri).result().attempt == 1, "its record tells another process"


HASH = """
import hashlib, os
print("hash", hashlib.sha256(os.environ["KEY"].encode()).hexdigest(), "KEY" in os.environ)
raise RuntimeError("it fails, so that all that is told of a failure is told")
"""


def test_a_secret_is_read_in_the_container_and_seen_nowhere_else(road, script):
    secret, cloud = "s3cret-of-the-project", road.cloud
    cloud.enable_api("secretmanager")
    cloud.world.part(Accounts).add_secret("wandb", secret.encode())
    reference = f"secret://projects/{cloud.project}/secrets/wandb/versions/latest"
    job = road.submit(script(HASH), secrets={"KEY": reference})
    with pytest.raises(JobFailedError) as failed:
        job.result()
    (line,) = said(job, "hash")
    assert hashlib.sha256(secret.encode()).hexdigest() in line.message
    (theirs,) = cloud.vertex.jobs.values()
    shown = [job, job.table, failed.value, vars(failed.value), theirs.document, cloud.ledger, road.text(job)]
    shown.append(cloud.requests)
    assert not [one for one in shown if secret in repr(one) or secret in str(one)]


def test_a_secret_that_is_not_there_is_named_and_nothing_runs(road, script):
    road.cloud.enable_api("secretmanager")
    reference = f"secret://projects/{road.cloud.project}/secrets/none/versions/1"
    job = road.submit(script(WAIT_FOR_GO), secrets={"KEY": reference})
    with pytest.raises(JobFailedError):
        job.result()
    assert any("secrets/none/versions/1:access" in line.message for line in job.logs())
    assert not said(job, "rank")
