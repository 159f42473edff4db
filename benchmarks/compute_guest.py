"""Compute Engine's guest: from boot to the user's first line, from a notice to the ranks' SIGTERM."""

import re
import tempfile
import time
import uuid
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path

from measure import Measure, Spread, alternated

import gputrain_emulator
from gputrain import ComputeEngine, Job, Trainer
from gputrain_emulator.clock import parse_time
from gputrain_emulator.live import USERLAND, why_no_userland

ZONE = "us-central1-a"
RANKS = 2
ROUNDS = 3
FIRST = "import os, time; os.write(1, f'first line at {time.time()}\\n'.encode())  # whole, beside its peer\n"
NOTICED = """
import signal, sys, time

def stop(*_):
    print("first line at", time.time(), flush=True)
    sys.exit(75)

signal.signal(signal.SIGTERM, stop)
print("ready", flush=True)
while True:
    time.sleep(0.01)
"""
BY_HAND = """#!/bin/sh
cat > /root/train.py <<'END'
{script}
END
exec {python} -m torch.distributed.run --standalone --nproc-per-node {ranks} /root/train.py
"""


@contextmanager
def live(userland: str = "") -> Iterator[gputrain_emulator.Cloud]:
    with gputrain_emulator.start(wall_clock=True, live=True, userland=userland) as cloud:
        cloud.add_bucket("my-bucket")
        quick = cloud.compute.settings
        quick.provision_s = quick.staging_s = quick.delete_s = quick.quick_s = 0.1
        for metric in ("NVIDIA_L4_GPUS", "PREEMPTIBLE_NVIDIA_L4_GPUS", "GPUS_ALL_REGIONS"):
            cloud.quota(metric, 100)
        yield cloud


def submit(cloud: gputrain_emulator.Cloud, text: str, **fields: object) -> Job:
    reach = {"endpoints": cloud.endpoints, "credentials": cloud.credentials, "poll_s": 0.1}
    backend = ComputeEngine("my-project", regions=["us-central1"], bucket="gs://my-bucket", **reach)
    with tempfile.TemporaryDirectory() as folder:
        script = Path(folder) / "train.py"
        script.write_text(text)
        return Trainer(backend).submit(str(script), gpu=f"L4:{RANKS}", max_run_duration="1h", **fields)


def first_lines(job: Job) -> list[float]:
    said = [line.message for line in job.logs(follow=True)]
    return [float(line.split()[-1]) for line in said if line.startswith("first line at")]


def booted_at(cloud: gputrain_emulator.Cloud, name: str) -> float:
    (row,) = cloud.ledger.events("start", f"/instances/{name}")
    return row.time


def ours(cloud: gputrain_emulator.Cloud) -> float:
    """Seconds from the boot of a VM of a job to the first line of its script."""
    job = submit(cloud, FIRST)
    return min(first_lines(job)) - booted_at(cloud, job.machines[0])


def by_hand(cloud: gputrain_emulator.Cloud, python: str = "python3") -> float:
    """The same on the same machine, where the startup script holds the file and runs torchrun."""
    from google.cloud import compute_v1

    options = {"credentials": cloud.credentials, "client_options": cloud.client_options}
    name = f"hand-{uuid.uuid4().hex[:8]}"
    image = "projects/debian-cloud/global/images/family/debian-12"
    disk = compute_v1.AttachedDiskInitializeParams(source_image=image)
    text = BY_HAND.format(script=FIRST, ranks=RANKS, python=python)
    resource = compute_v1.Instance(
        name=name,
        machine_type=f"zones/{ZONE}/machineTypes/g2-standard-24",
        scheduling=compute_v1.Scheduling(on_host_maintenance="TERMINATE"),
        disks=[compute_v1.AttachedDisk(boot=True, auto_delete=True, initialize_params=disk)],
        network_interfaces=[compute_v1.NetworkInterface(network="global/networks/default")],
        metadata=compute_v1.Metadata(items=[compute_v1.Items(key="startup-script", value=text)]),
    )
    instances = compute_v1.InstancesClient(**options)
    instances.insert_unary(project="my-project", zone=ZONE, instance_resource=resource, retry=None)
    asked = {"project": "my-project", "zone": ZONE, "instance": name}
    while True:
        time.sleep(0.1)
        said = instances.get_serial_port_output(**asked, retry=None).contents
        if found := re.findall(r"first line at (\d+\.\d+)", said):
            instances.delete_unary(**asked, retry=None)
            return min(map(float, found)) - booted_at(cloud, name)
        if "Finished running startup scripts" in said:
            raise RuntimeError(f"torchrun by hand: {' | '.join(said.splitlines()[-12:])}")


