"""Compute Engine: what a submit and a look cost, on the emulator."""

import json
import tempfile
import threading
import time
import uuid
from collections import Counter
from collections.abc import Iterator, Sequence
from datetime import datetime, timezone
from pathlib import Path
from typing import Any

from measure import Measure, alternated, calls_of_a_submit

import gputrain_emulator
from gputrain import Job, Trainer
from gputrain.backends.compute import ComputeEngine
from gputrain.backends.compute.calls import EVERY_S, Calls
from gputrain.google import LABEL_ATTEMPT, LABEL_OWNER, GoogleClient, Objects, our_labels
from gputrain.google.storage import BucketPrefix, owner_id
from gputrain.job.watcher import changes
from gputrain.jobstore import Attempt, BucketStore, JobRecord, JobStore, Option
from gputrain.jobstore.record import draw_id
from gputrain.lifecycle import State
from gputrain.orchestration.options import draw, option_of
from gputrain.planning import candidates
from gputrain.runtime.contract import SCHEMA
from gputrain.spec import TrainingSpec
from gputrain_emulator.clock import zulu_time
from gputrain_emulator.storage import Storage

ZONE = "us-central1-a"
VMS = 1000
MINUTES = 5


def backend_in(cloud: gputrain_emulator.Cloud, **clock: Any) -> ComputeEngine:
    reach = {"endpoints": cloud.endpoints, "credentials": cloud.credentials, **clock}
    return ComputeEngine("my-project", regions=["us-central1"], bucket="gs://my-bucket", **reach)


def generous(cloud: gputrain_emulator.Cloud) -> None:
    cloud.world.part(Storage).add_bucket("my-bucket", location="us-central1")
    cloud.compute.settings.provision_s = cloud.compute.settings.staging_s = 0.1
    for metric in ("NVIDIA_L4_GPUS", "GPUS_ALL_REGIONS"):
        cloud.quota(metric, 10_000)


def writes(count: int) -> float:
    """Write calls to Compute Engine that a submit of so many VMs makes."""
    with gputrain_emulator.start(wall_clock=True) as cloud:
        generous(cloud)
        submit(backend_in(cloud), count)
        seen = [one for one in cloud.requests if one.method.startswith("compute.") and one.verb != "GET"]
        return float(len(seen))


def submit(backend: ComputeEngine, count: int) -> float:
    with tempfile.TemporaryDirectory() as folder:
        script = Path(folder) / "train.py"
        script.write_text("pass")
        spec = TrainingSpec(script=str(script), gpu="L4:1", num_nodes=count)
        one = candidates(spec, [backend.supply]).candidates[0]
        record = JobRecord(
            job_id=f"job-{uuid.uuid4().hex[:8]}", spec=spec.to_dict(), options=(option_of(one),)
        )
        begin = time.perf_counter()
        bundle = backend.package(spec, record.job_id)
        attempt = draw(record, one, datetime.now(timezone.utc))
        backend.launch(backend.build_request(record, spec, attempt, one, bundle))
        return time.perf_counter() - begin


def calls() -> Iterator[Measure]:
    """The second submit of the same code, and a look at the job once it runs."""
    with tempfile.TemporaryDirectory() as folder, gputrain_emulator.start() as cloud:
        generous(cloud)
        script = Path(folder, "train.py")
        script.write_text("pass")
        backend = backend_in(cloud, sleep=cloud.clock.advance, now=cloud.clock.now)
        trainer = Trainer(backend)
        trainer.submit(str(script), gpu="L4:1")
        before = len(cloud.requests)
        job = trainer.submit(str(script), gpu="L4:1")
        yield from calls_of_a_submit(cloud.requests[before:])
        cloud.clock.advance(100)
        say_running(cloud, [JobStore(backend.documents).read(job.id).record])
        assert job.refresh().state is State.RUNNING
        cloud.clock.advance(backend.poll_s)
        before = len(cloud.requests)
        job.refresh()
        seen = [one.method for one in cloud.requests[before:]]
    reads = sum("storage.objects" in one for one in seen)
    what = "objects that a look at a running job reads: its record and its node's status"
    yield Measure(what=what, value=reads, target=2, unit="", note=", ".join(seen))


