"""The machine half of the checks: type, accelerator, count, strategy, reservation and disk of every pool."""

from __future__ import annotations

import re
from collections.abc import Mapping
from typing import Final

from gputrain_emulator.messages import Record
from gputrain_emulator.vertex import offers

SPOT: Final = "SPOT"
LOW_COST: Final = "LOW_COST"
FLEX_START: Final = "FLEX_START"

_NO_ACCELERATOR = "ACCELERATOR_TYPE_UNSPECIFIED"
_RESERVATION_KEY = "compute.googleapis.com/reservation-name"
_RESERVATION = re.compile(r"projects/[^/]+/zones/[^/]+/reservations/[^/]+")
_DISK_TYPES = ("pd-ssd", "pd-standard", "hyperdisk-balanced")
_MIN_DISK_GB = 100
_MAX_DISK_GB = 64_000


class InvalidJobError(ValueError):
    """The request is refused; `precondition` tells FAILED_PRECONDITION from INVALID_ARGUMENT."""

    def __init__(
        self, message: str, *, fields: tuple[tuple[str, str], ...] = (), precondition: bool = False
    ) -> None:
        super().__init__(message)
        self.message = message
        self.fields = fields
        self.precondition = precondition


def check(spec: Record, region: str) -> None:
    """Raise `InvalidJobError` for the first pool that Vertex AI would not place in the region."""
    strategy = spec.scheduling.strategy
    pools = [pool for pool in spec.worker_pool_specs if not pool.is_empty()]
    for pool in pools:
        _check_machine(pool.machine_spec, region)
        _check_strategy(pool.machine_spec, strategy)
        _check_reservation(pool.machine_spec, strategy)
        _check_disk(pool.disk_spec, pool.machine_spec)
    if strategy == FLEX_START and len({_shape(pool.machine_spec) for pool in pools}) > 1:
        raise InvalidJobError("All worker pools must have the same machine spec when strategy is FLEX_START.")


def accelerator_name(machine: Record) -> str | None:
    """The enum name of the pool's accelerator, None where there is none."""
    return machine.accelerator_type if machine.accelerator_type != _NO_ACCELERATOR else None


def needs(spec: Record) -> Mapping[str, int]:
    """What a job charges, by metric: accelerators and vCPUs; nothing on a persistent resource."""
    strategy = spec.scheduling.strategy
    preemptible = strategy in (SPOT, LOW_COST, FLEX_START)
    sold = "FLEX_START" if strategy == FLEX_START else "SPOT" if preemptible else "STANDARD"
    total: dict[str, int] = {}
    if spec.persistent_resource_id:
        return total
    for pool in spec.worker_pool_specs:
        if not pool.machine_spec.machine_type:
            continue
        machine, name = pool.machine_spec.machine_type, accelerator_name(pool.machine_spec)
        charges = {offers.cpu_metric(machine, sold): offers.vcpus(machine)}
        if name:
            charges[offers.metric(name, preemptible=preemptible)] = pool.machine_spec.accelerator_count
        for metric, one in charges.items():
            if metric:
                total[metric] = total.get(metric, 0) + one * pool.replica_count
    return total


def default_disk(machine: Record) -> str:
    """The boot disk type that a pool gets when it names none."""
    name = accelerator_name(machine)
    row = offers.ACCELERATORS.get(name) if name else None
    return "hyperdisk-balanced" if row is not None and row.needs_hyperdisk else "pd-ssd"


def _shape(machine: Record) -> tuple[str, str, int]:
    return machine.machine_type, machine.accelerator_type, machine.accelerator_count


def _check_machine(machine: Record, region: str) -> None:
    kind, name, count = machine.machine_type, accelerator_name(machine), machine.accelerator_count
    if not offers.offered(kind, region):
        raise InvalidJobError(f'Machine type "{kind}" is not supported.')
    fixed = offers.FIXED_SHAPES.get(kind)
    if name is None:
        if fixed is None and not count:
            return
        if fixed is None:
            raise InvalidJobError(
                f'The accelerator count "{count}" is not allowed without an accelerator type.'
            )
        name = fixed[0]
    allowed = offers.allowed_counts(kind, name)
    row = offers.ACCELERATORS.get(name)
    if not allowed or row is None or region not in row.regions:
        raise InvalidJobError(f'Accelerator "{name}" is not supported for machine type "{kind}".')
    if count not in allowed or accelerator_name(machine) is None:
        raise InvalidJobError(
            f'The accelerator count "{count}" is not allowed. The allowed numbers of accelerator '
            f'"{name}" to use with machine type "{kind}" are: {list(allowed)}.'
        )


def _check_strategy(machine: Record, strategy: str) -> None:
    name = accelerator_name(machine)
    row = offers.ACCELERATORS.get(name) if name else None
    if strategy == FLEX_START and (row is None or not row.flex_start):
        raise InvalidJobError(
            f'Scheduling strategy FLEX_START is not supported for machine type "{machine.machine_type}".'
        )
    asked = machine.reservation_affinity.reservation_affinity_type
    if row is not None and row.needs_reservation and asked != "SPECIFIC_RESERVATION":
        raise InvalidJobError(f'Machine type "{machine.machine_type}" requires a specific reservation.')


def _check_reservation(machine: Record, strategy: str) -> None:
    affinity = machine.reservation_affinity
    kind = affinity.reservation_affinity_type
    if kind == "SPECIFIC_RESERVATION":
        if affinity.key != _RESERVATION_KEY or not affinity.values:
            raise InvalidJobError(
                f"Reservation affinity SPECIFIC_RESERVATION needs key {_RESERVATION_KEY} and its values."
            )
        if not all(_RESERVATION.fullmatch(value) for value in affinity.values):
            raise InvalidJobError(
                "Reservation names must have the form "
                "projects/{project}/zones/{zone}/reservations/{reservation}."
            )
    elif affinity.key or affinity.values:
        raise InvalidJobError("Reservation key and values may only be set with SPECIFIC_RESERVATION.")
    consumes = kind in ("SPECIFIC_RESERVATION", "ANY_RESERVATION")
    if consumes and strategy in (SPOT, LOW_COST, FLEX_START):
        raise InvalidJobError("Reservations cannot be used with scheduling strategy SPOT or FLEX_START.")


def _check_disk(disk: Record, machine: Record) -> None:
    kind, size = disk.boot_disk_type, disk.boot_disk_size_gb
    if kind and kind not in _DISK_TYPES:
        raise InvalidJobError(f'Boot disk type "{kind}" is not supported.')
    if kind.startswith("pd-") and default_disk(machine) == "hyperdisk-balanced":
        raise InvalidJobError(
            f'Boot disk type "{kind}" is not supported for machine type "{machine.machine_type}".'
        )
    if size and not _MIN_DISK_GB <= size <= _MAX_DISK_GB:
        raise InvalidJobError(f"Boot disk size must be between {_MIN_DISK_GB} and {_MAX_DISK_GB} GB.")
