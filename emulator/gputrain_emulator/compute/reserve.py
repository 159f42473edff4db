"""What VMs take: stock of a zone, reservations, and quota of disks and addresses in their region."""

from __future__ import annotations

import re
from typing import Any

from gputrain_emulator import facts
from gputrain_emulator.compute import refusals
from gputrain_emulator.compute.links import last, relative
from gputrain_emulator.compute.refusals import OperationError
from gputrain_emulator.compute.state import Compute, Vm
from gputrain_emulator.quotas import Key

_NAME = re.compile(r"(?:projects/[^/]+/reservations/)?([^/]+)(?:/reservationBlocks/.*)?")


def capacity_error(compute: Compute, vm: Vm) -> OperationError | None:
    """Why there is no room for ``vm``, or None."""
    if vm.reservation:
        return _reservation_error(compute, vm)
    if compute.free(vm.zone, vm.stock_name) != 0:
        return None
    others = compute.zones_with_capacity(vm.machine.name, vm.stock_name, vm.zone)
    return refusals.stockout(vm.project, vm.zone, vm.machine.name, vm.attachment, others)


def take(compute: Compute, vm: Vm) -> None:
    """One VM's worth of capacity is in use."""
    if vm.reservation:
        _count(compute, vm, 1)
    else:
        free = compute.free(vm.zone, vm.stock_name)
        if free is not None:
            compute.stock[(vm.zone, vm.stock_name)] = free - 1
    vm.holds_stock = True


def give_back(compute: Compute, vm: Vm, *, to_stock: bool = True) -> None:
    """Its capacity is free again; ``to_stock`` False: somebody else has it now."""
    if not vm.holds_stock:
        return
    vm.holds_stock = False
    if vm.reservation:
        _count(compute, vm, -1)
        return
    free = compute.free(vm.zone, vm.stock_name)
    if free is not None and to_stock:
        compute.stock[(vm.zone, vm.stock_name)] = free + 1


def choose(compute: Compute, vm: Vm, affinity: dict[str, Any]) -> None:
    """Settle which reservation ``vm`` uses, from its reservationAffinity."""
    kind = affinity.get("consumeReservationType", "ANY_RESERVATION")
    if kind == "SPECIFIC_RESERVATION":
        name = _NAME.sub(r"\1", str((affinity.get("values") or [""])[0]))
        vm.reservation = f"{vm.scope}/reservations/{name}"
    elif kind == "ANY_RESERVATION" and vm.model == "STANDARD":
        prefix = f"{vm.scope}/reservations/"
        for name, document in compute.resources["reservations"].items():
            if (
                name.startswith(prefix)
                and not document.get("specificReservationRequired")
                and _room(document, vm)
            ):
                vm.reservation = name
                break
    if vm.reservation:
        vm.needs = tuple((key, need) for key, need in vm.needs if key.metric == "INSTANCES")


def _room(document: dict[str, Any], vm: Vm) -> bool:
    specific = document.get("specificReservation", {})
    machine = specific.get("instanceProperties", {}).get("machineType", "")
    return bool(
        machine == vm.machine.name and int(specific.get("count", 0)) > int(specific.get("inUseCount", 0))
    )


def _reservation_error(compute: Compute, vm: Vm) -> OperationError | None:
    name = vm.reservation.rpartition("/")[2]
    document = compute.resources["reservations"].get(vm.reservation)
    if document is None:
        return refusals.operation_error(
            "CONDITION_NOT_MET", f"Specified reservation '{name}' does not exist.", http_status=412
        )
    affinity = vm.resource.get("reservationAffinity", {})
    is_named = affinity.get("consumeReservationType") == "SPECIFIC_RESERVATION"
    if is_named and not document.get("specificReservationRequired"):
        sentence = (
            f"Specified reservation '{name}' can not be targeted as specificReservationRequired is not set."
        )
        return refusals.operation_error("CONDITION_NOT_MET", sentence, http_status=400)
    if not _room(document, vm):
        sentence = f"Specified reservation '{name}' does not have available resources for the request."
        return refusals.operation_error("CONDITION_NOT_MET", sentence, http_status=412)
    return None


def _count(compute: Compute, vm: Vm, by: int) -> None:
    document = compute.resources["reservations"].get(vm.reservation)
    if document is not None:
        specific = document["specificReservation"]
        specific["inUseCount"] = str(int(specific.get("inUseCount", 0)) + by)


METRICS = {
    "pd-standard": "DISKS_TOTAL_GB",
    "pd-balanced": "SSD_TOTAL_GB",
    "pd-ssd": "SSD_TOTAL_GB",
    "hyperdisk-balanced": "HDB_TOTAL_GB",
}
"""Quota.Metric of compute v1; the other hyperdisks' quotas are not emulated
(docs.cloud.google.com/compute/resource-usage, read 2026-11-20)."""

Needs = tuple[tuple[Key, float], ...]


def of_new(vm: Vm) -> Needs:
    """What the disks that are made with a VM will take."""
    return tuple(
        need
        for disk in vm.resource["disks"]
        for need in _needs(vm.project, vm.zone, disk.get("_type", ""), disk.get("diskSizeGb", 0))
    )


def of_attached(vm: Vm) -> Needs:
    """What a VM takes as long as it is on, beside itself: local SSDs, and addresses outside."""
    region, disks = facts.region_of(vm.zone), vm.resource["disks"]
    is_spot = vm.model in ("SPOT", "FLEX_START")
    scratch = "PREEMPTIBLE_LOCAL_SSD_GB" if is_spot else "LOCAL_SSD_TOTAL_GB"
    counts = {
        scratch: sum(float(disk["diskSizeGb"]) for disk in disks if disk["type"] == "SCRATCH"),
        "IN_USE_ADDRESSES": sum(
            len(nic.get("accessConfigs", ())) for nic in vm.resource["networkInterfaces"]
        ),
    }
    return tuple(
        (Key(project=vm.project, metric=metric, region=region), float(count))
        for metric, count in counts.items()
        if count
    )


def of_disk(document: dict[str, Any]) -> Needs:
    """What a disk takes."""
    _, project, _, zone, *_ = relative(document["selfLink"]).split("/")
    return _needs(project, zone, last(document["type"]), document["sizeGb"])


def _needs(project: str, zone: str, kind: str, size_gb: str | int) -> Needs:
    if kind not in METRICS:
        return ()
    return ((Key(project=project, metric=METRICS[kind], region=facts.region_of(zone)), float(size_gb)),)
