"""How fast the emulator is, held against what a test suite needs of it.

Start, single requests over one kept-alive connection, sixteen threads, big lists, memory.
"""

from __future__ import annotations

import http.client
import json
import time
from collections.abc import Iterator
from concurrent.futures import ThreadPoolExecutor
from typing import TYPE_CHECKING, Any

from measure import Measure, Spread, alternated, peak_mib, python

if TYPE_CHECKING:
    import gputrain_emulator

START = """
import http.client
import gputrain_emulator
with gputrain_emulator.start() as cloud:
    wire = http.client.HTTPConnection("127.0.0.1", cloud.server.server_address[1])
    wire.request("GET", "/compute/v1/projects/my-project/zones/us-central1-a")
    assert wire.getresponse().status == 200
"""

ZONE = "/compute/v1/projects/my-project/zones/us-central1-a"
DISK = {
    "boot": True,
    "autoDelete": True,
    "initializeParams": {"sourceImage": "projects/debian-cloud/global/images/family/debian-12"},
}
AGGREGATED = "/compute/v1/projects/my-project/aggregated/machineTypes"
JOBS = "/v1/projects/my-project/locations/us-central1/customJobs"
POOL = {
    "machineSpec": {"machineType": "n1-standard-4"},
    "replicaCount": "1",
    "containerSpec": {"imageUri": "gcr.io/p/i:1"},
}


class Connection:
    """One kept-alive connection that speaks JSON."""

    def __init__(self, port: int) -> None:
        self._http = http.client.HTTPConnection("127.0.0.1", port, timeout=60)
        self._http.connect()

    def ask(self, verb: str, path: str, body: Any = None) -> tuple[int, bytes]:
        data = None if body is None else json.dumps(body).encode()
        self._http.request(verb, path, body=data, headers={"Content-Type": "application/json"})
        reply = self._http.getresponse()
        return reply.status, reply.read()


def vm(name: str) -> dict[str, Any]:
    machine = "zones/us-central1-a/machineTypes/e2-standard-2"
    return {
        "name": name,
        "machineType": machine,
        "disks": [DISK],
        "networkInterfaces": [{}],
        "labels": {"run": "bench"},
    }


def job(name: str) -> dict[str, Any]:
    return {"displayName": name, "jobSpec": {"workerPoolSpecs": [POOL]}, "labels": {"run": "bench"}}


def times_of(connection: Connection, calls: list[tuple[str, str, Any]]) -> Spread:
    """Milliseconds of a call; every call must succeed."""
    times = []
    for call in calls:
        before = time.perf_counter()
        status, text = connection.ask(*call)
        times.append(time.perf_counter() - before)
        if status != 200:
            raise RuntimeError(f"{call[0]} {call[1]}: {status} {text[:300]!r}")
    return Spread.of_times(times, per=1e-3)


def crowd(port: int, threads: int, each: int) -> tuple[int, float]:
    """Errors, and requests a second, of mixed requests from many threads."""

    def work(thread: int) -> int:
        connection, errors = Connection(port), 0
        for number in range(each // 5):
            name = f"c-{thread}-{number}"
            calls = [("POST", f"{ZONE}/instances", vm(name)), ("GET", f"{ZONE}/instances/{name}", None)]
            calls += [("GET", f"{ZONE}/instances?maxResults=10&filter=name%20%3D%20{name}", None)]
            calls += [("GET", ZONE, None), ("DELETE", f"{ZONE}/instances/{name}", None)]
            errors += sum(connection.ask(*call)[0] != 200 for call in calls)
        return errors

    before = time.perf_counter()
    with ThreadPoolExecutor(threads) as pool:
        errors = sum(pool.map(work, range(threads)))
    return errors, threads * (each // 5) * 5 / (time.perf_counter() - before)


def measure() -> Iterator[Measure]:
    """Whole processes first, then one that serves."""
    yield from cold()
    import gputrain_emulator

    with gputrain_emulator.start(rate_limits=False) as cloud:
        yield from serving(cloud)


def cold() -> Iterator[Measure]:
    """From nothing over the first reply to the end, imports and all."""
    costs = [python(START) for _ in range(6)]
    what = "a process from nothing over its first reply to its end"
    yield Spread.of_times([one.wall_s for one in costs]).measure(what, target=1.0, unit="s")
    sides = {"whole": lambda: python(START).processor_s, "pass": lambda: python("pass").processor_s}
    took = alternated(sides, rounds=11)
    what = "the processor's time of it, in times of `python -c pass`"
    yield took.ratio("whole", "pass").measure(what, target=12, note=took.note)


def serving(cloud: gputrain_emulator.Cloud) -> Iterator[Measure]:
    """Single requests over one connection, and many at once; everything here is in this one process."""
    port = cloud.server.server_address[1]
    connection = Connection(port)
    before_mib = peak_mib()
    times_of(connection, [("GET", AGGREGATED, None)])
    page = times_of(connection, [("GET", AGGREGATED, None)] * 50)
    yield page.measure("page of the aggregated machine types", target=5, unit="ms")
    times_of(connection, [("GET", f"{ZONE}/machineTypes", None)] * 20_000)
    grown = peak_mib() - before_mib
    yield Measure(what="memory that 20,000 requests add", value=grown, target=64, unit="MiB")
    everywhere = "aiplatform.googleapis.com/custom_model_training_cpus"
    for metric in ("CPUS", "CPUS_ALL_REGIONS", "INSTANCES", everywhere):
        cloud.quota(metric, 1e9)
    inserts = [("POST", f"{ZONE}/instances", vm(f"b-{n}")) for n in range(1000)]
    yield times_of(connection, inserts).measure("insert", target=1.5, unit="ms")
    gets = [("GET", f"{ZONE}/instances/b-{n}", None) for n in range(1000)]
    yield times_of(connection, gets).measure("get", target=1.0, unit="ms")
    times_of(connection, [("POST", JOBS, job(f"j-{n}")) for n in range(1000)])
    cloud.clock.advance(60)
    vms = times_of(connection, [("GET", f"{ZONE}/instances", None)] * 9)
    yield vms.measure("page of 500 of 1,000 VMs", target=50, unit="ms")
    jobs = times_of(connection, [("GET", f"{JOBS}?pageSize=100", None)] * 9)
    yield jobs.measure("page of 100 of 1,000 jobs", target=50, unit="ms")
    errors, per_second = crowd(port, 16, 625)
    note, what = f"{per_second:.0f} requests a second", "errors in 10,000 mixed requests, 16 threads"
    yield Measure(what=what, value=errors, target=0, unit="", note=note)
    yield Measure(what="resident memory at its peak", value=peak_mib(), target=350, unit="MiB")
