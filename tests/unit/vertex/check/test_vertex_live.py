"""Real ranks behind the real wire: a Spot job that is taken back, and secrets."""

import hashlib
import time
from dataclasses import replace

import pytest

from gputrain import JobFailedError, State, Trainer, VertexAI
from gputrain.google.storage import BucketPrefix, upload
from gputrain_emulator.iam import Accounts
from gputrain_emulator.vertex import Vertex
from tests.contract.clouds import live_cloud
from tests.patience import PATIENCE_S
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
def cloud():
    """A cloud of real ranks, whose machines take longer to come than a look at them."""
    with live_cloud(allow_unconfined=True) as running:
        running.vertex.settings = replace(
            running.vertex.settings, provision_s=3.0, start_s=0.05, error_delay_s=1.0
        )
        yield running


@pytest.fixture
def script(tmp_path):
    (tmp_path / "train.py").write_text(WAIT_FOR_GO)
    return str(tmp_path / "train.py")


def reach(cloud):
    return {"endpoints": cloud.endpoints, "credentials": cloud.credentials}


def make(cloud):
    return VertexAI(cloud.project, "us-central1", bucket="gs://my-bucket", **reach(cloud))


def go(cloud):
    """Let the ranks end."""
    upload(client(cloud), BucketPrefix(name="my-bucket"), "go", b"go")


def until(job, holds):
    patience = time.monotonic() + PATIENCE_S
    while not holds():
        job.refresh()
        job.supervise()
        assert time.monotonic() < patience, job.state
        time.sleep(0.2)


def said(job, words):
    return [line for line in job.logs() if line.message.startswith(words)]


def test_a_spot_job_that_is_taken_back_runs_again_with_all_its_ranks(cloud, script):
    job = Trainer(make(cloud)).submit(
        script, gpu="L4:2", num_nodes=2, provisioning_model="spot", max_restarts=2
    )
    until(job, lambda: job.state is State.RUNNING and len(said(job, "rank")) == 4)
    (theirs,) = cloud.world.part(Vertex).jobs.values()
    cloud.world.part(Vertex).preempt(theirs)
    until(job, lambda: job.state is State.INTERRUPTED)
    go(cloud)
    until(job, lambda: job.state.is_terminal)
    assert job.state is State.SUCCEEDED
    assert len(said(job, "rank")) == 8
    assert len(said(job, "done")) == 4
    assert job.attempt == job.result().attempt == 1
    assert Trainer(make(cloud)).attach(job.uri).result().attempt == 1, "its record tells another process"


HASH = """
import hashlib, os
print("hash", hashlib.sha256(os.environ["KEY"].encode()).hexdigest(), "KEY" in os.environ)
raise RuntimeError("it fails, so that all that is told of a failure is told")
"""


def test_a_secret_is_read_in_the_container_and_seen_nowhere_else(cloud, tmp_path):
    secret = "s3cret-of-the-project"
    cloud.enable_api("secretmanager")
    cloud.world.part(Accounts).add_secret("wandb", secret.encode())
    script = tmp_path / "train.py"
    script.write_text(HASH)
    reference = f"secret://projects/{cloud.project}/secrets/wandb/versions/latest"
    job = Trainer(make(cloud)).submit(str(script), gpu="L4:1", secrets={"KEY": reference})
    with pytest.raises(JobFailedError) as failed:
        job.result()
    (line,) = said(job, "hash")
    assert hashlib.sha256(secret.encode()).hexdigest() in line.message
    (theirs,) = cloud.world.part(Vertex).jobs.values()
    lines = [line.message for line in job.logs()]
    shown = [
        job,
        job.table,
        failed.value,
        vars(failed.value),
        theirs.document,
        cloud.ledger,
        lines,
        cloud.requests,
    ]
    assert not [one for one in shown if secret in repr(one) or secret in str(one)]


def test_a_secret_that_is_not_there_is_named_and_nothing_runs(cloud, script):
    cloud.enable_api("secretmanager")
    reference = f"secret://projects/{cloud.project}/secrets/none/versions/1"
    job = Trainer(make(cloud)).submit(script, gpu="L4:1", secrets={"KEY": reference})
    with pytest.raises(JobFailedError):
        job.result()
    assert any("secrets/none/versions/1:access" in line.message for line in job.logs())
    assert not said(job, "rank")
