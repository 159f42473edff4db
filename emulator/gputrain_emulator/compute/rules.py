"""What an instance's attachments must be like, for instances, gangs and templates alike.

Sentences as public threads show them where they do; the rules: compute v1 reference and documentation, read
2026-11-22.
"""

from __future__ import annotations

import re
from collections.abc import Mapping
from typing import Any

from gputrain_emulator.clock import parse_time
from gputrain_emulator.compute import refusals
from gputrain_emulator.compute.checks import NAME, labels
from gputrain_emulator.compute.links import last

Json = dict[str, Any]

DISK_TYPES = (
    "hyperdisk-balanced", "hyperdisk-extreme", "hyperdisk-ml", "hyperdisk-throughput",
    "local-ssd", "pd-balanced", "pd-extreme", "pd-ssd", "pd-standard",
)  # fmt: skip
MAX_GB = 65_536
"""64 TiB, the largest disk (docs.cloud.google.com/compute/docs/disks, read 2026-11-20)."""
LOCAL_SSD_GB = 375

PLATFORMS = frozenset(
    [f"Intel {name}" for name in ("Sandy Bridge", "Ivy Bridge", "Haswell", "Broadwell", "Skylake")]
    + [f"Intel {name}" for name in ("Cascade Lake", "Ice Lake", "Sapphire Rapids", "Emerald Rapids")]
    + [f"AMD {name}" for name in ("Rome", "Milan", "Genoa", "Turin")]
    + ["Intel Granite Rapids", "Ampere Altra", "Google Axion", "NVIDIA Grace"]
)
_SCOPE = re.compile(r"https://www\.googleapis\.com/auth/[a-z0-9._-]+|https://mail\.google\.com/")
_LABEL = r"[a-z0-9](?:[-a-z0-9]{0,61}[a-z0-9])?"
_HOST = re.compile(rf"(?=.{{1,253}}$){_LABEL}(?:\.{_LABEL})+")
_EMAIL = re.compile(r"[A-Za-z0-9._-]+@[A-Za-z0-9.-]+\.[a-z]+")
_DEVICE = re.compile(r"[A-Za-z0-9_][A-Za-z0-9_.-]{0,62}")
MAX_TAGS, MAX_DESCRIPTION = 64, 2048


def attachments(properties: Mapping[str, Any], now: float, at: str) -> None:
    """Raises ApiError 400 for the first thing that no instance may have."""
    _tags(properties.get("tags", {}).get("items", []), at)
    _accounts(properties.get("serviceAccounts", []), at)
    _disks(properties.get("disks", []), at)
    platform(properties.get("minCpuPlatform", ""), f"{at}.minCpuPlatform")
    if len(properties.get("description", "")) > MAX_DESCRIPTION:
        sentence = f"Must be at most {MAX_DESCRIPTION} characters."
        raise refusals.invalid(f"{at}.description", "...", sentence)
    host = properties.get("hostname", "")
    if host and not _HOST.fullmatch(host):
        raise refusals.invalid(f"{at}.hostname", host, f"Must be a match of regex '{_HOST.pattern}'")
    for name, most in (("guestAccelerators", 1), ("networkInterfaces", 10), ("resourcePolicies", 1)):
        count = len(properties.get(name, ()))
        if count > most:
            raise refusals.invalid(f"{at}.{name}", count, f"At most {most} may be given.")
    _termination(properties.get("scheduling", {}).get("terminationTime", ""), now, at)


def platform(value: str, field: str) -> None:
    """400 for a minimal CPU platform that nobody makes."""
    if value and value not in PLATFORMS:
        raise refusals.invalid(field, value, "No such CPU platform.")


def _tags(items: list[str], at: str) -> None:
    if len(items) > MAX_TAGS:
        raise refusals.invalid(f"{at}.tags", len(items), f"At most {MAX_TAGS} tags may be given.")
    for index, tag in enumerate(items):
        if not NAME.fullmatch(tag):
            sentence = f"Must be a match of regex '(?:{NAME.pattern})'"
            raise refusals.invalid(f"{at}.tags.items[{index}]", tag, sentence)


def _accounts(accounts: list[Json], at: str) -> None:
    if len(accounts) > 1:
        sentence = "Only one service account may be given."
        raise refusals.invalid(f"{at}.serviceAccounts", len(accounts), sentence)
    for account in accounts:
        email = account.get("email", "")
        if email not in ("", "default") and not _EMAIL.fullmatch(email):
            raise refusals.invalid(f"{at}.serviceAccounts[0].email", email, "Must be an e-mail address.")
        for index, scope in enumerate(account.get("scopes", [])):
            if not _SCOPE.fullmatch(scope):
                raise refusals.invalid(f"{at}.serviceAccounts[0].scopes[{index}]", scope, "No such scope.")


def _termination(when: str, now: float, at: str) -> None:
    if not when:
        return
    try:
        due = parse_time(when)
    except ValueError:
        due = None
    if due is None or due <= now:
        sentence = "Must be an RFC3339 time." if due is None else "Must be in the future."
        raise refusals.invalid(f"{at}.scheduling.terminationTime", when, sentence)


def _disks(disks: list[Json], at: str) -> None:
    if not disks or not any(disk.get("boot") for disk in disks):
        raise refusals.invalid(f"{at}.disks", "", "At least one boot disk must be specified.")
    devices: set[str] = set()
    for index, disk in enumerate(disks):
        field = f"{at}.disks[{index}]"
        if bool(disk.get("boot")) is not (index == 0):
            sentence = "Boot disk must be the first disk attached to the instance, and the only one."
            raise refusals.invalid(f"{field}.boot", str(bool(disk.get("boot"))).lower(), sentence)
        device = disk.get("deviceName") or device_name(disk, index)
        if not _DEVICE.fullmatch(device):
            sentence = f"Must be a match of regex '{_DEVICE.pattern}'"
            raise refusals.invalid(f"{field}.deviceName", device, sentence)
        if device in devices:
            raise refusals.invalid(f"{field}.deviceName", device, "Another disk has this deviceName.")
        devices.add(device)
        if disk.get("type") == "SCRATCH":
            if not disk.get("autoDelete"):
                raise refusals.invalid(f"{field}.autoDelete", "false", "Local SSDs must be auto-deleted.")
        elif "initializeParams" in disk:
            _new_disk(disk["initializeParams"], f"{field}.initializeParams")
        elif not disk.get("source"):
            raise refusals.invalid(field, "", "A disk needs a source or initializeParams.")


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
    name = params.get("diskName", "")
    if name and not NAME.fullmatch(name):
        raise refusals.invalid(f"{field}.diskName", name, f"Must be a match of regex '(?:{NAME.pattern})'")
