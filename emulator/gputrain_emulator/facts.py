"""What the emulator knows of machines, zones, prices and quota names, read from its own ``data/``."""

from __future__ import annotations

import functools
from dataclasses import dataclass
from decimal import Decimal

from gputrain_emulator import tables


@dataclass(frozen=True, kw_only=True)
class Machine:
    """One machine type."""

    name: str
    accelerator: str
    """Accelerator type that comes with it, or "" (N1 and E2)."""
    gpus: int
    vcpus: int
    memory_mib: int
    arch: str
    boot_disks: tuple[str, ...]
    standard: bool
    spot: bool
    flex_start: bool
    reservation: bool
    local_ssds: int = 0
    """Disks of 375 GiB that come with it."""
    vertex: bool = True
    """Whether custom training takes it."""

    @property
    def attaches_gpus(self) -> bool:
        return self.name.startswith("n1-")

    @property
    def family(self) -> str:
        return self.name.partition("-")[0]


@dataclass(frozen=True, kw_only=True)
class GpuQuota:
    """The quotas that one accelerator type counts against."""

    accelerator: str
    regional_metric: str
    gpu_family: str
    quota_id: str
    preemptible_metric: str
    preemptible_quota_id: str
    preemptible_in_regions_get: bool
    vertex_metric: str
    vertex_preemptible_metric: str
    vertex_quota_id: str
    vertex_preemptible_quota_id: str


@functools.cache
def machines() -> dict[str, Machine]:
    """Every machine type by name."""
    return {one.name: one for one in tables.typed(Machine, "machines.csv")}


@functools.cache
def gpu_quotas() -> dict[str, GpuQuota]:
    """Quota names by accelerator type."""
    return {one.accelerator: one for one in tables.typed(GpuQuota, "quotas.csv")}


@functools.cache
def attach_limits() -> dict[tuple[str, int], tuple[int, int]]:
    """Largest N1 (vCPUs, memory in GB) by accelerator and count; a missing pair does not attach."""
    return {
        (row["accelerator"], int(row["gpus"])): (int(row["max_vcpus"]), int(row["max_memory_gb"]))
        for row in tables.records("attachable.csv")
    }


@functools.cache
def accelerator_zones() -> dict[str, tuple[str, ...]]:
    """Zones by accelerator type."""
    return {
        row["accelerator"]: tuple(row["zones"].split()) for row in tables.records("accelerator_zones.csv")
    }


@functools.cache
def _machine_zones() -> dict[str, frozenset[str]]:
    return {
        row["machine_type"]: frozenset(row["zones"].split()) for row in tables.records("machine_zones.csv")
    }


@functools.cache
def places() -> dict[str, dict[str, str]]:
    """The rows of data/regions.csv by region."""
    return {row["region"]: row for row in tables.records("regions.csv")}


@functools.cache
def gpus() -> dict[str, dict[str, str]]:
    """The rows of data/gpus.csv by accelerator type."""
    return {row["accelerator"]: row for row in tables.records("gpus.csv")}


@functools.cache
def publishers() -> dict[str, dict[str, str]]:
    """The rows of data/images.csv by Google's project of public images."""
    return {row["project"]: row for row in tables.records("images.csv")}


@functools.cache
def zones() -> tuple[str, ...]:
    """Every zone, in the order of their names."""
    found = {f"{region}-{letter}" for region, row in places().items() for letter in row["zones"]}
    for names in (*accelerator_zones().values(), *_machine_zones().values()):
        found.update(names)
    return tuple(sorted(found))


@functools.cache
def regions() -> tuple[str, ...]:
    """Every region, in the order of their names."""
    return tuple(sorted({region_of(zone) for zone in zones()}))


def region_of(zone: str) -> str:
    """``us-central1`` of ``us-central1-a``."""
    return zone.rpartition("-")[0]


def offered(machine: str, zone: str) -> bool:
    """Whether ``zone`` sells ``machine``."""
    places = _machine_zones().get(machine)
    return machine in machines() and (zone in zones() if places is None else zone in places)


MODELS = ("STANDARD", "SPOT", "FLEX_START")
"""As `part_prices` orders them."""


def price_usd_h(machine: str, region: str, provisioning_model: str) -> float:
    """US dollars an hour of one VM, the sum of its parts; 0.0 where one of them has no price.

    Flex-start of a machine whose parts have none is its Spot price, as both are discounts of about half.
    """
    at = MODELS.index(provisioning_model) if provisioning_model in MODELS else 0
    total = Decimal(0)  # and stays so for a machine without parts
    for part, amount in parts(machine).items():
        price = part_prices().get((part, region), (None, None, None))[at]
        if price is None:
            return price_usd_h(machine, region, "SPOT") if provisioning_model == "FLEX_START" else 0.0
        total += price * amount
    return float(total)


_PARTS_OF_A_GPU = {"g4-standard-6": "0.125", "g4-standard-12": "0.25", "g4-standard-24": "0.5"}


def parts(machine: str) -> dict[str, Decimal]:
    """How much of each part of `part_prices` a machine is billed for: GPUs, cores, GiB of memory, GiB of
    local SSD by the hour. N1 and A4X have none; A4 is its GPUs alone.

    Source: bundled local SSD, docs.cloud.google.com/compute/docs/gpus (2026-04-14), read 2026-11-20.
    """
    one = machines().get(machine)
    if one is None or not one.accelerator or one.family == "a4x":
        return {}
    gpus = Decimal(_PARTS_OF_A_GPU.get(machine, one.gpus))
    if one.family == "a4":
        return {one.accelerator: gpus}
    series = "A3Plus" if one.accelerator == "nvidia-h100-mega-80gb" else one.family.upper()
    ssd_gib = {"a3": 750, "a2": 375 if "ultra" in machine else 0}.get(one.family, 0) * gpus
    return {
        one.accelerator: gpus,
        f"{series} core": Decimal(one.vcpus),
        f"{series} ram": Decimal(one.memory_mib) / 1024,
        **({"local SSD": ssd_gib / 730} if ssd_gib else {}),
    }


@functools.cache
def part_prices() -> dict[tuple[str, str], tuple[Decimal | None, ...]]:
    """US dollars by (part, region) as standard, spot and flex-start; parts are an accelerator type,
    ``G2 core``, ``G2 ram`` and ``local SSD``.
    """
    return {
        (row["part"], row["region"]): tuple(
            Decimal(row[model]) if row[model] else None for model in ("standard", "spot", "flex_start")
        )
        for row in tables.records("skus.csv")
    }
