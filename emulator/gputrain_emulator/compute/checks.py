"""The rules an instance must keep before Compute Engine takes it on. Each raises ApiError in Google's words.

``at`` is the path of the instance's fields in the request: ``resource`` for insert,
``resource.instanceProperties`` for bulkInsert, ``resource.properties`` for templates. Sentences as public
threads show them where they do; the rules: compute v1 reference and documentation, read 2026-11-22.
"""

from __future__ import annotations

import re
from collections.abc import Mapping
from typing import Any

from gputrain_emulator import facts
from gputrain_emulator.compute import refusals
from gputrain_emulator.compute.links import last
from gputrain_emulator.compute.state import Compute
from gputrain_emulator.errors import ApiError

NAME = re.compile(r"[a-z](?:[-a-z0-9]{0,61}[a-z0-9])?")
_LABEL_KEY = re.compile(r"[a-z][a-z0-9_-]{0,62}")
_LABEL_VALUE = re.compile(r"[a-z0-9_-]{0,63}")
_METADATA_KEY = re.compile(r"[a-zA-Z0-9_-]{1,127}")
MAX_LABELS = 64
MAX_METADATA_VALUE = 262_144
MAX_METADATA = 512 << 10
MAX_FLEX_RUN_S = 7 * 86400
MAX_FLEX_WAIT_S = 7200
MAX_RUN_S = 120 * 86400
"""Limits of labels (64: unverified), metadata and run times (compute v1 protos and documentation,
read 2026-11-20)."""

Json = dict[str, Any]


def name(value: str, field: str) -> None:
    if not NAME.fullmatch(value):
        raise refusals.invalid(field, value, f"Must be a match of regex '(?:{NAME.pattern})'")


def labels(value: dict[str, str], field: str) -> None:
    if len(value) > MAX_LABELS:
        raise refusals.invalid(field, "", f"Number of labels exceeds the limit of {MAX_LABELS}.")
    for key, text in value.items():
        if not _LABEL_KEY.fullmatch(key):
            raise refusals.invalid(field, "", f"Label key '{key}' violates format constraints. The key must start with a lowercase character, can only contain lowercase letters, numeric characters, underscores and dashes. The key can be at most 63 characters long.")  # fmt: skip  # noqa: E501
        if not _LABEL_VALUE.fullmatch(text):
            raise refusals.invalid(field, "", f"Label value '{text}' violates format constraints. The value can only contain lowercase letters, numeric characters, underscores and dashes. The value can be at most 63 characters long.")  # fmt: skip  # noqa: E501


def metadata(value: Json, field: str) -> None:
    total = 0
    seen: set[str] = set()
    for index, item in enumerate(value.get("items", ())):
        key, text = str(item.get("key", "")), str(item.get("value", ""))
        if not _METADATA_KEY.fullmatch(key):
            raise refusals.invalid(
                f"{field}.items[{index}].key", key, "Must be a match of regex '[a-zA-Z0-9-_]{1,128}'"
            )
        if key in seen:
            raise refusals.invalid(field, key, "Metadata has duplicate key.")
        seen.add(key)
        size = len(text.encode())
        if size > MAX_METADATA_VALUE:
            what = f"Value for field '{field}.items[{index}].value' is too large"
            sentence = f"{what}: maximum size {MAX_METADATA_VALUE} character(s); actual size {size}."
            raise ApiError(400, sentence, reason="invalid")
        total += len(key) + size
    if total > MAX_METADATA:
        limit = f"maximum size {MAX_METADATA} character(s); actual size {total}."
        sentence = f"Value for field '{field}' is too large: {limit}"
        raise ApiError(400, sentence, reason="invalid")


def machine_type(compute: Compute, url: str, zone: str, at: str, *, bare: bool) -> facts.Machine:
    """The machine that ``url`` names in ``zone``; bulkInsert (``bare``) answers a URL with 503."""
    field = f"{at}.machineType"
    if not url:
        raise refusals.invalid(field, "", "The machine type must be specified.")
    if bare and "/" in url:
        raise ApiError(503, "The service is currently unavailable.")
    if not bare and not re.search(r"(^|/)zones/[^/]+/machineTypes/[^/]+$", url):
        raise refusals.invalid(field, url, "The URL is malformed.")
    if not bare and not url.endswith(f"zones/{zone}/machineTypes/{last(url)}"):
        raise refusals.invalid(field, url, f"The resource must be in zone '{zone}'.")
    wanted = last(url)
    if re.fullmatch(r"([a-z]\w*-)?custom-.*", wanted):
        raise ApiError.unimplemented("compute.instances.insert of a custom machine type")
    if not compute.offered(wanted, zone):
        shown = url if bare else f"zones/{zone}/machineTypes/{wanted}"
        sentence = f"Machine type with name '{wanted}' does not exist in zone '{zone}'."
        raise refusals.invalid(field, shown, sentence)
    return facts.machines()[wanted]


