"""The lists of places, built anew from what Compute Engine lists. Pure."""

from __future__ import annotations

from collections.abc import Iterator, Mapping

import attrs

from gputrain import catalog
from gputrain.catalog import Machine, Stage
from gputrain.catalog.machine_types import ATTACHMENTS
from gputrain.refresh.stock import Change, ChangeKind, Stock, StockedType, regions_of

Rows = tuple[tuple[str, ...], ...]
Sets = Mapping[str, frozenset[str]]
_ATTACHED = frozenset(row.gpu for row in ATTACHMENTS)


@attrs.frozen(kw_only=True)
class Places:
    """Zones and regions by machine type and by GPU kind."""

    machine_zones: Sets
    machine_regions: Sets
    gpu_zones: Sets
    gpu_regions: Sets

    def regions_of(self, what: str) -> frozenset[str]:
        """Where a machine type is sold, or a GPU that is attached."""
        of_gpu = self.gpu_regions.get(what, frozenset())
        return self.machine_regions.get(what, of_gpu)

    def rows(self, source: str) -> Rows:
        """As the catalog's table has them."""
        return tuple(
            (name, of, source, " ".join(sorted(places)))
            for name in ("machine-regions", "machine-zones", "gpu-zones", "gpu-regions")
            for of, places in sorted(getattr(self, name.replace("-", "_")).items())
        )


def of_rows(rows: Rows) -> Places:
    """The places that a table of the catalog tells; a machine without a list of its own has its GPU's."""
    told = {
        (name, of): frozenset(places.split()) for name, names, _, places in rows for of in names.split(",")
    }
    gpu_zones = {gpu.kind: told.get(("gpu-zones", gpu.kind), frozenset()) for gpu in _kinds()}
    names = [machine.machine_type for machine in _machines()]
    regions = {name: told.get(("machine-regions", name), frozenset()) for name in names}
    zones = {}
    for machine in _machines():
        own = told.get(("machine-zones", machine.machine_type)) or gpu_zones[machine.gpu or ""]
        sold_in = regions[machine.machine_type]
        zones[machine.machine_type] = frozenset(z for z in own if catalog.region_of(z) in sold_in)
    return Places(
        machine_zones=zones,
        machine_regions=regions,
        gpu_zones=gpu_zones,
        gpu_regions={kind: told.get(("gpu-regions", kind), frozenset()) for kind in sorted(_ATTACHED)},
    )


def refreshed(base: Places, stock: Stock) -> Places:
    """Where things are by the list; a zone that did not answer keeps what it had."""
    seen = {m.machine_type: stock.machines.get(m.machine_type) for m in _machines()}
    zones = {
        name: _kept(base.machine_zones[name], stock) | (one.zones if one else frozenset())
        for name, one in seen.items()
    }
    gpu_zones = {
        gpu.kind: _kept(base.gpu_zones[gpu.kind], stock) | stock.gpus.get(gpu.kind, frozenset())
        for gpu in _kinds()
    }
    return Places(
        machine_zones=zones,
        machine_regions={
            name: regions_of(found) | {r for r in base.machine_regions[name] if stock.may_hold_in(r)}
            for name, found in zones.items()
        },
        gpu_zones=gpu_zones,
        gpu_regions={
            kind: regions_of(gpu_zones[kind]) | {r for r in base.gpu_regions[kind] if stock.may_hold_in(r)}
            for kind in sorted(_ATTACHED)
        },
    )


def _kept(zones: frozenset[str], stock: Stock) -> frozenset[str]:
    return frozenset(zone for zone in zones if stock.may_hold(zone))


def changes(base: Places, now: Places, stock: Stock) -> Iterator[Change]:
    """What is otherwise: GPUs and machines first, then places."""
    for name, found in stock.new_gpus.items():
        yield Change(kind=ChangeKind.NEW_GPU, of=name, now=f"in {len(found)} zones")
    for one in stock.new_machines:
        yield Change(kind=ChangeKind.NEW_MACHINE, of=one.machine_type, now=str(one))
    for machine in _machines():
        seen = stock.machines.get(machine.machine_type)
        if seen and (differs := _difference(machine, seen)):
            before, told = differs
            yield Change(kind=ChangeKind.OTHER_MACHINE, of=machine.machine_type, before=before, now=told)
    for name, regions in base.machine_regions.items():
        moved = (base.machine_zones[name], now.machine_zones[name])
        yield from _moves(name, regions, now.machine_regions[name], *moved)
    for kind, regions in base.gpu_regions.items():
        moved = (base.gpu_zones[kind], now.gpu_zones[kind])
        yield from _moves(kind, regions, now.gpu_regions[kind], *moved)


def _moves(
    name: str,
    regions: frozenset[str],
    regions_now: frozenset[str],
    zones: frozenset[str],
    zones_now: frozenset[str],
) -> Iterator[Change]:
    if regions and not regions_now:
        yield Change(kind=ChangeKind.GONE, of=name, before=f"in {len(regions)} regions")
        return
    unplaced = regions - regions_of(zones)  # regions of which no zone was known
    added, removed = zones_now - zones, (zones - zones_now) | (unplaced - regions_now)
    if added:
        yield Change(kind=ChangeKind.PLACES_ADDED, of=name, now=" ".join(sorted(added)))
    if removed:
        yield Change(kind=ChangeKind.PLACES_REMOVED, of=name, before=" ".join(sorted(removed)))


def _difference(machine: Machine, seen: StockedType) -> tuple[str, str] | None:
    count = max(1, int(machine.gpu_count))  # APIs count a part of a GPU as 1
    gpu = catalog.find(machine.gpu or "").accelerator_type
    ours = (count, gpu, machine.vcpus, int(machine.memory_gib * 1024))
    theirs = (seen.gpu_count, seen.accelerator, seen.vcpus, seen.memory_mib)
    return None if ours == theirs else (_text(*ours), _text(*theirs))


def _text(count: int, gpu: str, vcpus: int, memory_mib: int) -> str:
    return f"{count} x {gpu}, {vcpus} vCPUs, {memory_mib / 1024:g} GiB"


def _machines() -> tuple[Machine, ...]:
    return tuple(machine for machine in catalog.machines() if machine.gpu)


def _kinds() -> tuple[catalog.Gpu, ...]:
    return tuple(gpu for gpu in catalog.gpus() if gpu.lifecycle.stage is not Stage.GONE)
