"""Disks, resource policies and reservations."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any

from gputrain_emulator.call import Call
from gputrain_emulator.compute import checks, disk_quota, documents, images, operations, refusals, rules
from gputrain_emulator.compute.links import fingerprint, last, link
from gputrain_emulator.compute.operations import Operation, mutation
from gputrain_emulator.compute.rules import DISK_TYPES, MAX_GB
from gputrain_emulator.compute.service import COMPUTE
from gputrain_emulator.compute.state import Compute
from gputrain_emulator.errors import ApiError

Json = dict[str, Any]


def _free_gigabytes(call: Call, disk: Json) -> None:
    call.world.part(Compute).quotas.release(disk_quota.of_disk(disk))


documents.register("disks", "disk", "disk", at_delete=_free_gigabytes)
documents.register("resourcePolicies", "resourcePolicy", "resource_policy")


def _free_capacity(call: Call, reservation: Json) -> None:
    specific = reservation["specificReservation"]
    key = (call.params["zone"], specific["instanceProperties"]["machineType"])
    stock = call.world.part(Compute).stock
    if key in stock:
        stock[key] += int(specific["count"]) - int(specific["inUseCount"])


documents.register("reservations", "reservation", "reservation", at_delete=_free_capacity)


@mutation("compute.disks.insert", permission="compute.disks.create")
def insert_disk(call: Call) -> Operation:
    """A disk, empty or from an image."""
    compute, scope = call.world.part(Compute), operations.scope_of(call)
    kind = last(call.body.get("type", "")) or "pd-standard"
    if kind not in DISK_TYPES or kind == "local-ssd":
        raise refusals.not_found(f"{scope}/diskTypes/{kind}")
    labels = call.body.get("labels", {})
    checks.labels(labels, "resource.labels")
    image = None
    if call.body.get("sourceImage"):
        image = images.image(compute, call.body["sourceImage"], call.owner.id)
    smallest = int(image["diskSizeGb"]) if image else 1
    size = int(call.body.get("sizeGb") or (smallest if image else 500))
    if not smallest <= size <= MAX_GB:
        sentence = f"Disk size must be between {smallest} GB and {MAX_GB} GB."
        raise refusals.invalid("resource.sizeGb", size, sentence)
    made = document(f"{scope}/diskTypes/{kind}", str(size), image, labels)
    needs = disk_quota.of_disk({**made, "selfLink": link(f"{scope}/disks/new")})
    exceeded = compute.quotas.exceeded(needs)
    if exceeded is not None:
        raise refusals.quota_now(exceeded)
    operation = documents.create(call, "disks", "disk", **made)
    compute.quotas.take(needs)
    return operation


def document(kind: str, size_gb: str, image: Json | None, labels: Mapping[str, str] | None = None) -> Json:
    """What every disk shows, its names aside."""
    made = {
        "status": "READY",
        "sizeGb": size_gb,
        "type": link(kind),
        "physicalBlockSizeBytes": "4096",
        "labelFingerprint": fingerprint(labels or {}),
    }
    if image is None:
        return made
    source = {"sourceImage": image["selfLink"], "sourceImageId": image["id"]}
    return {**made, **source, "architecture": image["architecture"]}


_RESERVED = "resource.specificReservation.instanceProperties"
MOST_RESERVED = 1000
"""VMs of one reservation (docs.cloud.google.com/compute/docs/instances, reservations, read 2026-11-22)."""

_POLICIES = ("groupPlacementPolicy", "workloadPolicy")
MOST_PLACED = 1500
"""VMs of one compact placement policy (docs.cloud.google.com/compute/docs/instances, placement policies,
read 2026-11-22)."""


@mutation("compute.resourcePolicies.insert", permission="compute.resourcePolicies.create")
def insert_policy(call: Call) -> Operation:
    """A placement policy; other kinds are not carried out."""
    given = [name for name in call.body if name.endswith("Policy")]
    if len(given) != 1:
        raise refusals.invalid("resource", "", "Exactly one kind of policy must be specified.")
    if given[0] not in _POLICIES:
        raise ApiError.unimplemented(f"compute.resourcePolicies.insert of a {given[0]}")
    count = int(call.body[given[0]].get("vmCount", 1))
    if not 1 <= count <= MOST_PLACED:
        sentence = f"Must be between 1 and {MOST_PLACED}."
        raise refusals.invalid(f"resource.{given[0]}.vmCount", count, sentence)
    return documents.create(call, "resourcePolicies", "resourcePolicy", status="READY")


@mutation("compute.reservations.insert", permission="compute.reservations.create")
def insert_reservation(call: Call) -> Operation:
    """A reservation of VMs of one machine type; it takes their capacity at once."""
    specific = call.body.get("specificReservation", {})
    count = int(specific.get("count", 0))
    properties = specific.get("instanceProperties", {})
    machine = properties.get("machineType", "")
    if not 1 <= count <= MOST_RESERVED:
        sentence = f"Must be between 1 and {MOST_RESERVED}."
        raise refusals.invalid("resource.specificReservation.count", count, sentence)
    rules.platform(properties.get("minCpuPlatform", ""), f"{_RESERVED}.minCpuPlatform")
    if "/" in machine:
        raise refusals.invalid(f"{_RESERVED}.machineType", machine, "Must be the name of a machine type.")
    zone = call.params["zone"]
    compute = call.world.part(Compute)
    checks.machine_type(compute, machine, zone, _RESERVED, bare=True)
    free = compute.free(zone, machine)
    if free is not None and free < count:
        raise refusals.insufficient_capacity()
    if free is not None:
        compute.stock[(zone, machine)] = free - count
    counted = {**specific, "count": str(count), "assuredCount": str(count), "inUseCount": "0"}
    more = {"specificReservationRequired": False, "shareSettings": {"shareType": "LOCAL"}, **call.body}
    more |= {"status": "READY", "specificReservation": counted}
    return documents.create(call, "reservations", "reservation", **more)


@COMPUTE.method("compute.diskTypes.list", pool="compute.reads")
def list_disk_types(call: Call) -> Json:
    """The disk types of a zone."""
    scope = operations.scope_of(call)
    items = [{"kind": "compute#diskType", "name": n, "zone": link(scope), "selfLink": link(f"{scope}/diskTypes/{n}")} for n in DISK_TYPES]  # fmt: skip  # noqa: E501
    return {"kind": "compute#diskTypeList", "id": f"{scope}/diskTypes", "items": items}