def accelerators(
    compute: Compute, project: str, zone: str, machine: facts.Machine, wanted: list[Json]
) -> tuple[str, int]:
    """Accelerator type and count of the VM."""
    if not wanted:
        return machine.accelerator, machine.gpus
    kind = last(str(wanted[0].get("acceleratorType", "")))
    count = int(wanted[0].get("acceleratorCount", 0))
    if not compute.has_accelerator(kind, zone):
        raise refusals.not_found(f"projects/{project}/zones/{zone}/acceleratorTypes/{kind}")
    if machine.accelerator:
        if (kind, count) != (machine.accelerator, machine.gpus):
            raise refusals.incompatible(kind, machine.name)
        return kind, count
    limit = facts.attach_limits().get((kind, count)) if machine.attaches_gpus else None
    if limit is None or machine.vcpus > limit[0] or machine.memory_mib > limit[1] * 1024:
        raise refusals.incompatible(kind, machine.name)
    return kind, count


def scheduling(value: Json, machine: facts.Machine, gpus: int, instance: str, at: str) -> str:
    """The provisioning model, once the scheduling is known to be allowed."""
    field = f"{at}.scheduling"
    model = model_of(value)
    if gpus and value.get("onHostMaintenance", "" if model != "STANDARD" else "MIGRATE") == "MIGRATE":
        raise refusals.live_migration(instance)
    if model in ("SPOT", "FLEX_START") and value.get("automaticRestart"):
        sentence = "Scheduling must have preemptible be false when AutomaticRestart is true."
        raise refusals.invalid(field, "", sentence)
    sold = {"STANDARD": machine.standard, "SPOT": machine.spot, "FLEX_START": machine.flex_start, "RESERVATION_BOUND": machine.reservation}  # fmt: skip  # noqa: E501
    if not sold.get(model, False):
        models = ", ".join(name for name, yes in sold.items() if yes)
        sentence = f"Machine type {machine.name} can be created only with the provisioning model: {models}."
        raise refusals.invalid(f"{field}.provisioningModel", model, sentence)
    run_limits(value, model, field)
    return model


def run_limits(value: Json, model: str, field: str) -> None:
    """How long a VM may run, and what becomes of it then."""
    limited = "maxRunDuration" in value
    if limited and not value.get("instanceTerminationAction"):
        sentence = "You must specify an instance termination action when the run time of a VM is limited."
        raise refusals.invalid(f"{field}.instanceTerminationAction", "", sentence)
    if value.get("instanceTerminationAction") and not limited and model == "STANDARD":
        sentence = (
            "Instance termination action can be set only for Spot VMs or for VMs with a limited run time."
        )
        action = value["instanceTerminationAction"]
        raise refusals.invalid(f"{field}.instanceTerminationAction", action, sentence)
    if limited:
        seconds = int(value["maxRunDuration"].get("seconds", 0))
        top = MAX_FLEX_RUN_S if model == "FLEX_START" else MAX_RUN_S
        refusals.unless_between(f"{field}.maxRunDuration.seconds", seconds, 30, top, " seconds")
    elif model == "FLEX_START":
        raise refusals.invalid(f"{field}.maxRunDuration", "", "Flex-start VMs must have a maxRunDuration.")


def affinity(value: Json, model: str, at: str) -> None:
    """FLEX_START takes no reservation, RESERVATION_BOUND names one."""
    kind = value.get("consumeReservationType", "")
    field = f"{at}.reservationAffinity.consumeReservationType"
    if model == "FLEX_START" and kind != "NO_RESERVATION":
        raise refusals.invalid(field, kind, "Flex-start VMs must have NO_RESERVATION.")
    if model == "RESERVATION_BOUND" and kind != "SPECIFIC_RESERVATION":
        raise refusals.invalid(field, kind, "Reservation-bound VMs must have SPECIFIC_RESERVATION.")
    if kind == "SPECIFIC_RESERVATION" and not (value.get("key") and value.get("values")):
        raise refusals.invalid(f"{at}.reservationAffinity.key", value.get("key", ""), "A specific reservation needs key and values.")  # fmt: skip  # noqa: E501


def boot_disk_type(kind: str, machine: facts.Machine) -> None:
    if kind == "pd-extreme":
        raise refusals.incompatible("pd-extreme", machine.name)
    if kind not in machine.boot_disks:
        sentence = f"Disk type {kind} is not supported for machine type {machine.name}."
        raise refusals.invalid("resource.disks[0].type", kind, sentence)


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
    tags(properties.get("tags", {}).get("items", []), at)
    _disks(properties.get("disks", []), at)
    for name, most in (
        ("guestAccelerators", 1), ("networkInterfaces", 10), ("resourcePolicies", 1), ("serviceAccounts", 1),
    ):  # fmt: skip
        count = len(properties.get(name, ()))
        if count > most:
            raise refusals.invalid(f"{at}.{name}", count, f"At most {most} may be given.")


def tags(items: list[str], at: str) -> None:
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


def completed(disk: Json, index: int) -> Json:
    """A disk of an instance or a template with what Google writes into it."""
    return {
        "kind": "compute#attachedDisk",
        "type": "PERSISTENT",
        "mode": "READ_WRITE",
        "index": index,
        "boot": False,
        "autoDelete": False,
        "deviceName": f"{'local-ssd' if disk.get('type') == 'SCRATCH' else 'persistent-disk'}-{index}",
        "interface": "SCSI",
        **disk,
    }


def model_of(scheduling: Mapping[str, Any]) -> str:
    """The provisioning model that a scheduling means."""
    return str(
        scheduling.get("provisioningModel") or ("SPOT" if scheduling.get("preemptible") else "STANDARD")
    )


def completed_scheduling(wanted: Mapping[str, Any], has_gpus: bool) -> Json:
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