def notice() -> float:
    """Seconds from Google's notice that a Spot VM goes to SIGTERM at the last rank of all."""
    with live() as cloud:
        job = submit(cloud, NOTICED, num_nodes=2, provisioning_model="spot")
        ready = 0
        for line in job.logs(follow=True):
            ready += line.message == "ready"
            if ready == 2 * RANKS:
                break
        cloud.preempt(job.machines[1])
        (row,) = cloud.ledger.events("preempt")
        told = first_lines(job)
        assert len(told) == 2 * RANKS
        return max(told) - row.time


def seen_late(threads: int = 10) -> float:
    """Seconds between the end of an operation and its being seen, the worst of as many as may run at once."""
    import threading

    from gputrain.backends.compute.calls import Calls
    from gputrain.google import GoogleClient

    with gputrain_emulator.start(wall_clock=True) as cloud:
        cloud.compute.settings.provision_s = cloud.compute.settings.staging_s = 1.0
        access = GoogleClient(project="my-project", credentials=cloud.credentials, endpoints=cloud.endpoints)
        calls, late = Calls(access=access), []

        def one(number: int) -> None:
            body = {"count": "1", "perInstanceProperties": {f"late-{number}": {}}}
            disk = {"sourceImage": "projects/debian-cloud/global/images/family/debian-12"}
            body["instanceProperties"] = {
                "machineType": "e2-standard-4",
                "disks": [{"boot": True, "autoDelete": True, "initializeParams": disk}],
                "networkInterfaces": [{"network": "global/networks/default"}],
            }
            operation = calls.start(ZONE, "bulkInsert", body, str(uuid.uuid4()))
            ended = calls.end_of(ZONE, operation)
            documents = [one.document for one in cloud.compute.operations.values()]
            (truth,) = [one for one in documents if one["name"] == ended["name"]]
            late.append(cloud.clock.now() - parse_time(truth["endTime"]))

        waiting = [threading.Thread(target=one, args=(number,)) for number in range(threads)]
        for thread in waiting:
            thread.start()
            time.sleep(0.05)  # so that they end between two looks, and not with one
        for thread in waiting:
            thread.join()
        assert not [one for one in cloud.requests if one.method.endswith("Operations.wait")]
        return max(late)


def to_first_line(userland: str, python: str) -> Measure:
    """The road of ours against torchrun by hand, on machines that stand in or boot."""
    with live(userland) as cloud:
        sides = {"ours": lambda: ours(cloud), "hand": lambda: by_hand(cloud, python)}
        took = alternated(
            sides, rounds=ROUNDS, least=2, until=lambda took: took.ratio(*sides).is_clear_of(1.3)
        )
    where = ", in a userland" if userland else ""
    what = f"VM boot to the script's first line, to torchrun in the startup script{where}"
    return took.ratio("ours", "hand").measure(what, target=1.3, note=took.note)


def measure() -> Iterator[Measure]:
    """Yield the figures; those of a userland where this machine has one."""
    yield to_first_line("", "python3")
    if why_no_userland(USERLAND) is None:
        yield to_first_line(USERLAND, "/opt/conda/bin/python3")
    noticed = Spread.of_times([notice() for _ in range(2)])
    yield noticed.measure("preemption notice to SIGTERM at the ranks", target=1.0, unit="s")
    late = Spread.of_times([seen_late() for _ in range(4)])
    yield late.measure("an operation's end to its being seen", target=1.0, unit="s")
