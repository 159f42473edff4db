"""A Vertex AI job costs few calls to make and fewer to watch, against the emulator on this machine."""

import json
import random
import subprocess
import sys
import tempfile
import threading
import time
from collections import Counter
from collections.abc import Callable, Iterator
from pathlib import Path

from measure import Measure, Spread, alternated, calls_of_a_submit, python_s
from sleepers import Sleepers

import gputrain_emulator
from gputrain import GputrainError, Job, Trainer, VertexAI
from gputrain.job.watcher import EACH_S
from gputrain.spec import TrainingSpec
from gputrain_emulator.storage import Storage
from gputrain_emulator.vertex import Vertex
from gputrain_emulator.vertex.states import Fate

WATCHED = 1000
LIMITED = 300
THREADS = 64
EVERY_S = 1.5 + WATCHED * EACH_S
ROUNDS = 31
REGION = "us-central1"
START = """
from google.auth.credentials import AnonymousCredentials
from google.oauth2.credentials import Credentials
url, script = {url!r}, {script!r}
"""
OURS = """
from gputrain import Trainer, VertexAI
from gputrain.google import Api, Endpoints
everywhere = Endpoints(**{api.value: url for api in Api})
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
    with tempfile.TemporaryDirectory() as folder, gputrain_emulator.start(rate_limits=False) as cloud:
        script = Path(folder, "train.py")
        script.write_text("pass\n")
        cloud.world.part(Storage).add_bucket("my-bucket", location=REGION)
        vertex = cloud.world.part(Vertex)
        vertex.set_limit("custom_model_training_nvidia_l4_gpus", 10**6, region=REGION)
        vertex.set_fate(Fate(run_s=float("inf")))
        yield from submitting(cloud, str(script))
        yield from from_nothing(cloud, str(script))
        for job in list(vertex.jobs.values()):  # else they would be listed with those that are watched
            vertex.replica_exited(job, "workerpool0-0", 0)
        yield from watching(cloud, str(script))
    yield from limited()


def backend_of(cloud: gputrain_emulator.Cloud, sleep: Callable[[float], None] | None = None) -> VertexAI:
    return VertexAI(
        cloud.project,
        REGION,
        bucket="gs://my-bucket",
        endpoints=cloud.endpoints,
        credentials=cloud.credentials,
        sleep=sleep or cloud.clock.advance,
        now=cloud.clock.now,
    )


def submitting(cloud: gputrain_emulator.Cloud, script: str) -> Iterator[Measure]:
    """The second submit of the same code, against Google's clients doing the same five calls."""
    from google.cloud import aiplatform_v1, storage

    backend = backend_of(cloud)
    trainer = Trainer(backend)
    trainer.submit(script, gpu="L4:1")
    before = len(cloud.requests)
    trainer.submit(script, gpu="L4:1")
    yield from calls_of_a_submit(cloud.requests[before:])
    spec = TrainingSpec(script=script, gpu="L4:1")
    plan = trainer.plan(spec)
    bundle = backend.package(spec, "bare-1")
    code = bundle.location.removeprefix("gs://my-bucket/")
    (body,) = plan.requests
    jobs = aiplatform_v1.JobServiceClient(
        credentials=cloud.credentials, transport="rest", client_options=cloud.client_options
    )
    job = aiplatform_v1.CustomJob.from_json(json.dumps(body["customJob"]))
    objects = storage.Client(
        cloud.project, credentials=cloud.credentials, client_options=cloud.client_options
    )
    bucket = objects.bucket("my-bucket")

    def ours() -> float:
        began = time.perf_counter()
        trainer.submit(spec)
        return time.perf_counter() - began

    def bare() -> float:
        began = time.perf_counter()
        list(objects.list_buckets(prefix="my-bucket", retry=None))
        bucket.blob(code).reload(retry=None)
        bucket.blob("records/bare").upload_from_string(b"{}", retry=None)
        jobs.create_custom_job(parent=body["parent"], custom_job=job, retry=None)
        bucket.blob("records/bare").upload_from_string(b"{}", retry=None)
        return time.perf_counter() - began

    took = alternated({"ours": ours, "bare": bare}, rounds=ROUNDS, warm_up=2)
    yield took.ratio("ours", "bare").measure("submit / the bare calls", target=1.5, note=took.note)


