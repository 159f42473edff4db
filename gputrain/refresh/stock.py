"""What Compute Engine lists, zone by zone, and what is otherwise than the catalog has it. Pure."""

from __future__ import annotations

import enum
import re
from collections import defaultdict
from collections.abc import Collection, Iterable, Mapping
from itertools import groupby
from typing import Any

import attrs

from gputrain import catalog
from gputrain.catalog import Stage
from gputrain.gcp import Listing
from gputrain.tables import Shown, Table
from gputrain.times import plain

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


class ChangeKind(enum.Enum):
    """What happened."""

    NEW_GPU = "new GPU, not taken up"
    """Google lists a GPU that the catalog knows nothing of."""
    NEW_MACHINE = "new machine type, not taken up"
    """Its terms of sale and its network are in no API."""
    OTHER_MACHINE = "machine type differs"
    """Its GPUs, vCPUs or memory are not what the catalog says: the catalog is wrong, or a trap."""
    GONE = "gone"
    """Listed nowhere any more: a machine type, or a GPU that is attached."""
    PLACES_ADDED = "zones added"
    PLACES_REMOVED = "zones removed"
    PRICE_CHANGED = "price changed"
    PRICE_NEW = "price new"
    PRICE_GONE = "price gone"
    PRICE_REFUSED = "price refused"
    """Not believed, such as Spot above standard; the price before stays."""
    SKU_UNREAD = "SKU not understood"


@attrs.frozen(kw_only=True)
class Change(Shown):
    """One difference. ``before`` and ``now`` are as in the tables; prices in US dollars an hour."""

    kind: ChangeKind
    of: str
    """Machine type, GPU kind or SKU."""
    region: str = ""
    provisioning_model: str = ""
    before: str = ""
    now: str = ""

    @property
    def percent(self) -> float | None:
        """How much dearer, in percent of the price before; None for what is no changed price."""
        if self.kind is not ChangeKind.PRICE_CHANGED:
            return None
        return (float(self.now) / float(self.before) - 1) * 100

    def to_dict(self) -> dict[str, Any]:
        """As JSON holds it."""
        return {**plain(self), "percent": self.percent}


def table(changes: Iterable[Change], *, title: str, caption: str) -> Table:
    """The changes as a person reads them: what is alike stands in one row, and long lists are counted."""
    order = list(ChangeKind)
    ordered = sorted(changes, key=lambda one: (order.index(one.kind), _group(one)))
    return Table(
        title=title,
        columns=("change", "of", "region", "provisioning model", "before", "now", "%"),
        rows=tuple(_line(tuple(some)) for _, some in groupby(ordered, key=_group)),
        right=("before", "now", "%"),
        caption=caption,
    )


_COUNTED = (ChangeKind.PRICE_NEW, ChangeKind.PRICE_GONE)
_MOVED = (ChangeKind.PLACES_ADDED, ChangeKind.PLACES_REMOVED)
_MANY = 3


def _group(one: Change) -> tuple[str, ...]:
    """What changes in one row have in common; a changed price has a row of its own."""
    if one.kind in _COUNTED:
        return one.kind.value, one.of, one.provisioning_model
    if one.kind in _MOVED:
        return one.kind.value, one.before, one.now
    return one.kind.value, one.of, one.provisioning_model, one.region, one.before, one.now


def _line(rows: tuple[Change, ...]) -> tuple[str, ...]:
    first = rows[0]
    names = list(dict.fromkeys(row.of for row in rows))
    of = ", ".join(names) if len(names) < _MANY else f"{names[0]} and {len(names) - 1} more"
    region, before, now = first.region, first.before, first.now
    if first.kind in _MOVED:
        before, now = _counted(before, "places"), _counted(now, "places")
    if len(rows) > 1 and first.kind in _COUNTED:
        region = _counted(" ".join(row.region for row in rows), "regions")
        before, now = _range(row.before for row in rows), _range(row.now for row in rows)
    percent = "" if first.percent is None else f"{first.percent:+.1f}"
    return first.kind.value, of, region, first.provisioning_model, before, now, percent


def _counted(places: str, word: str) -> str:
    names = places.split()
    return ", ".join(names) if len(names) <= _MANY else f"{len(names)} {word}"


def _range(figures: Iterable[str]) -> str:
    known = sorted((figure for figure in figures if figure), key=float)
    return f"{known[0]} to {known[-1]}" if known else ""
