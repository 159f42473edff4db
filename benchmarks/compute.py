"""Compute Engine: what a submit and a look cost, on the emulator."""

import tempfile
import time
import uuid
from collections.abc import Iterator
from pathlib import Path

from measure import Measure, medians

import gputrain.emulator
from gputrain.backends.compute import ComputeEngine
from gputrain.backends.compute.calls import Calls
from gputrain.backends.compute.watch import Watch
from gputrain.emulator.storage import Storage
from gputrain.gcp import Access
from gputrain.planning import candidates
from gputrain.spec import TrainingSpec

ZONE = "us-central1-a"
VMS = 1000


def backend_in(cloud: gputrain.emulator.Cloud) -> ComputeEngine:
    reach = {"endpoints": cloud.endpoints, "credentials": cloud.credentials}
    return ComputeEngine("my-project", regions=["us-central1"], bucket="gs://my-bucket", **reach)


def generous(cloud: gputrain.emulator.Cloud) -> None:
    cloud.world.part(Storage).add_bucket("my-bucket", location="us-central1")
    cloud.compute.settings.provision_s = cloud.compute.settings.staging_s = 0.1
    for metric in ("NVIDIA_L4_GPUS", "GPUS_ALL_REGIONS"):
        cloud.quota(metric, 10_000)


def writes(count: int) -> float:
    """Write calls to Compute Engine that a submit of so many VMs makes."""
    with gputrain.emulator.start(wall_clock=True) as cloud:
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
        job_id = f"job-{uuid.uuid4().hex[:8]}"
        begin = time.perf_counter()
        backend.create(backend.render(spec, one, job_id, backend.stage(spec, job_id)))
        return time.perf_counter() - begin


def bare(cloud: gputrain.emulator.Cloud) -> float:
    """The same gang by the official client: bulkInsert, and its operation asked for every second."""
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
        time.sleep(1.0)
        operation = operations.get(project="my-project", zone=ZONE, operation=operation.name, retry=None)
    return time.perf_counter() - begin


def look() -> tuple[float, float]:
    """List calls and kilobytes of one look at a thousand VMs."""
    with gputrain.emulator.start() as cloud:
        generous(cloud)
        cloud.dispatcher.log_bytes = 1 << 30
        access = Access(project="my-project", credentials=cloud.credentials, endpoints=cloud.endpoints)
        calls = Calls(access=access)
        disk = {"sourceImage": "projects/debian-cloud/global/images/family/debian-12"}
        body = {
            "count": str(VMS),
            "instanceProperties": {
                "machineType": "g2-standard-4",
                "labels": {"gputrain-job": "job"},
                "scheduling": {"onHostMaintenance": "TERMINATE"},
                "disks": [{"boot": True, "autoDelete": True, "initializeParams": disk}],
                "networkInterfaces": [{"network": "global/networks/default"}],
            },
            "perInstanceProperties": {f"bert-x1y2-0-{number}": {} for number in range(VMS)},
        }
        calls.official.start(ZONE, "bulkInsert", body, str(uuid.uuid4()))
        before = len(cloud.requests)
        found, _ = Watch(calls, ZONE).look()
        assert len(found) == VMS
        seen = cloud.requests[before:]
        return float(len(seen)), sum(len(one.reply) for one in seen) / 1024


def measure() -> Iterator[Measure]:
    """Yield the figures."""
    yield Measure(what="writes of 16 VMs to those of 1", value=writes(16) / writes(1), target=1.0)
    with gputrain.emulator.start(wall_clock=True) as cloud:
        generous(cloud)
        backend = backend_in(cloud)
        taken = medians({"ours": lambda: submit(backend, 1), "bare": lambda: bare(cloud)})
    note = f"{taken['ours']:.2f} s, code packed and sent included"
    yield Measure(
        what="submit to the bare official client", value=taken["ours"] / taken["bare"], target=1.5, note=note
    )
    requests, kilobytes = look()
    yield Measure(what="list calls of a look at 1,000 VMs", value=requests, target=2, unit="")
    yield Measure(what="bytes of a look at 1,000 VMs", value=kilobytes, target=100, unit="KB")
