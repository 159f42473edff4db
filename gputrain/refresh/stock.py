"""What Compute Engine lists, zone by zone: what the catalog knows, and what it does not. Pure."""

from __future__ import annotations

import re
from collections import defaultdict
from collections.abc import Collection, Iterable, Mapping
from typing import Any

import attrs

from gputrain import catalog
from gputrain.catalog import Stage
from gputrain.gcp import Listing

Json = Mapping[str, Any]

_ZONE = re.compile(r"[a-z][a-z0-9-]{2,40}-[a-z][a-z0-9]*")
_GONE = frozenset({"OBSOLETE", "DELETED"})
"""States of what can no longer be created. Source: compute v1 DeprecationStatus, read 2026-11-20."""


@attrs.frozen(kw_only=True)
class StockedType:
    """A machine type with GPUs, as the API describes it."""

    machine_type: str
    accelerator: str
    gpu_count: int
    vcpus: int
    memory_mib: int
    zones: frozenset[str] = frozenset()

    def __str__(self) -> str:
        return (
            f"{self.gpu_count} x {self.accelerator}, {self.vcpus} vCPUs, {self.memory_mib / 1024:g} GiB, "
            f"in {len(self.zones)} zones"
        )


@attrs.frozen(kw_only=True)
class Stock:
    """Where each machine type and each GPU is listed, and what could not be read."""

    machines: Mapping[str, StockedType]
    """Those that the catalog knows."""
    gpus: Mapping[str, frozenset[str]]
    """Zones by the kind of the catalog."""
    new_machines: tuple[StockedType, ...]
    new_gpus: Mapping[str, frozenset[str]]
    """Zones by Google's word for a GPU that the catalog has none for."""
    left_out: tuple[str, ...] = ()
    """Zones that did not answer, or other words where Google names none."""

    def may_hold(self, zone: str) -> bool:
        """Whether a zone may have more than was read of it."""
        unnamed = any(not _ZONE.fullmatch(place) for place in self.left_out)
        return unnamed or zone in self.left_out

    def may_hold_in(self, region: str) -> bool:
        """Whether a zone of the region may have more than was read of it."""
        return self.may_hold("") or any(catalog.region_of(zone) == region for zone in self.left_out)


def stock(machines: Listing[Json], accelerators: Listing[Json]) -> Stock:
    """What the two lists say together."""
    known = {machine.machine_type for machine in catalog.machines() if machine.gpu}
    kinds = {gpu.accelerator_type: gpu for gpu in catalog.gpus()}
    carriers, unread = _with_gpus(machines.seen)
    seen = {one.machine_type: one for one in carriers}
    places = _places((str(one.get("name", "")), _zone(one)) for one in accelerators.seen if _is_made(one))
    foreign = {one.accelerator: one.zones for one in seen.values() if one.accelerator not in kinds}
    for name, zones in places.items():
        if name not in kinds and name.startswith("nvidia-") and not name.endswith("-vws"):
            foreign[name] = foreign.get(name, frozenset()) | zones
    return Stock(
        machines={name: one for name, one in seen.items() if name in known},
        gpus={
            kinds[name].kind: zones
            for name, zones in places.items()
            if name in kinds and kinds[name].lifecycle.stage is not Stage.GONE
        },
        new_machines=tuple(one for name, one in sorted(seen.items()) if name not in known),
        new_gpus=dict(sorted(foreign.items())),
        left_out=tuple(dict.fromkeys((*machines.left_out, *accelerators.left_out, *unread))),
    )


def _with_gpus(documents: Iterable[Json]) -> tuple[tuple[StockedType, ...], tuple[str, ...]]:
    """Each machine type with NVIDIA GPUs once, with all its zones; and what could not be understood."""
    first: dict[str, StockedType] = {}
    pairs, unread = [], []
    for one in documents:
        try:
            seen = _seen(one)
        except (LookupError, TypeError, ValueError, AttributeError, ArithmeticError):
            unread.append(f"machine type {str(one.get('name'))[:60]!r}")
            continue
        if seen is not None:
            first.setdefault(seen.machine_type, seen)
            pairs.append((seen.machine_type, _zone(one)))
    zones = _places(pairs)
    carriers = (attrs.evolve(one, zones=zones.get(name, frozenset())) for name, one in first.items())
    return tuple(carriers), tuple(unread)


def _seen(document: Json) -> StockedType | None:
    """One row of the list; None where it has no NVIDIA GPU, or can no longer be created."""
    carried = document.get("accelerators")
    if not carried or not _is_made(document):
        return None
    accelerator = str(carried[0]["guestAcceleratorType"])
    if not accelerator.startswith("nvidia-"):
        return None
    return StockedType(
        machine_type=str(document["name"]),
        accelerator=accelerator,
        gpu_count=int(carried[0]["guestAcceleratorCount"]),
        vcpus=int(document["guestCpus"]),
        memory_mib=int(document["memoryMb"]),
    )


def _is_made(document: Json) -> bool:
    """Whether it can still be created."""
    deprecated = document.get("deprecated")
    return not isinstance(deprecated, Mapping) or str(deprecated.get("state")) not in _GONE


def _zone(document: Json) -> str:
    """A zone by its name: some documents hold the name, others its address."""
    return str(document.get("zone", "")).rpartition("/")[2]


def _places(pairs: Iterable[tuple[str, str]]) -> dict[str, frozenset[str]]:
    found: defaultdict[str, set[str]] = defaultdict(set)
    for name, zone in pairs:
        if _ZONE.fullmatch(zone):
            found[name].add(zone)
    return {name: frozenset(zones) for name, zones in found.items()}


def regions_of(zones: Collection[str]) -> frozenset[str]:
    """The regions that zones lie in."""
    return frozenset(catalog.region_of(zone) for zone in zones)
