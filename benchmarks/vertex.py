"""A Vertex AI job costs few calls to make and fewer to watch, against the emulator on this machine."""

import sys
import tempfile
import threading
import time
import tracemalloc
from collections.abc import Iterator
from pathlib import Path

from measure import Measure, medians, python_s

import gputrain.emulator
from gputrain import Trainer, VertexAI
from gputrain.emulator.storage import Storage
from gputrain.emulator.vertex import Vertex
from gputrain.emulator.vertex.states import Fate
from gputrain.spec import TrainingSpec

WATCHED = 1000
ROUNDS = 9
REGION = "us-central1"
START = """
from google.auth.credentials import AnonymousCredentials
from google.oauth2.credentials import Credentials
url, script = {url!r}, {script!r}
"""
OURS = """
from gputrain import Trainer, VertexAI
from gputrain.gcp import Endpoints
everywhere = Endpoints(aiplatform=url, storage=url, logging=url)
backend = VertexAI("my-project", "us-central1", bucket="gs://my-bucket", endpoints=everywhere,
                   credentials=Credentials(token="x"))
Trainer(backend).submit(script, gpu="L4:1")
"""
THEIRS = """
from google.cloud import aiplatform
aiplatform.init(project="my-project", location="us-central1", credentials=Credentials(token="x"),
                api_endpoint=url, api_transport="rest", staging_bucket="gs://my-bucket")
machine = {"machine_type": "g2-standard-4", "accelerator_type": "NVIDIA_L4", "accelerator_count": 1}
container = {"image_uri": "us-docker.pkg.dev/p/r/i", "command": ["true"]}
pool = {"machine_spec": machine, "replica_count": 1, "container_spec": container}
aiplatform.CustomJob(display_name="x", worker_pool_specs=[pool]).submit()
"""


def measure() -> Iterator[Measure]:
    """Submitting, starting from nothing, and watching a thousand jobs."""
    with tempfile.TemporaryDirectory() as folder, gputrain.emulator.start(rate_limits=False) as cloud:
        script = Path(folder, "train.py")
        script.write_text("pass\n")
        cloud.world.part(Storage).add_bucket("my-bucket", location=REGION)
        vertex = cloud.world.part(Vertex)
        vertex.set_limit("custom_model_training_nvidia_l4_gpus", 10**6, region=REGION)
        vertex.set_fate(Fate(run_s=float("inf")))
        yield from submitting(cloud, str(script))
        yield from from_nothing(cloud, str(script))
        yield from watching(cloud, str(script))


def backend_of(cloud: gputrain.emulator.Cloud) -> VertexAI:
    return VertexAI(
        cloud.project,
        REGION,
        bucket="gs://my-bucket",
        endpoints=cloud.endpoints,
        credentials=cloud.credentials,
        sleep=cloud.clock.advance,
        now=cloud.clock.now,
    )


def submitting(cloud: gputrain.emulator.Cloud, script: str) -> Iterator[Measure]:
    """The second submit of the same code, against the bare client doing the same calls."""
    backend = backend_of(cloud)
    trainer = Trainer(backend)
    trainer.submit(script, gpu="L4:1")
    start = len(cloud.requests)
    trainer.submit(script, gpu="L4:1")
    calls = [one.method for one in cloud.requests[start:]]
    writes = calls.count("aiplatform.customJobs.create")
    yield Measure(what="writes of a submit of unchanged code", value=writes, target=1, unit="")
    yield Measure(what="reads of it", value=len(calls) - writes, target=6, unit="", note=", ".join(calls))
    uploads = sum("insert" in one for one in calls)
    yield Measure(what="uploads of it", value=uploads, target=0, unit="")
    spec = TrainingSpec(script=script, gpu="L4:1")
    plan = trainer.plan(spec)
    body = backend.render(spec, plan.candidates[0], "bare-1", backend.stage(spec, "bare-1")).body

    def ours() -> float:
        began = time.perf_counter()
        trainer.submit(spec)
        return time.perf_counter() - began

    def bare() -> float:
        began = time.perf_counter()
        session, storage = backend._access.once("session", backend._access._session), cloud.endpoints.storage
        session.get(f"{storage}/storage/v1/b", params={"project": cloud.project, "prefix": "my-bucket"})
        session.get(f"{storage}/storage/v1/b/my-bucket/o", params={"prefix": "code/"})
        backend._jobs.list(REGION, 'labels.gputrain-job="bare-1"')
        backend._jobs.create(REGION, body["customJob"])
        return time.perf_counter() - began

    wall = medians({"ours": ours, "bare": bare}, rounds=ROUNDS)
    note = ", ".join(f"{name} {seconds * 1000:.0f} ms" for name, seconds in wall.items())
    yield Measure(what="submit / the bare calls", value=wall["ours"] / wall["bare"], target=1.5, note=note)


