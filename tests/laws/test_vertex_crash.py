"""A client killed at any step of a submit leaves exactly one job to whoever comes with the same key."""

import os
import random
import signal
import subprocess
import sys
import time

import pytest

import gputrain.emulator
from gputrain.backends.vertex import VertexAI
from gputrain.emulator import faults
from gputrain.emulator.storage import Storage
from gputrain.emulator.vertex import Vertex
from gputrain.trainer import Trainer

CLIENT = """
import sys
from google.oauth2.credentials import Credentials
from gputrain import Trainer, VertexAI
from gputrain.gcp import Endpoints
url, token, script = sys.argv[1:]
everywhere = Endpoints(aiplatform=url, storage=url, logging=url)
backend = VertexAI("my-project", "us-central1", bucket="gs://my-bucket", endpoints=everywhere,
                   credentials=Credentials(token=token))
print("ready", flush=True)
Trainer(backend).submit(script, gpu="L4:1", idempotency_key="k")
print("submitted", flush=True)
"""
STEPS = (
    "storage.buckets.list",
    "aiplatform.customJobs.list",
    "storage.objects.insert",
    "aiplatform.customJobs.create",
)


@pytest.fixture
def cloud():
    with gputrain.emulator.start() as running:
        running.world.part(Storage).add_bucket("my-bucket", location="us-central1")
        yield running


@pytest.fixture
def script(tmp_path):
    (tmp_path / "train.py").write_text("pass\n")
    return str(tmp_path / "train.py")


def start(cloud, script):
    words = [
        sys.executable,
        "-c",
        CLIENT,
        cloud.endpoints.url,
        cloud.world.callers.issue(cloud.owner),
        script,
    ]
    return subprocess.Popen(words, stdout=subprocess.PIPE, text=True)


def take_up(cloud, script):
    """What a fresh process does: the same submit with the same key."""
    backend = VertexAI(
        "my-project", "us-central1", bucket="gs://my-bucket", endpoints=cloud.endpoints,
        credentials=cloud.credentials, sleep=cloud.clock.advance, now=cloud.clock.now,
    )  # fmt: skip
    return Trainer(backend).submit(script, gpu="L4:1", idempotency_key="k")


def one_job_is_left(cloud, script):
    job = take_up(cloud, script)
    (only,) = cloud.world.part(Vertex).jobs.values()
    assert only.document["displayName"] == job.ref.name
    cloud.clock.advance(1000)
    assert job.refresh().state.value == "succeeded"


@pytest.mark.parametrize("step", STEPS)
def test_a_client_killed_when_a_step_is_answered_leaves_one_job(cloud, script, step):
    client = start_held(cloud, script, step)
    client.wait(timeout=60)
    client.stdout.close()
    assert client.returncode == -signal.SIGKILL
    one_job_is_left(cloud, script)


def start_held(cloud, script, step):
    """A client that is killed with SIGKILL when the step is done and its answer is not yet sent."""
    victim = []

    def kill(document):
        os.kill(victim[0], signal.SIGKILL)
        return document

    cloud.fail(step, faults.Reshape(change=kill))
    client = start(cloud, script)
    victim.append(client.pid)
    return client


@pytest.mark.soak
@pytest.mark.parametrize("seed", range(300))
def test_a_client_killed_at_any_moment_leaves_one_job(cloud, script, seed):
    client = start(cloud, script)
    assert client.stdout.readline() == "ready\n"
    time.sleep(random.Random(seed).uniform(0, 1.5))  # the moment is what is drawn; nothing waits for it
    client.kill()
    client.wait(timeout=60)
    client.stdout.close()
    one_job_is_left(cloud, script)