def bare(cloud: gputrain_emulator.Cloud) -> float:
    """The same VMs by the official client: bulkInsert, and its operation read as often."""
    from google.cloud import compute_v1

    options = {"credentials": cloud.credentials, "client_options": cloud.client_options}
    instances, operations = compute_v1.InstancesClient(**options), compute_v1.ZoneOperationsClient(**options)
    names = {f"bare-{uuid.uuid4().hex[:8]}": compute_v1.BulkInsertInstanceResourcePerInstanceProperties()}
    disk = compute_v1.AttachedDiskInitializeParams(
        source_image="projects/debian-cloud/global/images/family/debian-12"
    )
    properties = compute_v1.InstanceProperties(
        machine_type="g2-standard-4",
        scheduling=compute_v1.Scheduling(on_host_maintenance="TERMINATE"),
        disks=[compute_v1.AttachedDisk(boot=True, auto_delete=True, initialize_params=disk)],
        network_interfaces=[compute_v1.NetworkInterface(network="global/networks/default")],
    )
    resource = compute_v1.BulkInsertInstanceResource(
        count=1, instance_properties=properties, per_instance_properties=names
    )
    begin = time.perf_counter()
    operation = instances.bulk_insert_unary(
        project="my-project", zone=ZONE, bulk_insert_instance_resource_resource=resource, retry=None
    )
    while operation.status.name != "DONE":
        time.sleep(EVERY_S)
        operation = operations.get(project="my-project", zone=ZONE, operation=operation.name, retry=None)
    return time.perf_counter() - begin


def many(cloud: gputrain_emulator.Cloud) -> list[JobRecord]:
    """The records of a thousand jobs of one VM each, just launched."""
    home = BucketPrefix.parse("gs://my-bucket")
    access = GoogleClient(project="my-project", credentials=cloud.credentials, endpoints=cloud.endpoints)
    store, records = JobStore(BucketStore(access, home)), dict[str, JobRecord]()
    spec = TrainingSpec(script="train.py", gpu="L4:1").to_dict()
    option = Option(
        backend="compute", place=ZONE, region="us-central1", gpu="L4", gpu_count="1",
        machine_type="g2-standard-4", model="standard",
    )  # fmt: skip
    for number in range(VMS):
        job_id, attempt_id = f"bert-{number:04}", draw_id()
        name = f"{job_id}-{attempt_id}-0"
        attempt = Attempt(id=attempt_id, option=option, names=(name,), at=cloud.clock.now(), price_usd_h=0.7)
        record = JobRecord(job_id=job_id, spec=spec, options=(option,)).begin(attempt).launched(ZONE)
        store.swap(record, 0)
        records[name] = record
    disk = {"sourceImage": "projects/debian-cloud/global/images/family/debian-12"}
    body = {
        "count": str(VMS),
        "instanceProperties": {
            "machineType": "g2-standard-4",
            "labels": {},  # one request would label all its VMs alike
            "scheduling": {"onHostMaintenance": "TERMINATE"},
            "disks": [{"boot": True, "autoDelete": True, "initializeParams": disk}],
            "networkInterfaces": [{"network": "global/networks/default"}],
        },
        "perInstanceProperties": {name: {} for name in records},
    }
    Calls(access=access).start(ZONE, "bulkInsert", body, str(uuid.uuid4()))
    cloud.clock.advance(1)
    for vm in cloud.compute.vms.values():
        record = records[vm.name]
        assert record.attempt is not None
        ours = {LABEL_ATTEMPT: record.attempt.id, LABEL_OWNER: owner_id("my-project", home)}
        vm.resource["labels"] = {**our_labels(record.job_id, {}), **ours}
    return list(records.values())


def say_running(cloud: gputrain_emulator.Cloud, records: Sequence[JobRecord]) -> None:
    """What their guests write once ranks run."""
    access = GoogleClient(project="my-project", credentials=cloud.credentials, endpoints=cloud.endpoints)
    for record in records:
        assert record.attempt is not None
        name = f"jobs/{record.job_id}/{record.attempt.id}/status-0.json"
        says = {"schema": SCHEMA, "phase": "running", "running_at": zulu_time(cloud.clock.now())}
        Objects(access, "my-bucket").write(name, json.dumps(says).encode(), if_generation=None)


