"""Good requests with one value swapped for another: refused or carried out, and never a fault of our own."""

# ruff: noqa: E501 - one row a line

from __future__ import annotations

import copy
import json
from collections.abc import Iterator
from typing import Any

import pytest

import gputrain_emulator
from emulator.tests.test_strict_requests import BOOT, COMPUTE, JOBS, REGION, SCOPE, TEMPLATE, ZONE, vm
from gputrain_emulator import Cloud
from gputrain_emulator.exchanges import Request

VALUES: tuple[Any, ...] = (
    None, True, 0, -1, 1.5, 2**63, 10**30, "", "²", "a b", "a" * 2000, "é", "\0", "9" * 5000, "-1", "BANANA", "../..",
    [], {}, [None], [{}], 1e308,
)  # fmt: skip
DATA = {
    "autoDelete": True,
    "initializeParams": {"diskSizeGb": "20", "diskType": "zones/us-central1-a/diskTypes/pd-ssd"},
}
FULL = {
    "disks": [BOOT, DATA],
    "networkInterfaces": [
        {"network": "global/networks/default", "accessConfigs": [{"type": "ONE_TO_ONE_NAT"}]}
    ],
    "labels": {"a": "b"},
    "tags": {"items": ["t"]},
    "metadata": {"items": [{"key": "k", "value": "v"}]},
    "scheduling": {
        "provisioningModel": "SPOT",
        "instanceTerminationAction": "DELETE",
        "maxRunDuration": {"seconds": "3600"},
    },
    "serviceAccounts": [{"email": "default", "scopes": [SCOPE]}],
    "reservationAffinity": {"consumeReservationType": "NO_RESERVATION"},
    "minCpuPlatform": "Intel Skylake",
}
POOL = {
    "machineSpec": {
        "machineType": "n1-standard-8",
        "acceleratorType": "NVIDIA_TESLA_T4",
        "acceleratorCount": 1,
    },
    "replicaCount": "1",
    "diskSpec": {"bootDiskType": "pd-ssd", "bootDiskSizeGb": 100},
    "containerSpec": {"imageUri": "gcr.io/p/i:1", "command": ["a"], "env": [{"name": "A", "value": "b"}]},
}
SCHEDULING = {"timeout": "3600s", "strategy": "SPOT", "disableRetries": True}
BUCKET = {
    "name": "bucket-9",
    "labels": {"a": "b"},
    "versioning": {"enabled": True},
    "lifecycle": {"rule": [{"action": {"type": "Delete"}, "condition": {"age": 3}}]},
    "iamConfiguration": {"uniformBucketLevelAccess": {"enabled": True}, "publicAccessPrevention": "enforced"},
    "softDeletePolicy": {"retentionDurationSeconds": "604800"},
    "retentionPolicy": {"retentionPeriod": "10"},
}
QUOTA = {
    "service": "compute.googleapis.com",
    "quotaId": "CPUS-per-project-region",
    "quotaConfig": {"preferredValue": "5000"},
    "dimensions": {"region": "us-central1"},
    "contactEmail": "a@b.ca",
}
CASES: dict[str, tuple[str, str, Any]] = {
    "instance": ("POST", f"{ZONE}/instances", vm(**FULL)),
    "gang": ("POST", f"{ZONE}/instances/bulkInsert", {"count": "2", "minCount": "1", "namePattern": "g-##", "instanceProperties": {**FULL, "machineType": "n1-standard-4"}}),
    "gang of a region": ("POST", f"{REGION}/instances/bulkInsert", {"count": "1", "perInstanceProperties": {"q-1": {"name": "q-1"}}, "instanceProperties": {**FULL, "machineType": "n1-standard-4"}, "locationPolicy": {"locations": {"zones/us-central1-a": {"preference": "ALLOW"}}, "targetShape": "ANY_SINGLE_ZONE"}}),
    "disk": ("POST", f"{ZONE}/disks", {"name": "d", "sizeGb": "10", "type": "zones/us-central1-a/diskTypes/pd-ssd", "labels": {"a": "b"}}),
    "template": ("POST", f"{COMPUTE}/global/instanceTemplates", {"name": "t-2", "properties": {**FULL, "machineType": "n1-standard-4"}}),
    "group": ("POST", f"{ZONE}/instanceGroupManagers", {"name": "g-2", "baseInstanceName": "g", "targetSize": 0, "instanceTemplate": "global/instanceTemplates/t"}),
    "resize request": ("POST", f"{ZONE}/instanceGroupManagers/g/resizeRequests", {"name": "r", "resizeBy": 1, "requestedRunDuration": {"seconds": "3600"}}),
    "policy": ("POST", f"{REGION}/resourcePolicies", {"name": "p", "groupPlacementPolicy": {"collocation": "COLLOCATED", "vmCount": 2}}),
    "reservation": ("POST", f"{ZONE}/reservations", {"name": "r", "specificReservation": {"count": "2", "instanceProperties": {"machineType": "n1-standard-4", "minCpuPlatform": "Intel Skylake"}}}),
    "advice": ("POST", f"{REGION}/advice/capacity", {"distributionPolicy": {"zones": [{"zone": "zones/us-central1-a"}]}, "instanceProperties": {"scheduling": {"provisioningModel": "SPOT"}}, "instanceFlexibilityPolicy": {"instanceSelections": {"a": {"machineTypes": ["n1-standard-4"]}}}, "size": 1}),
    "job": ("POST", JOBS, {"displayName": "j", "labels": {"a": "b"}, "jobSpec": {"workerPoolSpecs": [POOL], "scheduling": SCHEDULING, "baseOutputDirectory": {"outputUriPrefix": "gs://bucket-1/x"}}}),
    "log entries": ("POST", "/v2/entries:write", {"logName": "projects/my-project/logs/l", "resource": {"type": "global", "labels": {}}, "entries": [{"textPayload": "x", "severity": "INFO", "timestamp": "2026-11-20T12:00:00Z", "insertId": "a"}]}),
    "log query": ("POST", "/v2/entries:list", {"resourceNames": ["projects/my-project"], "filter": "severity>=INFO", "orderBy": "timestamp desc", "pageSize": 5}),
    "quota": ("POST", "/v1/projects/my-project/locations/global/quotaPreferences?quotaPreferenceId=q", QUOTA),
    "bucket": ("POST", "/storage/v1/b?project=my-project", BUCKET),
    "changed bucket": ("PATCH", "/storage/v1/b/bucket-1", {key: value for key, value in BUCKET.items() if key != "name"}),
    "changed object": ("PATCH", "/storage/v1/b/bucket-1/o/a", {"contentType": "x/y", "metadata": {"a": "b"}, "customTime": "2027-11-22T00:00:00Z", "temporaryHold": False}),
    "composed object": ("POST", "/storage/v1/b/bucket-1/o/c/compose", {"sourceObjects": [{"name": "a", "objectPreconditions": {}}], "destination": {"contentType": "text/x"}}),
    "services": ("POST", "/v1/projects/my-project/services:batchEnable", {"serviceIds": ["compute.googleapis.com"]}),
    "permissions": ("POST", "/v1/projects/my-project:testIamPermissions", {"permissions": ["compute.instances.create"]}),
}  # fmt: skip


