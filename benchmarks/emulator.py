"""How fast the emulator is, held against what a test suite needs of it.

Start, single requests over one kept-alive connection, sixteen threads, big lists, memory.
"""

from __future__ import annotations

import http.client
import json
import resource
import statistics
import time
from collections.abc import Iterator
from concurrent.futures import ThreadPoolExecutor
from typing import Any

from measure import Measure, python_s

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


def median_ms(connection: Connection, calls: list[tuple[str, str, Any]]) -> float:
    """Median time of a call; every call must succeed."""
    times = []
    for call in calls:
        before = time.perf_counter()
        status, text = connection.ask(*call)
        times.append(1000 * (time.perf_counter() - before))
        if status != 200:
            raise RuntimeError(f"{call[0]} {call[1]}: {status} {text[:300]!r}")
    return statistics.median(times)


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


def processor_s(program: str) -> float:
    """Seconds of the processor that a process takes, the least of six: load has no part in it."""
    times = []
    for _ in range(6):
        before = resource.getrusage(resource.RUSAGE_CHILDREN)
        python_s(program)
        after = resource.getrusage(resource.RUSAGE_CHILDREN)
        times.append(after.ru_utime + after.ru_stime - before.ru_utime - before.ru_stime)
    return min(times)


Row = tuple[str, float, float, str]


def measure() -> Iterator[Measure]:
    """Each figure beside its limit."""
    rows, per_second = figures()
    for what, value, target, unit in rows:
        note = f"{per_second:.0f} requests a second" if "threads" in what else ""
        yield Measure(what=what, value=value, target=target, unit=unit, note=note)


def figures() -> tuple[list[Row], float]:
    """Figure, limit and unit of everything; and requests a second of the crowd."""
    import gputrain_emulator

    cold = min(python_s(START) for _ in range(6))
    rows: list[Row] = [("a process from nothing over its first reply to its end", cold, 1.0, "s")]
    rows.append(
        (
            "the processor's time of it, in times of `python -c pass`",
            processor_s(START) / processor_s("pass"),
            12,
            "",
        )
    )
    cloud = gputrain_emulator.start(rate_limits=False)
    port = cloud.server.server_address[1]
    connection = Connection(port)
    before_kib = resource.getrusage(resource.RUSAGE_SELF).ru_maxrss
    median_ms(connection, [("GET", AGGREGATED, None)])
    rows.append(
        (
            "page of the aggregated machine types",
            median_ms(connection, [("GET", AGGREGATED, None)] * 50),
            5,
            "ms",
        )
    )
    median_ms(connection, [("GET", f"{ZONE}/machineTypes", None)] * 20_000)
    grown = (resource.getrusage(resource.RUSAGE_SELF).ru_maxrss - before_kib) / 1024
    rows.append(("memory that 20,000 requests add", grown, 64, "MB"))
    for metric in (
        "CPUS",
        "CPUS_ALL_REGIONS",
        "INSTANCES",
        "aiplatform.googleapis.com/custom_model_training_cpus",
    ):
        cloud.quota(metric, 1e9)
    inserts = [("POST", f"{ZONE}/instances", vm(f"b-{n}")) for n in range(1000)]
    rows.append(("insert, median", median_ms(connection, inserts), 1.5, "ms"))
    gets = [("GET", f"{ZONE}/instances/b-{n}", None) for n in range(1000)]
    rows.append(("get, median", median_ms(connection, gets), 1.0, "ms"))
    median_ms(connection, [("POST", JOBS, job(f"j-{n}")) for n in range(1000)])
    cloud.clock.advance(60)
    page = [("GET", f"{ZONE}/instances", None)] * 9
    rows.append(("page of 500 of 1,000 VMs", median_ms(connection, page), 50, "ms"))
    page = [("GET", f"{JOBS}?pageSize=100", None)] * 9
    rows.append(("page of 100 of 1,000 jobs", median_ms(connection, page), 50, "ms"))
    errors, per_second = crowd(port, 16, 625)
    rows.append(("errors in 10,000 mixed requests, 16 threads", errors, 0, ""))
    resident_mb = resource.getrusage(resource.RUSAGE_SELF).ru_maxrss / 1024
    rows.append(("resident memory at its peak", resident_mb, 350, "MB"))
    cloud.close()
    return rows, per_second
