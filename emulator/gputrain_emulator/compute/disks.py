"""Disks, resource policies and reservations."""

from __future__ import annotations

from typing import Any

from gputrain_emulator.call import Call
from gputrain_emulator.compute import checks, documents, filters, refusals, reserve
from gputrain_emulator.compute.operations import mutation
from gputrain_emulator.compute.state import COMPUTE, Compute, Operation
from gputrain_emulator.errors import ApiError

Json = dict[str, Any]


def _free_gigabytes(call: Call, disk: Json) -> None:
    call.world.part(Compute).quotas.release(reserve.of_disk(disk))


documents.register("disks", "disk", "disk", at_delete=_free_gigabytes)
documents.register("resourcePolicies", "resourcePolicy", "resource_policy")


def _free_capacity(call: Call, reservation: Json) -> None:
    specific = reservation["specificReservation"]
    key = (call.params["zone"], specific["instanceProperties"]["machineType"])
    stock = call.world.part(Compute).stock
    if key in stock:
        stock[key] += int(specific["count"]) - int(specific["inUseCount"])


documents.register("reservations", "reservation", "reservation", at_delete=_free_capacity)


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
    refusals.unless_between(f"resource.{given[0]}.vmCount", count, 1, MOST_PLACED)
    return documents.create(call, "resourcePolicies", "resourcePolicy", status="READY")


@mutation("compute.reservations.insert", permission="compute.reservations.create")
def insert_reservation(call: Call) -> Operation:
    """A reservation of VMs of one machine type; it takes their capacity at once."""
    specific = call.body.get("specificReservation", {})
    count = int(specific.get("count", 0))
    properties = specific.get("instanceProperties", {})
    machine = properties.get("machineType", "")
    refusals.unless_between("resource.specificReservation.count", count, 1, MOST_RESERVED)
    if properties.get("minCpuPlatform"):
        raise ApiError.unimplemented("compute.reservations.insert with minCpuPlatform")
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


@COMPUTE.method(
    "compute.reservations.aggregatedList", permission="compute.reservations.list", pool="compute.heavy_reads"
)
def aggregated_reservations(call: Call) -> Json:
    """The reservations of the project, by zone."""
    kept = call.world.part(Compute).resources["reservations"]
    root = f"projects/{call.owner.id}/"
    items = [document for path, document in kept.items() if path.startswith(root)]
    return filters.aggregated(call, "reservation", items)