@pytest.fixture
def world() -> Iterator[Cloud]:
    """A cloud with one of each thing that a request may name; what is odd in it is judged by nobody."""
    with gputrain_emulator.start(rate_limits=False) as cloud:
        cloud.add_bucket("bucket-1")
        assert ask(cloud, "POST", "/upload/storage/v1/b/bucket-1/o?uploadType=media&name=a", "x") == 200
        assert (
            ask(cloud, "POST", f"{COMPUTE}/global/instanceTemplates", {"name": "t", "properties": TEMPLATE})
            == 200
        )
        group = {"name": "g", "baseInstanceName": "g", "instanceTemplate": "global/instanceTemplates/t"}
        assert ask(cloud, "POST", f"{ZONE}/instanceGroupManagers", group) == 200
        yield cloud
        assert cloud.dispatcher.failures == []


def ask(cloud: Cloud, verb: str, target: str, body: Any) -> int:
    reply = cloud.dispatcher.handle(Request(verb=verb, target=target, body=json.dumps(body).encode())).reply
    if isinstance(reply.body, bytes) and reply.body:
        json.loads(reply.body, parse_constant=lambda text: pytest.fail(f"{text} on the wire"))
    return reply.status


def places(document: Any, at: tuple[Any, ...] = ()) -> Iterator[tuple[Any, ...]]:
    yield at
    inner = (
        document.items()
        if isinstance(document, dict)
        else enumerate(document)
        if isinstance(document, list)
        else ()
    )
    for key, value in inner:
        yield from places(value, (*at, key))


def swapped(document: Any, at: tuple[Any, ...], value: Any) -> Any:
    if not at:
        return value
    changed = copy.deepcopy(document)
    below = changed
    for key in at[:-1]:
        below = below[key]
    below[at[-1]] = value
    return changed


@pytest.mark.parametrize("what", CASES)
def test_one_odd_value_makes_it_stumble_nowhere(world: Cloud, what: str) -> None:
    verb, target, good = CASES[what]
    for at in places(good):
        for value in VALUES:
            status = ask(world, verb, target, swapped(good, at, value))
            # 503 is how bulkInsert answers a machine type that is an address
            assert status in (200, 400, 403, 404, 409, 412, 501) or (status == 503 and "gang" in what), (
                at,
                value,
            )
    world.clock.advance(7200)
    assert ask(world, verb, target, good) in (200, 403, 409)
