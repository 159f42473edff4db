"""Real ranks behind the real wire: a Spot job that is taken back, two jobs of one key, and secrets."""

import hashlib
import time
from dataclasses import replace

import pytest

import gputrain_emulator
from gputrain import JobFailedError, State, Trainer, VertexAI, attach
from gputrain.gcp import Access
from gputrain.gcp.buckets import BucketPrefix
from gputrain.gcp.uploads import upload
from gputrain_emulator import faults
from gputrain_emulator.iam import Accounts
from gputrain_emulator.live import LiveMode
from gputrain_emulator.storage import Storage
from gputrain_emulator.vertex import Vertex

WAIT_FOR_GO = """
import os, signal, sys, time, urllib.error, urllib.request
signal.signal(signal.SIGTERM, lambda *_: sys.exit(75))
print("rank", os.environ["RANK"], "of", os.environ["WORLD_SIZE"], flush=True)
while True:
    try:
        urllib.request.urlopen(os.environ["STORAGE_EMULATOR_HOST"] + "/storage/v1/b/my-bucket/o/go").read()
        break
    except urllib.error.HTTPError:
        time.sleep(0.1)
print("done", flush=True)
"""


@pytest.fixture
def cloud():
    with gputrain_emulator.start(wall_clock=True) as running:
        running.attach(LiveMode(running.world, allow_unconfined=True))
        running.world.part(Storage).add_bucket("my-bucket", location="us-central1")
        service = running.world.part(Vertex)
        # machines take longer than a look at them, so that the wait for new ones is seen
        service.settings = replace(service.settings, provision_s=3.0, start_s=0.05, error_delay_s=1.0)
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
    access = Access(project=cloud.project, credentials=cloud.credentials, endpoints=cloud.endpoints)
    upload(access, BucketPrefix(name="my-bucket"), "go", b"go")


def until(job, holds):
    patience = time.monotonic() + 60
    while not holds():
        job.refresh()
        assert time.monotonic() < patience, job.state
        time.sleep(0.2)


def said(job, words):
    return [line for line in job.logs() if line.message.startswith(words)]


def test_a_spot_job_that_is_taken_back_runs_again_with_all_its_ranks(cloud, script):
    job = Trainer(make(cloud)).submit(
        script,
        gpu="L4:2",
        num_nodes=2,
        provisioning_model="spot",
        max_restarts=2,
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
    assert job.refresh().attempt == job.result().attempt == 1
    fresh = attach(job.uri, backend=VertexAI.for_ref(job.ref, **reach(cloud)))
    assert fresh.result().attempt == 1, "another process, which knows no bucket, reads it too"


def test_of_two_jobs_of_one_key_one_trains(cloud, script):
    cloud.fail("aiplatform.customJobs.list", faults.Stale(seconds=3600), times=4)
    go(cloud)
    jobs = []
    for _ in range(2):
        jobs.append(Trainer(make(cloud)).submit(script, gpu="L4:1", idempotency_key="k"))
        cloud.world.part(Storage).objects.delete("my-bucket", f"records/{jobs[-1].ref.name}.json")
    assert len(cloud.world.part(Vertex).jobs) == 2
    assert {job.result(timeout=60).state for job in jobs} == {State.SUCCEEDED}
    names = {job.refresh().raw["name"] for job in jobs}
    assert len(names) == 1
    lines = [line.message for job in jobs for line in job.logs()]
    assert lines.count("rank 0 of 1") == 2  # one job, told to both handles


WORD = "travelled"


def speak():
    import os

    print("function", WORD, os.environ["RANK"], flush=True)


def test_a_function_runs_there_with_what_it_needs(cloud):
    job = Trainer(make(cloud)).submit(speak, gpu="L4:2")
    assert job.result(timeout=60).state is State.SUCCEEDED
    assert {line.message for line in said(job, "function")} == {
        "function travelled 0",
        "function travelled 1",
    }


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
        job.result(timeout=60)
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
        job.result(timeout=60)
    assert any("secrets/none/versions/1:access" in line.message for line in job.logs())
    assert not said(job, "rank")


def test_a_job_that_fails_in_its_first_seconds_tells_rank_and_traceback_at_once(cloud, tmp_path):
    service = cloud.world.part(Vertex)
    usual = type(service.settings)()  # the code runs for a while before the job is told to be RUNNING
    service.settings = replace(usual, provision_s=0.2, error_delay_s=3600.0)  # who waits for Google's reason
    (tmp_path / "broken.py").write_text("import nosuchmodule\n")
    job = Trainer(make(cloud)).submit(str(tmp_path / "broken.py"), gpu="L4:2")
    assert job.wait() is State.FAILED
    assert job.started_at is None
    assert job.failure.rank in (0, 1)
    assert "ModuleNotFoundError: No module named 'nosuchmodule'" in job.failure.traceback
