"""Whatever happens, in whatever order: quota, stock, disks, meters and ledger agree with what exists."""

from __future__ import annotations

import json
from collections import Counter
from collections.abc import Iterator
from typing import Any

import pytest
from hypothesis import example, given, settings, strategies as st

import gputrain_emulator
from emulator.tests.compute import ZONE, P
from gputrain_emulator import Cloud
from gputrain_emulator.compute import lifecycle
from gputrain_emulator.exchanges import Request
from gputrain_emulator.quotas import Key

MACHINE = "a2-highgpu-2g"
STOCK, LIMIT = 3, 8
URL = f"/compute/v1/projects/{P}/zones/{ZONE}"
DISK = {"boot": True, "autoDelete": True, "initializeParams": {"sourceImage": "projects/debian-cloud/global/images/family/debian-12"}}  # fmt: skip  # noqa: E501
NAMES = st.sampled_from(["a", "b", "c"])
ENDINGS = ("preempt", "host_error", "maintain", "guest_terminated", "expire")
STEPS = st.one_of(
    st.tuples(st.just("insert"), NAMES, st.sampled_from(["DELETE", "STOP"])),
    st.tuples(st.just("bulk"), st.sets(NAMES, min_size=1), st.sampled_from(["DELETE", "STOP"])),
    st.tuples(st.sampled_from(["delete", "stop", "start"]), NAMES),
    st.tuples(st.sampled_from(ENDINGS), NAMES),
    st.tuples(st.just("advance"), st.integers(1, 90)),
)


@pytest.fixture(scope="module")
def cloud() -> Iterator[Cloud]:
    """One cloud; each example clears it first."""
    with gputrain_emulator.start(rate_limits=False) as running:
        yield running


def properties(action: str) -> dict[str, Any]:
    return {
        "disks": [DISK],
        "networkInterfaces": [{}],
        "scheduling": {
            "provisioningModel": "SPOT",
            "onHostMaintenance": "TERMINATE",
            "instanceTerminationAction": action,
            "maxRunDuration": {"seconds": "300"},
        },
    }


def ask(cloud: Cloud, verb: str, path: str, body: Any = None) -> int:
    data = json.dumps(body or {}).encode()
    return cloud.dispatcher.handle(Request(verb=verb, target=URL + path, headers={}, body=data)).reply.status


def take(cloud: Cloud, step: tuple[Any, ...]) -> None:
    kind, subject = step[0], step[1]
    if kind == "advance":
        cloud.clock.advance(subject)
    elif kind == "insert":
        machine = f"zones/{ZONE}/machineTypes/{MACHINE}"
        ask(cloud, "POST", "/instances", {**properties(step[2]), "name": subject, "machineType": machine})
    elif kind == "bulk":
        wanted = {**properties(step[2]), "machineType": MACHINE}
        body = {"count": len(subject), "perInstanceProperties": {name: {} for name in subject}}
        ask(cloud, "POST", "/instances/bulkInsert", {**body, "instanceProperties": wanted})
    elif kind == "delete":
        ask(cloud, "DELETE", f"/instances/{subject}")
    elif kind in ("stop", "start"):
        ask(cloud, "POST", f"/instances/{subject}/{kind}")
    else:
        vm = cloud.compute.vms.get((P, ZONE, subject))
        if vm is not None:
            with cloud.world.lock:
                getattr(lifecycle, kind)(cloud.compute, vm)


def clear(cloud: Cloud) -> None:
    cloud.clock.advance(600)
    for _, _, name in list(cloud.compute.vms):
        ask(cloud, "DELETE", f"/instances/{name}")
    cloud.clock.advance(600)
    cloud.stock(ZONE, MACHINE, STOCK)
    cloud.quota("PREEMPTIBLE_NVIDIA_A100_GPUS", LIMIT, region="us-central1")


def check(cloud: Cloud) -> None:
    compute = cloud.compute
    alive = list(compute.vms.values())
    holding = [vm for vm in alive if vm.holds_quota]
    for metric, region in (("PREEMPTIBLE_NVIDIA_A100_GPUS", "us-central1"), ("GPUS_ALL_REGIONS", "global")):
        assert compute.quotas.usage(Key(project=P, metric=metric, region=region)) == 2 * len(holding)
    assert 2 * len(holding) <= LIMIT
    free = compute.free(ZONE, MACHINE)
    assert free is not None
    assert 0 <= free <= STOCK - sum(vm.holds_stock for vm in alive)
    running = {vm.path for vm in alive if vm.status == "RUNNING"}
    assert running <= {vm.path for vm in holding}
    billed = {meter.resource for meter in cloud.ledger.meters if meter.until is None}
    assert running <= billed <= {vm.path for vm in alive if vm.status in ("RUNNING", "STOPPING")}
    assert len(compute.resources["disks"]) == len(alive)
    counts = Counter(
        (row.event, row.resource) for row in cloud.ledger if row.event in ("create", "delete", "fail")
    )
    for vm in {*(row.resource for row in cloud.ledger if "/instances/" in row.resource)}:
        ended = counts["delete", vm] + counts["fail", vm]
        assert counts["create", vm] - ended == (vm in {known.path for known in alive})


@settings(max_examples=40)
@given(steps=st.lists(STEPS, max_size=14))
@example(steps=[("insert", "a", "DELETE"), ("expire", "a"), ("maintain", "a")])
@example(steps=[("insert", "a", "DELETE"), ("advance", 20), ("host_error", "a")])
def test_the_books_agree_with_the_world(cloud: Cloud, steps: list[tuple[Any, ...]]) -> None:
    clear(cloud)
    for step in steps:
        take(cloud, step)
        check(cloud)
    clear(cloud)
    check(cloud)
    assert cloud.compute.vms == {}
    unfinished = [o.document["operationType"] for o in cloud.compute.operations.values() if not o.done]
    assert unfinished == []
