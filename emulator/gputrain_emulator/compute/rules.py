"""What an instance's attachments must be like, for instances, gangs and templates alike.

Sentences as public threads show them where they do; the rules: compute v1 reference and documentation, read
2026-11-22.
"""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any

from gputrain_emulator.compute import refusals
from gputrain_emulator.compute.checks import NAME, labels
from gputrain_emulator.compute.links import last
from gputrain_emulator.errors import ApiError

Json = dict[str, Any]

DISK_TYPES = (
    "hyperdisk-balanced", "hyperdisk-extreme", "hyperdisk-ml", "hyperdisk-throughput",
    "local-ssd", "pd-balanced", "pd-extreme", "pd-ssd", "pd-standard",
)  # fmt: skip
MAX_GB = 65_536
"""64 TiB, the largest disk (docs.cloud.google.com/compute/docs/disks, read 2026-11-20)."""
LOCAL_SSD_GB = 375

NOT_CARRIED_OUT = ("hostname", "minCpuPlatform")
"""Fields of an instance that no client of ours sends; a `terminationTime` and data disks beside them."""
MAX_TAGS = 64


def attachments(properties: Mapping[str, Any], at: str) -> None:
    """Raises ApiError 400 for the first thing that no instance may have, and 501 for what no client sends."""
    for name in NOT_CARRIED_OUT:
        if properties.get(name):
            raise ApiError.unimplemented(f"compute.instances.insert with {name}")
    if "terminationTime" in properties.get("scheduling", {}):
        raise ApiError.unimplemented("compute.instances.insert with scheduling.terminationTime")
    _tags(properties.get("tags", {}).get("items", []), at)
    _disks(properties.get("disks", []), at)
    for name, most in (
        ("guestAccelerators", 1), ("networkInterfaces", 10), ("resourcePolicies", 1), ("serviceAccounts", 1),
    ):  # fmt: skip
        count = len(properties.get(name, ()))
        if count > most:
            raise refusals.invalid(f"{at}.{name}", count, f"At most {most} may be given.")


def _tags(items: list[str], at: str) -> None:
    if len(items) > MAX_TAGS:
        raise refusals.invalid(f"{at}.tags", len(items), f"At most {MAX_TAGS} tags may be given.")
    for index, tag in enumerate(items):
        if not NAME.fullmatch(tag):
            sentence = f"Must be a match of regex '(?:{NAME.pattern})'"
            raise refusals.invalid(f"{at}.tags.items[{index}]", tag, sentence)


def _disks(disks: list[Json], at: str) -> None:
    if not disks or not any(disk.get("boot") for disk in disks):
        raise refusals.invalid(f"{at}.disks", "", "At least one boot disk must be specified.")
    for index, disk in enumerate(disks):
        field = f"{at}.disks[{index}]"
        if bool(disk.get("boot")) is not (index == 0):
            sentence = "Boot disk must be the first disk attached to the instance, and the only one."
            raise refusals.invalid(f"{field}.boot", str(bool(disk.get("boot"))).lower(), sentence)
        if index == 0:
            _new_disk(disk.get("initializeParams", {}), f"{field}.initializeParams")
        elif disk.get("type") != "SCRATCH":
            raise ApiError.unimplemented("compute.instances.insert with a second persistent disk")
        elif not disk.get("autoDelete"):
            raise refusals.invalid(f"{field}.autoDelete", "false", "Local SSDs must be auto-deleted.")


def device_name(disk: Json, index: int) -> str:
    """What a disk is called inside where nobody says."""
    return f"{'local-ssd' if disk.get('type') == 'SCRATCH' else 'persistent-disk'}-{index}"


def completed(disk: Json, index: int) -> Json:
    """A disk of an instance or a template with what Google writes into it."""
    return {
        "kind": "compute#attachedDisk",
        "type": "PERSISTENT",
        "mode": "READ_WRITE",
        "index": index,
        "boot": False,
        "autoDelete": False,
        "deviceName": device_name(disk, index),
        "interface": "SCSI",
        **disk,
    }


def model_of(scheduling: Mapping[str, Any]) -> str:
    """The provisioning model that a scheduling means."""
    return str(
        scheduling.get("provisioningModel") or ("SPOT" if scheduling.get("preemptible") else "STANDARD")
    )


def scheduling(wanted: Mapping[str, Any], has_gpus: bool) -> Json:
    """A scheduling with what Google writes into it."""
    model = model_of(wanted)
    return {
        "provisioningModel": model,
        "preemptible": model == "SPOT",
        "automaticRestart": model in ("STANDARD", "RESERVATION_BOUND"),
        "onHostMaintenance": "TERMINATE" if has_gpus or model != "STANDARD" else "MIGRATE",
        **wanted,
    }


def _new_disk(params: Json, field: str) -> None:
    labels(params.get("labels", {}), f"{field}.labels")
    kind = last(params.get("diskType", ""))
    if kind and (kind not in DISK_TYPES or kind == "local-ssd"):
        sentence = "The referenced diskType resource cannot be found."
        raise refusals.invalid(f"{field}.diskType", params["diskType"], sentence)
    size = int(params.get("diskSizeGb", 0))
    if not 0 <= size <= MAX_GB:
        sentence = f"Disk size must be between 1 GB and {MAX_GB} GB."
        raise refusals.invalid(f"{field}.diskSizeGb", size, sentence)