def watched() -> tuple[float, float, float]:
    """Requests a minute of one process that looks at 1,000 VMs; list calls and kilobytes of one look."""
    with gputrain_emulator.start() as cloud:
        generous(cloud)
        cloud.dispatcher.requests.keep_everything()
        attempts = backend_in(cloud, sleep=cloud.clock.advance, now=cloud.clock.now)
        records = many(cloud)
        cloud.clock.advance(60)
        say_running(cloud, records)
        for _ in range(int(MINUTES * 3 * 60 / attempts.poll_s)):  # until each guest was heard
            found = attempts.inspect_many(records)
            cloud.clock.advance(attempts.poll_s)
        assert {seen.state for seen in found.values()} == {State.RUNNING}
        before = len(cloud.requests)
        for _ in range(int(60 / attempts.poll_s)):
            attempts.inspect_many(records)
            cloud.clock.advance(attempts.poll_s)
        minute = cloud.requests[before:]
        lists = [one for one in minute if one.method == "compute.instances.list"]
        pages = len(lists) // sum("pageToken" not in one.query for one in lists)
        told = [_travelled(cloud, attempts, one) for one in lists[-pages:]]
        return float(len(minute)), pages, sum(told) / 1024


def young() -> Iterator[Measure]:
    """A process that attaches to 1,000 jobs in their first second, and tells a listener of each."""
    with gputrain_emulator.start() as cloud:
        generous(cloud)
        cloud.compute.settings.provision_s = cloud.compute.settings.staging_s = 20.0
        cloud.dispatcher.requests.keep_everything()
        records, told = many(cloud), Counter[State]()
        backend = backend_in(cloud, sleep=cloud.clock.advance, now=cloud.clock.now)
        trainer = Trainer(backend, now=lambda: datetime.fromtimestamp(cloud.clock.now(), timezone.utc))
        minutes = list[int]()
        jobs = trainer.jobs()
        tells = [changes(job, lambda event: told.update([event.state])) for job in jobs]
        cloud.dispatcher.requests.clear()
        for minute in range(MINUTES):
            if minute == 2:
                say_running(cloud, records[: VMS // 2])
                cloud.dispatcher.requests.clear()
            for _ in range(int(60 / backend.poll_s)):
                Job.refresh_many(jobs)
                for tell in tells:
                    tell()
                cloud.clock.advance(backend.poll_s)
            minutes.append(len(cloud.requests))
            cloud.dispatcher.requests.clear()
        watched = [job.watch(lambda _event: None) for job in jobs]
        time.sleep(2.0)
        threads = [one.name for one in threading.enumerate() if one.name.startswith("gputrain ")]
        [one.close() for one in watched]
    note = f"{told[State.PROVISIONING]} seen to be made, {told[State.RUNNING]} to run after {MINUTES} minutes"
    yield Measure(
        what=f"requests in the first minute of {VMS} jobs", value=minutes[0], target=150, unit="", note=note
    )
    note = ", ".join(map(str, minutes[1:]))
    what = f"requests in a later minute of {VMS} jobs that boot, at most"
    yield Measure(what=what, value=max(minutes[1:]), target=150, unit="", note=note)
    note = ", ".join(threads)
    yield Measure(what=f"threads that watch {VMS} jobs", value=len(threads), target=4, unit="", note=note)


def _travelled(cloud: gputrain_emulator.Cloud, attempts: ComputeEngine, seen: Any) -> int:
    """Bytes that an answer is on the wire, asked for as it was."""
    url = f"{cloud.endpoints.compute}{seen.path}"
    with attempts._access.session().get(url, params=seen.query, stream=True) as reply:
        return len(reply.raw.read(decode_content=False))


def measure() -> Iterator[Measure]:
    """Yield the figures."""
    yield from calls()
    yield Measure(what="writes of 16 VMs to those of 1", value=writes(16) / writes(1), target=1.0)
    with gputrain_emulator.start(wall_clock=True) as cloud:
        generous(cloud)
        backend = backend_in(cloud)
        took = alternated({"ours": lambda: submit(backend, 1), "bare": lambda: bare(cloud)})
    note = f"{took.note}, code packed and sent included"
    yield took.ratio("ours", "bare").measure("submit to the bare official client", target=1.5, note=note)
    yield from young()
    requests, lists, kilobytes = watched()
    yield Measure(
        what="requests a minute of a look at 1,000 VMs every 5 s", value=requests, target=150, unit=""
    )
    yield Measure(what="list calls of a look at 1,000 VMs", value=lists, target=2, unit="")
    note = "on the wire, packed: a VM's name, number, state and labels, which say whose attempt it is"
    yield Measure(what="bytes of a look at 1,000 VMs", value=kilobytes, target=100, unit="KB", note=note)
