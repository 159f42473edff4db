"""Worker pools: the machines that Vertex AI places, and what a job of them charges. Specs are JSON."""

from __future__ import annotations

import re
from collections import Counter
from collections.abc import Iterator
from typing import Any

from gputrain_emulator.errors import ApiError
from gputrain_emulator.vertex import offers

Json = dict[str, Any]

PREEMPTIBLE = ("SPOT", "LOW_COST", "FLEX_START")
_RESERVATION_KEY = "compute.googleapis.com/reservation-name"
_RESERVATION = re.compile(r"projects/[^/]+/zones/[^/]+/reservations/[^/]+")
_DISK_TYPES = ("pd-ssd", "pd-standard", "hyperdisk-balanced")
_DISK_GB = 100, 64_000


def pools(spec: Json) -> list[Json]:
    """The worker pools of a job that say anything."""
    return [pool for pool in spec.get("workerPoolSpecs", ()) if any(pool.values())]


def seconds(duration: str) -> float:
    """Seconds of a duration as JSON has it, 0 where there is none."""
    return float(duration.removesuffix("s") or 0)


def strategy(spec: Json) -> str:
    return str(spec.get("scheduling", {}).get("strategy", ""))


def placed(spec: Json) -> Iterator[tuple[Json, int]]:
    """Machine and count of every pool that names one."""
    for pool in pools(spec):
        if pool.get("machineSpec", {}).get("machineType"):
            yield pool["machineSpec"], int(pool.get("replicaCount", 0))


def check(spec: Json, region: str) -> None:
    """400 for the first pool that Vertex AI would not place in the region."""
    chosen = strategy(spec)
    for pool in pools(spec):
        machine = pool.get("machineSpec", {})
        _check_machine(machine, region)
        _check_strategy(machine, chosen)
        _check_reservation(machine, chosen)
        _check_disk(pool.get("diskSpec", {}), machine)
    shapes = {
        tuple(machine.get(key) for key in ("machineType", "acceleratorType", "acceleratorCount"))
        for machine, _ in placed(spec)
    }
    if chosen == "FLEX_START" and len(shapes) > 1:
        raise ApiError(400, "All worker pools must have the same machine spec when strategy is FLEX_START.")


def accelerator(machine: Json) -> str:
    """The enum name of a machine's accelerator, "" where it has none."""
    name = str(machine.get("acceleratorType", ""))
    return "" if name == "ACCELERATOR_TYPE_UNSPECIFIED" else name


def needs(spec: Json) -> Counter[str]:
    """What a job charges, by metric: accelerators and vCPUs."""
    chosen = strategy(spec)
    sold = "FLEX_START" if chosen == "FLEX_START" else "SPOT" if chosen in PREEMPTIBLE else "STANDARD"
    total: Counter[str] = Counter()
    for machine, replicas in placed(spec):
        kind, name = machine["machineType"], accelerator(machine)
        total[offers.cpu_metric(kind, sold)] += offers.vcpus(kind) * replicas
        if name:
            metric = offers.metric(name, preemptible=chosen in PREEMPTIBLE)
            total[metric] += machine.get("acceleratorCount", 0) * replicas
    del total[""]
    return total


def default_disk(machine: Json) -> str:
    """The boot disk type that a pool gets when it names none."""
    row = offers.ACCELERATORS.get(accelerator(machine))
    return "hyperdisk-balanced" if row is not None and row.needs_hyperdisk else "pd-ssd"


def _check_machine(machine: Json, region: str) -> None:
    kind, name, count = machine["machineType"], accelerator(machine), machine.get("acceleratorCount", 0)
    if not offers.offered(kind, region):
        raise ApiError(400, f'Machine type "{kind}" is not supported.')
    fixed = offers.FIXED_SHAPES.get(kind)
    if fixed is None and not name:
        if count:
            sentence = f'The accelerator count "{count}" is not allowed without an accelerator type.'
            raise ApiError(400, sentence)
        return
    wanted = name or (fixed or ("",))[0]
    allowed, row = offers.allowed_counts(kind, wanted), offers.ACCELERATORS.get(wanted)
    if not allowed or row is None or region not in row.regions:
        raise ApiError(400, f'Accelerator "{wanted}" is not supported for machine type "{kind}".')
    if count not in allowed or not name:
        which = f'The allowed numbers of accelerator "{wanted}" to use with machine type "{kind}"'
        raise ApiError(400, f'The accelerator count "{count}" is not allowed. {which} are: {list(allowed)}.')


def _check_strategy(machine: Json, chosen: str) -> None:
    row, kind = offers.ACCELERATORS.get(accelerator(machine)), machine["machineType"]
    if chosen == "FLEX_START" and (row is None or not row.flex_start):
        raise ApiError(400, f'Scheduling strategy FLEX_START is not supported for machine type "{kind}".')
    asked = machine.get("reservationAffinity", {}).get("reservationAffinityType")
    if row is not None and row.needs_reservation and asked != "SPECIFIC_RESERVATION":
        raise ApiError(400, f'Machine type "{kind}" requires a specific reservation.')


def _check_reservation(machine: Json, chosen: str) -> None:
    affinity = machine.get("reservationAffinity", {})
    kind, key, values = (affinity.get(name) for name in ("reservationAffinityType", "key", "values"))
    if kind == "SPECIFIC_RESERVATION":
        if key != _RESERVATION_KEY or not values:
            sentence = f"Reservation affinity {kind} needs key {_RESERVATION_KEY} and its values."
            raise ApiError(400, sentence)
        if not all(_RESERVATION.fullmatch(value) for value in values):
            form = "projects/{project}/zones/{zone}/reservations/{reservation}"
            raise ApiError(400, f"Reservation names must have the form {form}.")
    elif key or values:
        raise ApiError(400, "Reservation key and values may only be set with SPECIFIC_RESERVATION.")
    if kind in ("SPECIFIC_RESERVATION", "ANY_RESERVATION") and chosen in PREEMPTIBLE:
        raise ApiError(400, "Reservations cannot be used with scheduling strategy SPOT or FLEX_START.")


def _check_disk(disk: Json, machine: Json) -> None:
    kind, size = disk.get("bootDiskType", ""), disk.get("bootDiskSizeGb", 0)
    if kind and kind not in _DISK_TYPES:
        raise ApiError(400, f'Boot disk type "{kind}" is not supported.')
    if kind.startswith("pd-") and default_disk(machine) == "hyperdisk-balanced":
        name = machine["machineType"]
        raise ApiError(400, f'Boot disk type "{kind}" is not supported for machine type "{name}".')
    if size and not _DISK_GB[0] <= size <= _DISK_GB[1]:
        raise ApiError(400, f"Boot disk size must be between {_DISK_GB[0]} and {_DISK_GB[1]} GB.")