def from_nothing(cloud: gputrain_emulator.Cloud, script: str) -> Iterator[Measure]:
    """From the start of a process to the return of submit, against Google's high-level client."""
    start = START.format(url=cloud.endpoints.url, script=script)
    token = cloud.world.callers.issue(cloud.owner)
    runs = {
        name: (lambda code=code: python_s((start + code).replace('token="x"', f"token={token!r}")))
        for name, code in (("gputrain", OURS), ("aiplatform.CustomJob", THEIRS))
    }
    took = alternated(runs, until=lambda took: took.ratio(*runs).is_clear_of(0.5))
    ratio = took.ratio("gputrain", "aiplatform.CustomJob")
    yield ratio.measure("process start to submitted / aiplatform.CustomJob", target=0.5, note=took.note)


WATCHER = """
import json, sys, threading, time, tracemalloc
from google.oauth2.credentials import Credentials
from gputrain import Trainer, VertexAI
from gputrain.google import Api, Endpoints
url, token, uris, rounds, each_s = json.load(sys.stdin)
seconds = [1e9]
everywhere = Endpoints(**{api.value: url for api in Api})
backend = VertexAI("my-project", "us-central1", bucket="gs://my-bucket", endpoints=everywhere,
                   credentials=Credentials(token=token), now=lambda: seconds[0])
trainer = Trainer(backend)
trainer.attach(uris[0])
threads = threading.active_count()
tracemalloc.start()
jobs = trainer.jobs()
kib = tracemalloc.get_traced_memory()[0] / 1024 / len(jobs)
tracemalloc.stop()
cpu = []
for number in range(rounds):
    if number % 10 == 0:
        cpu.append(0.0)
    began = time.process_time()
    seconds[0] += each_s
    jobs[0].refresh_many(jobs)
    cpu[-1] += (time.process_time() - began) / (10 * each_s)
print(json.dumps({"kib": kib, "cpu": cpu, "threads": threading.active_count() - threads + 1}))
"""


def watching(cloud: gputrain_emulator.Cloud, script: str) -> Iterator[Measure]:
    """A thousand jobs, looked at together as often as the watcher does, in the emulator's time."""
    trainer = Trainer(backend_of(cloud))
    jobs = [trainer.submit(script, gpu="L4:1") for _ in range(WATCHED)]
    cloud.clock.advance(200)
    yield from in_a_process_of_its_own(cloud, jobs)
    Job.refresh_many(jobs)
    calls, each, delays = seen_changes(cloud, jobs)
    note = f"and {each:.3g} for each job that ends"
    yield Measure(what=f"calls a minute, {WATCHED} jobs watched", value=calls, target=150, unit="", note=note)
    late = sorted(delays)[int(len(delays) * 0.99)]
    note = f"99th percentile of {len(delays)} ends; the slowest {max(delays):.1f} s"
    yield Measure(what="a change among them is seen within", value=late, target=15, unit="s", note=note)
    yield Measure(
        what="the end of a single job is seen within", value=single(cloud, script), target=2, unit="s"
    )


def in_a_process_of_its_own(cloud: gputrain_emulator.Cloud, jobs: list[Job]) -> Iterator[Measure]:
    """What watching costs the process that does it, the emulator not counted."""
    uris, token = [job.uri for job in jobs], cloud.world.callers.issue(cloud.owner)
    told = json.dumps([cloud.endpoints.url, token, uris, 40, EVERY_S])
    done = subprocess.run(
        [sys.executable, "-c", WATCHER], input=told, capture_output=True, text=True, check=True
    )
    cost = json.loads(done.stdout)
    share = Spread.of_times(cost["cpu"], per=1e-2)
    yield share.measure("of a core, watching them", target=2, unit="%")
    yield Measure(what="memory a watched job", value=cost["kib"], target=5, unit="KiB")
    yield Measure(what="threads of the watcher", value=cost["threads"], target=4, unit="")


