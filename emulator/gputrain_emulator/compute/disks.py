"""Disks, resource policies and reservations."""

from __future__ import annotations

from typing import Any

from gputrain_emulator.call import Call
from gputrain_emulator.compute import checks, disk_quota, documents, images, operations, refusals
from gputrain_emulator.compute.links import last, link
from gputrain_emulator.compute.operations import Operation, mutation
from gputrain_emulator.compute.service import COMPUTE
from gputrain_emulator.compute.state import Compute

Json = dict[str, Any]

DISK_TYPES = ("hyperdisk-balanced", "pd-balanced", "pd-ssd", "pd-standard")
MAX_GB = 65_536
"""64 TiB, the largest disk (docs.cloud.google.com/compute/docs/disks, read 2026-11-20)."""


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
    if kind not in DISK_TYPES:
        raise refusals.not_found(f"{scope}/diskTypes/{kind}")
    source, smallest = {}, 1
    if call.body.get("sourceImage"):
        image = images.image(compute, call.body["sourceImage"], call.owner.id)
        source = {"sourceImage": image["selfLink"], "sourceImageId": image["id"]}
        smallest = int(image["diskSizeGb"])
    size = int(call.body.get("sizeGb") or (smallest if source else 500))
    if not smallest <= size <= MAX_GB:
        sentence = f"Disk size must be between {smallest} GB and {MAX_GB} GB."
        raise refusals.invalid("resource.sizeGb", size, sentence)
    made = {"sizeGb": str(size), "type": link(f"{scope}/diskTypes/{kind}"), **source}
    needs = disk_quota.of_disk({**made, "selfLink": link(f"{scope}/disks/new")})
    exceeded = compute.quotas.exceeded(needs)
    if exceeded is not None:
        raise refusals.quota_now(exceeded)
    operation = documents.create(call, "disks", "disk", status="READY", **made)
    compute.quotas.take(needs)
    return operation


@mutation("compute.resourcePolicies.insert", permission="compute.resourcePolicies.create")
def insert_policy(call: Call) -> Operation:
    """A placement policy (or any other kind, kept as it is)."""
    return documents.create(call, "resourcePolicies", "resourcePolicy", status="READY")


@mutation("compute.reservations.insert", permission="compute.reservations.create")
def insert_reservation(call: Call) -> Operation:
    """A reservation of VMs of one machine type; it takes their capacity at once."""
    specific = call.body.get("specificReservation", {})
    count = int(specific.get("count", 0))
    machine = specific.get("instanceProperties", {}).get("machineType", "")
    if count < 1:
        raise refusals.invalid(
            "resource.specificReservation.count", count, "Must be greater than or equal to 1."
        )
    zone = call.params["zone"]
    compute = call.world.part(Compute)
    at = "resource.specificReservation.instanceProperties"
    checks.machine_type(compute, machine, zone, at, bare=True)
    free = compute.free(zone, machine)
    if free is not None and free < count:
        raise refusals.insufficient_capacity()
    if free is not None:
        compute.stock[(zone, machine)] = free - count
    counted = {**specific, "count": str(count), "assuredCount": str(count), "inUseCount": "0"}
    return documents.create(call, "reservations", "reservation", status="READY", specificReservation=counted)


@COMPUTE.method("compute.diskTypes.list", pool="compute.reads")
def list_disk_types(call: Call) -> Json:
    """The disk types of a zone."""
    scope = operations.scope_of(call)
    items = [{"kind": "compute#diskType", "name": n, "zone": link(scope), "selfLink": link(f"{scope}/diskTypes/{n}")} for n in DISK_TYPES]  # fmt: skip  # noqa: E501
    return {"kind": "compute#diskTypeList", "id": f"{scope}/diskTypes", "items": items}