def from_nothing(cloud: gputrain.emulator.Cloud, script: str) -> Iterator[Measure]:
    """From the start of a process to the return of submit, against Google's high-level client."""
    start = START.format(url=cloud.endpoints.url, script=script)
    token = cloud.world.callers.issue(cloud.owner)
    runs = {
        name: (lambda code=code: python_s((start + code).replace('token="x"', f"token={token!r}")))
        for name, code in (("gputrain", OURS), ("aiplatform.CustomJob", THEIRS))
    }
    wall = medians(runs, rounds=5)
    note = ", ".join(f"{name} {seconds:.2f} s" for name, seconds in wall.items())
    ratio = wall["gputrain"] / wall["aiplatform.CustomJob"]
    yield Measure(
        what="process start to submitted / aiplatform.CustomJob", value=ratio, target=0.5, note=note
    )


def watching(cloud: gputrain.emulator.Cloud, script: str) -> Iterator[Measure]:
    """Every job looked at once a round, one after the other, in the emulator's time."""
    trainer = Trainer(backend_of(cloud))
    jobs = [trainer.submit(script, gpu="L4:1") for _ in range(WATCHED)]
    cloud.clock.advance(200)
    tracemalloc.start()
    for job in jobs:
        job.refresh()
    began = cloud.clock.now()
    threads = threading.active_count()
    seen: list[str] = []
    for _ in range(40):
        cloud.dispatcher.requests.clear()
        for job in jobs:
            job.refresh()
        seen += [one.method for one in cloud.requests]
        cloud.clock.advance(3)
    minutes = (cloud.clock.now() - began) / 60
    kib = tracemalloc.get_traced_memory()[0] / 1024
    tracemalloc.stop()
    what = f"calls a minute, {WATCHED} jobs watched"
    yield Measure(what=what, value=len(seen) / minutes, target=150, unit="")
    note = "grown in this process, the emulator's share included"
    yield Measure(what="memory a watched job", value=kib / WATCHED, target=5, unit="KiB", note=note)
    more = threading.active_count() - threads
    yield Measure(what="threads that watching adds", value=max(0, more), target=4, unit="")
    yield Measure(what="an end is seen within", value=end_seen_s(cloud, jobs), target=15, unit="s")


def end_seen_s(cloud: gputrain.emulator.Cloud, jobs: list) -> float:
    vertex = cloud.world.part(Vertex)
    name = jobs[len(jobs) // 2].ref.name
    chosen = next(one for one in vertex.jobs.values() if one.document["displayName"] == name)
    vertex.replica_exited(chosen, "workerpool0-0", 0)
    began = cloud.clock.now()
    while True:
        cloud.clock.advance(1.5)
        for job in jobs:
            job.refresh()
        if jobs[len(jobs) // 2].state.is_terminal:
            return cloud.clock.now() - began


if __name__ == "__main__":
    for one in measure():
        sys.stdout.write(f"{one.what}: {one.value:.3g} {one.unit} (target {one.target}) {one.note}\n")