def seen_changes(cloud: gputrain_emulator.Cloud, jobs: list[Job]) -> tuple[float, float, list[float]]:
    """Calls a minute while nothing ends, calls that an end adds, and how late each of a hundred was seen."""
    vertex, dice = cloud.world.part(Vertex), random.Random(7)
    theirs = {one.document.get("labels", {}).get("gputrain-job"): one for one in vertex.jobs.values()}
    quiet = looks(cloud, jobs, {})
    ended: dict[Job, float] = {}
    began = cloud.clock.now()
    due = {job: began + dice.uniform(5, 100) for job in dice.sample(jobs, 100)}
    for job, when in due.items():
        cloud.clock.at(when, lambda job=job: vertex.replica_exited(theirs[job.id], "workerpool0-0", 0))
    each = (looks(cloud, jobs, ended) - quiet) / len(due)
    return quiet / 2, each, [ended[job] - when for job, when in due.items()]


def looks(cloud: gputrain_emulator.Cloud, jobs: list[Job], ended: dict[Job, float]) -> int:
    """The calls of two minutes, and into ``ended`` when each job was seen to have ended."""
    began, calls = cloud.clock.now(), 0
    while cloud.clock.now() < began + 120:
        cloud.dispatcher.requests.clear()
        Job.refresh_many(jobs)
        for job in jobs:
            if job.state.is_terminal and job not in ended:
                ended[job] = cloud.clock.now()
        calls += len(cloud.requests)
        cloud.clock.advance(EVERY_S)
    return calls


def single(cloud: gputrain_emulator.Cloud, script: str) -> float:
    """The longest of some waits, each of which looks as often as `Job.wait` does."""
    vertex, dice, longest = cloud.world.part(Vertex), random.Random(7), 0.0
    for _ in range(5):
        backend = backend_of(cloud)
        job = Trainer(backend).submit(script, gpu="L4:1")
        cloud.clock.advance(200)
        theirs = next(
            one
            for one in vertex.jobs.values()
            if one.document.get("labels", {}).get("gputrain-job") == job.id
        )
        end = cloud.clock.now() + dice.uniform(5, 10)
        cloud.clock.at(end, lambda theirs=theirs: vertex.replica_exited(theirs, "workerpool0-0", 0))
        while not job.refresh().state.is_terminal:
            cloud.clock.advance(job.poll_s)
        longest = max(longest, cloud.clock.now() - end)
    return longest


def limited() -> Iterator[Measure]:
    """64 threads, hundreds of jobs and 60 creates a minute, in the emulator's time."""
    with tempfile.TemporaryDirectory() as folder, gputrain_emulator.start() as cloud:
        script = Path(folder, "train.py")
        script.write_text("pass\n")
        cloud.world.part(Storage).add_bucket("my-bucket", location=REGION)
        vertex = cloud.world.part(Vertex)
        vertex.set_limit("custom_model_training_nvidia_l4_gpus", 10**6, region=REGION)
        vertex.set_fate(Fate(run_s=float("inf")))
        crew, keys = Sleepers(cloud.clock, threads=THREADS), iter(range(LIMITED))
        trainer = Trainer(backend_of(cloud, sleep=crew.sleep), sleep=crew.sleep)
        answers: Counter[str] = Counter()

        def submit(key: int) -> str:
            try:
                return trainer.submit(str(script), gpu="L4:1", idempotency_key=str(key)).uri
            except GputrainError as error:
                return type(error).__name__

        def work() -> None:
            with crew:
                answers.update(submit(key) for key in keys)

        began = cloud.clock.now()
        threads = [threading.Thread(target=work) for _ in range(THREADS)]
        for thread in threads:
            thread.start()
        for thread in threads:
            thread.join()
        made = Counter(one.document["displayName"] for one in vertex.jobs.values())
        wrong = [one for one in answers if not one.startswith("gputrain://")]
        minutes = f"{(cloud.clock.now() - began) / 60:.1f} minutes of the emulator's time"
        what = f"of {LIMITED} submits by {THREADS} threads under 60 creates a minute"
        lost = LIMITED - len(made) + len(wrong)
        yield Measure(what=f"lost or refused {what}", value=lost, target=0, unit="", note=minutes)
        twice = sum(made.values()) - len(made)
        yield Measure(what=f"made twice {what}", value=twice, target=0, unit="")


if __name__ == "__main__":
    for one in measure():
        sys.stdout.write(f"{one.what}: {one.value:.3g} {one.unit} (target {one.target}) {one.note}\n")
