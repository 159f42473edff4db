"""What disks and addresses count against, in their region."""

from __future__ import annotations

from typing import Any

from gputrain_emulator import facts
from gputrain_emulator.compute.links import last, relative
from gputrain_emulator.compute.state import Vm
from gputrain_emulator.quotas import Key

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
