"""Rebuild the catalog's dated tables, prices and places, from Google's own lists.

::

    refresh(GoogleClient(project="my-project"), dry_run=True)     what changed; nothing is written
    refresh(GoogleClient(project="my-project"))                   write the user's tables, used from now on

The list has some 32,000 SKUs, and only descriptions tell them apart: Flex-start ("DWS Defined Duration") and
reserved SKUs say ``OnDemand`` too, some Spot ones as well. So a SKU counts only where its whole description,
less the words for how it is bought and where, is one of the names in ``skus.csv``; nothing is found inside
another name. Sources of these words: as of that table, 2026-11-21.
"""

from __future__ import annotations

import csv
import enum
import io
import os
import re
import runpy
import sys
from collections import defaultdict
from collections.abc import Iterable, Iterator, Mapping
from datetime import datetime, timezone
from decimal import Decimal
from fractions import Fraction
from typing import Any

import attrs

from gputrain import catalog
from gputrain.catalog import Machine, ProvisioningModel, Stage, load, region_of
from gputrain.catalog.load import FIGURES, Row
from gputrain.display.table import Table, TableDisplay
from gputrain.errors import ProviderError, RequestError
from gputrain.google import Api, GoogleClient, Listing
from gputrain.google.compute_lists import NO_ITEMS, list_all_zones
from gputrain.google.forms import Json, mappings, whole_number
from gputrain.retry import READ
from gputrain.runtime import host
from gputrain.times import picked, plain

__all__ = ["Change", "ChangeKind", "Refreshed", "refresh"]

Part = str
"""What a price is made of: ``gpu L4``, ``core A2``, ``ram A2``, ``ssd``, or ``whole B200``: a GPU with its
share of the machine. Memory and local SSD count in GiB."""
Bill = tuple[tuple[Part, Fraction], ...]
"""The parts of a machine, and how many units of each."""
Rates = dict[tuple[Part, ProvisioningModel, str], Decimal]
"""US dollars an hour for one unit of a part, by how it is bought and region."""

_UNITS = {"ram": {"GiBy.h": 1}, "ssd": {"GiBy.mo": 730, "GiBy.h": 1}}
"""The units that a part may be priced in, and the hours that Google counts each as; else by the hour."""
EIGHTH = "whole 1/8 RTX-PRO-6000"
"""An eighth of an RTX PRO 6000 with its share of a G4: the parts of that GPU have a price of their own."""
_PARTS = {row["description"]: row["part"] for row in load.rows("skus")}
_WHERE = re.compile(r"(?: running)?(?: in [^:]+)?")
_BOUGHT = (
    (ProvisioningModel.FLEX_START, "DWS Defined Duration ", " attached to DWS Defined Duration VMs"),
    (ProvisioningModel.SPOT, "Spot Preemptible ", " attached to Spot Preemptible VMs"),
    (ProvisioningModel.SPOT, "Preemptible ", " attached to Preemptible VMs"),
)
_NOT_FOR_ALL = re.compile(
    r"Calendar Mode|Flex Start|Reserved|Commitment|Sole Tenancy|Custom|Premium|suspended|Capacity Optimized",
    re.IGNORECASE,
)
Places = frozenset[str]
"""Zones, and the regions that they are in or of which no zone is known."""
Sold = Mapping[str, Places]
"""Where each machine type and kind of GPU is."""
Figures = Mapping[ProvisioningModel, Decimal]
PriceKey = tuple[str, str]
"""Machine type or kind of attached GPU, and region."""

COMPUTE_ENGINE = "services/6F81-5844-456A"
"""Compute Engine's name in the Cloud Billing catalog. Source: read 2026-11-20."""
_LISTS = "Compute Engine API: aggregated lists of machineTypes and acceleratorTypes"
_BILLING = f"Cloud Billing API: {COMPUTE_ENGINE}/skus"
_SKU = "description,category(usageType),serviceRegions,pricingInfo(pricingExpression(usageUnit,tieredRates))"
_ZONE = re.compile(r"[a-z][a-z0-9-]{2,40}-[a-z][a-z0-9]*")
_RETIRED = frozenset({"OBSOLETE", "DELETED"})
"""States of what can no longer be created. Source: compute v1 DeprecationStatus, read 2026-11-20."""
_ROUNDING = Decimal("0.00001")
"""Less than this is the rounding of the list before, not a change."""


class ChangeKind(enum.Enum):
    """What happened."""

    NEW_GPU = "new GPU, not added"
    """Google lists a GPU that the catalog does not know."""
    NEW_MACHINE = "new machine type, not added"
    """Its terms of sale and its network are in no API."""
    GONE = "gone"
    """Listed nowhere any more: a machine type, or a GPU that is attached."""
    PLACES_ADDED = "zones added"
    PLACES_REMOVED = "zones removed"
    PRICE_CHANGED = "price changed"
    PRICE_NEW = "price new"
    PRICE_GONE = "price gone"
    SKU_UNREAD = "SKU not understood"


@attrs.frozen(kw_only=True)
class Change(TableDisplay):
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


@attrs.frozen(kw_only=True)
class Refreshed(TableDisplay):
    """What a refresh found, and the folder it wrote ``prices.csv`` and ``places.csv`` to."""

    day: str
    changes: tuple[Change, ...]
    folder: str
    is_written: bool
    left_out: tuple[str, ...] = ()
    """What Google could not read; nothing was taken out of the tables there."""

    @property
    def table(self) -> Table:
        """The changes, for people: new and lost prices are counted, and so are long lists of places."""
        order = list(ChangeKind)
        groups: dict[tuple[object, ...], list[Change]] = {}
        for one in sorted(self.changes, key=lambda one: (order.index(one.kind), one.of)):
            region = "" if one.kind in (ChangeKind.PRICE_NEW, ChangeKind.PRICE_GONE) else one.region
            groups.setdefault((one.kind, one.of, one.provisioning_model, region), []).append(one)
        where = f"written to {self.folder}" if self.is_written else f"nothing was written to {self.folder}"
        partial = f"; not read: {', '.join(self.left_out)}" if self.left_out else ""
        count = f"{len(self.changes)} changes" if self.changes else "nothing changed"
        return Table(
            title=f"Catalog of {self.day}",
            columns=("change", "of", "region", "provisioning model", "before", "now", "%"),
            rows=[_line(some) for some in groups.values()],
            right=("before", "now", "%"),
            caption=f"{count}; {where}{partial}",
        )

    def to_dict(self) -> dict[str, Any]:
        """The same as JSON holds it, with every change."""
        return {
            **picked(self, "day folder is_written left_out"),
            "changes": [change.to_dict() for change in self.changes],
        }


def _line(changes: list[Change]) -> tuple[str, ...]:
    first = changes[0]
    region, before, now = first.region, first.before, first.now
    if len(changes) > 1:
        region, before, now = f"{len(changes)} regions", "", ""
    if first.kind in (ChangeKind.PLACES_ADDED, ChangeKind.PLACES_REMOVED):
        before, now = (f"{n} places" if (n := len(one.split())) > 3 else one for one in (before, now))
    percent = "" if first.percent is None else f"{first.percent:+.1f}"
    return first.kind.value, first.of, region, first.provisioning_model, before, now, percent


def refresh(access: GoogleClient, *, dry_run: bool = False, folder: str | None = None) -> Refreshed:
    """Read Google's lists, and use what they say today instead of the tables built in.

    Reads only: three lists, some 80 requests. Processes started afterwards answer from the new tables;
    removing them brings the built-in ones back.

    Args:
        access: whose project to ask. Needs ``compute.machineTypes.list``, ``compute.acceleratorTypes.list``
            and ``serviceusage.services.use``, and the APIs compute and cloudbilling switched on.
        dry_run: write nothing.
        folder: where to write ``prices.csv`` and ``places.csv``; by default where the catalog looks for them.

    Returns:
        What changed against the tables before: the folder's, or without them the built-in.

    Raises:
        AccessError: an API is off, or a permission is missing.
        ProviderError: the lists hold nothing of what they must hold.
        RequestError: the tables cannot be written.
        TransientError: no answer for five minutes.
    """
    folder = folder or load.folder()
    before = {name: load.merged(name, load.user_rows(folder, name)) for name in load.COLUMNS}
    machine = "name,zone,guestCpus,memoryMb,accelerators,deprecated"
    seen = inventory(
        list_all_zones(access, "machineTypes", fields=machine, policy=READ).listing,
        list_all_zones(access, "acceleratorTypes", fields="name,zone,deprecated", policy=READ).listing,
    )
    listed: Listing[Json] = access.list_all(
        f"{access.url(Api.CLOUDBILLING)}/v1/{COMPUTE_ENGINE}/skus",
        action="read the price list",
        items="skus",
        params={"pageSize": "5000", "currencyCode": "USD", "fields": f"skus({_SKU}),nextPageToken"},
        headers={"x-goog-user-project": access.project},  # whose API has to be on: the address names none
    )
    rates, odd = rates_of(listed.items)
    _check_plausible(seen, rates, odd)
    day = datetime.fromtimestamp(access.now(), tz=timezone.utc).date().isoformat()
    tables, changes = rebuilt(before, seen, rates, day=day)
    if not dry_run:
        for name, rows in tables.items():
            write(folder, name, rows)
    unread = tuple(Change(kind=ChangeKind.SKU_UNREAD, of=name, now=why) for name, why in odd)
    left_out = (*seen.left_out, *listed.missing)
    return Refreshed(
        day=day, changes=(*changes, *unread), folder=folder, is_written=not dry_run, left_out=left_out
    )


@attrs.frozen(kw_only=True)
class Inventory:
    """What Compute Engine lists, and what could not be read."""

    machines: Mapping[str, Json]
    """Machine types with NVIDIA GPUs."""
    zones: Mapping[str, frozenset[str]]
    """By machine type, and by Google's name of a GPU."""
    left_out: tuple[str, ...] = ()
    """Zones that did not answer, or other words where Google names none."""

    def may_hold(self, place: str) -> bool:
        """Whether a zone, or a region, may have more than was read of it."""
        return any(place in (one, region_of(one)) or not _ZONE.fullmatch(one) for one in self.left_out)


_ACCELERATORS = {g.kind: g.accelerator_type for g in catalog.gpus() if g.lifecycle.stage is not Stage.GONE}
_MACHINES = {one.machine_type: one for one in catalog.machines() if one.gpu}
_ATTACHED = sorted({row.gpu for row in catalog.attachments()})


def inventory(machines: Listing[Json], accelerators: Listing[Json]) -> Inventory:
    """What the two lists say together: what has NVIDIA GPUs, and can still be created."""
    listed = {str(one.get("name")): one for one in filter(_can_be_made, machines.items)}
    found = {name: one for name, one in listed.items() if _carried(one)[0].startswith("nvidia-")}
    zones: defaultdict[str, set[str]] = defaultdict(set)
    for one in filter(_can_be_made, (*machines.items, *accelerators.items)):
        name, zone = str(one.get("name")), str(one.get("zone", "")).rpartition("/")[2]  # or its address
        if name in found or name.startswith("nvidia-"):
            zones[name].update(filter(_ZONE.fullmatch, [zone]))
    return Inventory(
        machines=found,
        zones={name: frozenset(ones) for name, ones in zones.items()},
        left_out=tuple(dict.fromkeys((*machines.missing, *accelerators.missing))),
    )


def _carried(machine: Json) -> tuple[str, str]:
    """Google's name of the GPUs of a machine type, and how many it has."""
    gpus = next(iter(mappings(machine.get("accelerators"))), {})
    return str(gpus.get("guestAcceleratorType")), str(gpus.get("guestAcceleratorCount"))


def _can_be_made(document: Json) -> bool:
    deprecated = document.get("deprecated")
    return not isinstance(deprecated, Mapping) or str(deprecated.get("state")) not in _RETIRED


def rebuilt(
    before: Mapping[str, Iterable[Row]], seen: Inventory, rates: Rates, *, day: str
) -> tuple[dict[str, tuple[Row, ...]], tuple[Change, ...]]:
    """The new tables and what changes, from those that are used now. Pure."""
    old = places_of(before["places"])
    new = {of: _places_now(of, one, seen) for of, one in old.items()}
    prices, moved = merged_prices(before["prices"], prices_of(rates, new), new, day=day)
    places = tuple(
        {"list": f"{'machine' if of in _MACHINES else 'gpu'}-{what}", "of": of,
         "places": " ".join(sorted(found)), "source": _LISTS, "dated": day}
        for of, one in sorted(new.items())
        for what, found in (("regions", one - _zones(one)), ("zones", _zones(one)))
    )  # fmt: skip
    return {"prices": prices, "places": places}, (*_place_changes(old, new, seen), *moved)


def places_of(rows: Iterable[Row]) -> dict[str, Places]:
    """By machine type and kind of GPU; a machine without zones of its own has its GPU's."""
    listed: defaultdict[tuple[str, str], frozenset[str]] = defaultdict(frozenset)
    listed |= {
        (row["list"], of): frozenset(row["places"].split()) for row in rows for of in row["of"].split()
    }
    found = {kind: listed["gpu-zones", kind] | listed["gpu-regions", kind] for kind in _ACCELERATORS}
    for name, machine in _MACHINES.items():
        regions = listed["machine-regions", name]
        zones = listed["machine-zones", name] or found[machine.gpu or ""]
        found[name] = regions.union(zone for zone in zones if region_of(zone) in regions)
    return found


def _zones(places: Places) -> Places:
    return frozenset(one for one in places if one != region_of(one))


def _places_now(of: str, before: Places, seen: Inventory) -> Places:
    """Where it is by the lists; a zone that did not answer keeps what it had."""
    zones = seen.zones.get(_ACCELERATORS.get(of, of), frozenset()).union(filter(seen.may_hold, before))
    return zones.union(map(region_of, zones))


def _place_changes(
    before: Mapping[str, Places], now: Mapping[str, Places], seen: Inventory
) -> Iterator[Change]:
    """GPUs and machines first, then places."""
    known = {gpu.accelerator_type for gpu in catalog.gpus()}
    carried = {of: _carried(one)[0] for of, one in seen.machines.items()}
    listed = {*seen.zones, *carried.values()} - {*seen.machines, *known}
    for name in sorted(name for name in listed if not name.endswith("-vws")):
        carriers = (seen.zones[of] for of, gpus in carried.items() if gpus == name)
        zones = seen.zones.get(name, frozenset()).union(*carriers)
        yield Change(kind=ChangeKind.NEW_GPU, of=name, now=f"in {len(zones)} zones")
    for name in sorted(seen.machines.keys() - _MACHINES):
        machine, gpus = seen.machines[name], " x ".join(reversed(_carried(seen.machines[name])))
        gib = (whole_number(machine.get("memoryMb")) or 0) / 1024
        size = f"{gpus}, {machine.get('guestCpus')} vCPUs, {gib:g} GiB"
        yield Change(kind=ChangeKind.NEW_MACHINE, of=name, now=f"{size}, in {len(seen.zones[name])} zones")
    for of in (*_ATTACHED, *_MACHINES):
        old, new = before[of], now[of]
        if old and not new:
            yield Change(kind=ChangeKind.GONE, of=of, before=f"in {len(old - _zones(old))} regions")
            continue
        removed = (old - new).difference(map(region_of, _zones(old)))  # a region, if no zone of it was known
        if added := " ".join(sorted(_zones(new - old))):
            yield Change(kind=ChangeKind.PLACES_ADDED, of=of, now=added)
        if removed:
            yield Change(kind=ChangeKind.PLACES_REMOVED, of=of, before=" ".join(sorted(removed)))


def prices_of(rates: Rates, sold: Sold) -> dict[PriceKey, Figures]:
    """Every price that the parts add up to, where the machine is sold."""
    billed: dict[str, tuple[Bill, ...]] = {name: tuple(bills(one)) for name, one in _MACHINES.items()}
    billed |= {kind: (((f"gpu {kind}", Fraction(1)),),) for kind in _ATTACHED}
    found: dict[PriceKey, Figures] = {}
    for what, ways in billed.items():
        for region in sorted(sold.get(what, ())):
            sums = (
                {model: usd for model in FIGURES.values() if (usd := sum_of(bill, rates, region, model))}
                for bill in ways
            )
            figures = next(filter(None, sums), None)  # one bill for a machine, not a mix of two
            if figures:
                found[what, region] = figures
    return found


def merged_prices(
    before: Iterable[Row], found: Mapping[PriceKey, Figures], sold: Sold, *, day: str
) -> tuple[tuple[Row, ...], tuple[Change, ...]]:
    """The new table and what changed. A price that is not in the list any more keeps its old date."""
    old: defaultdict[PriceKey, list[Row]] = defaultdict(list)
    for row in before:
        old[row["what"], row["region"]].append(row)
    rows: dict[PriceKey, list[Row]] = {}
    changes: list[Change] = []
    for key, figures in found.items():
        # no more digits than it needs
        usd = {column: f"{figures[m].normalize():f}" if m in figures else "" for column, m in FIGURES.items()}
        rows[key] = [{"what": key[0], "region": key[1], **usd, "source": _BILLING, "dated": day}]
    rows |= {key: row for key, row in old.items() if key not in rows and key[1] in sold.get(key[0], ())}
    for key in sorted(old.keys() | rows.keys()):
        changes += _price_changes(key, old.get(key, []), rows.get(key, []))
    return tuple(row for key in sorted(rows) for row in rows[key]), tuple(changes)


def _price_changes(key: PriceKey, before: Iterable[Row], now: Iterable[Row]) -> Iterator[Change]:
    for column, model in FIGURES.items():
        old, new = (next((row[column] for row in some if row[column]), "") for some in (before, now))
        if old == new or (old and new and abs(Decimal(old) - Decimal(new)) < _ROUNDING):
            continue
        lone = ChangeKind.PRICE_NEW if new else ChangeKind.PRICE_GONE
        kind = ChangeKind.PRICE_CHANGED if old and new else lone
        yield Change(kind=kind, of=key[0], region=key[1], provisioning_model=str(model), before=old, now=new)


def _check_plausible(seen: Inventory, rates: Rates, odd: tuple[object, ...]) -> None:
    """An empty list must not empty the catalog."""
    if not seen.machines.keys() & _MACHINES.keys() and set(seen.left_out) <= {NO_ITEMS}:
        raise ProviderError(
            "Compute Engine lists no machine type with GPUs",
            why="its list came, and holds none of those that the catalog knows",
            fix="check that the project is the one you mean; nothing was changed",
        )
    if not rates:
        raise ProviderError(
            "the price list holds no GPU machine's price",
            why=f"{len(odd)} SKUs that should were not understood",
            fix="the names of SKUs may have changed: look for a newer gputrain; nothing was changed",
        )


def write(folder: str, name: str, rows: Iterable[Row]) -> None:
    """Replace a user's table in one step.

    Raises:
        RequestError: it cannot be written there.
    """
    text = io.StringIO(newline="")
    writer = csv.DictWriter(text, load.COLUMNS[name], lineterminator="\n")
    writer.writeheader()
    writer.writerows(rows)
    try:
        os.makedirs(folder, mode=0o700, exist_ok=True)
        host.put(os.path.join(folder, f"{name}.csv"), text.getvalue())
    except OSError as error:
        what = f"the refreshed catalog cannot be written to {folder}"
        fix = "set $GPUTRAIN_CATALOG to a folder that you may write to"
        raise RequestError(what, why=str(error), fix=fix) from error


# The parts of prices, by their SKUs


class OddSkuError(ValueError):
    """A SKU of a part that we know, with a price in a form that we do not know."""


def rates(sku: Mapping[str, Any]) -> Rates:
    """What a SKU prices, exactly; nothing where it is none of a GPU machine's parts or costs nothing.

    Raises:
        OddSkuError: it is one, and its price cannot be read: other money, other units, a price by tiers.
    """
    category, regions = sku.get("category"), sku.get("serviceRegions")
    usage = category.get("usageType") if isinstance(category, Mapping) else ""
    named = meaning(str(sku.get("description", "")), str(usage))
    if named is None or not isinstance(regions, list):
        return {}
    usd_h = _usd_h(sku, named[0])
    return {(*named, str(region)): usd_h for region in regions} if usd_h else {}


def meaning(description: str, usage_type: str) -> tuple[Part, ProvisioningModel] | None:
    """The part that a description names, and how it is bought; None where it is not ours."""
    if _NOT_FOR_ALL.search(description):
        return None
    name = " ".join(description.split())
    model = ProvisioningModel.SPOT if usage_type == "Preemptible" else ProvisioningModel.STANDARD
    for bought, prefix, attached in _BOUGHT:
        if name.startswith(prefix) or attached in name:
            name, model = name.removeprefix(prefix).replace(attached, "", 1), bought
            break
    usages = ("Preemptible", "OnDemand") if model is ProvisioningModel.SPOT else ("OnDemand",)
    names = (known for known in _PARTS if name.startswith(known) and _WHERE.fullmatch(name[len(known) :]))
    found = next(names, None)
    return (_PARTS[found], model) if found and usage_type in usages else None


def _usd_h(sku: Mapping[str, Any], part: Part) -> Decimal:
    """The latest price of one unit for an hour; the list is in order of time."""
    hours = _UNITS.get(part.partition(" ")[0], {"h": 1})
    try:
        expression = sku["pricingInfo"][-1]["pricingExpression"]
        (tier,) = expression["tieredRates"]  # of several, the price depends on how much is used
        price, unit = tier["unitPrice"], expression["usageUnit"]
        usd = Decimal(int(price.get("units") or 0)) + Decimal(int(price.get("nanos") or 0)).scaleb(-9)
        if price["currencyCode"] != "USD" or usd < 0:
            raise ValueError(price)
        return usd / hours[unit]
    except (LookupError, TypeError, AttributeError, ValueError, ArithmeticError) as error:
        why = f"{type(error).__name__}: {error}"[:80]
        raise OddSkuError(f"it has no plain price in US dollars ({why})") from None


def rates_of(skus: Iterable[Mapping[str, Any]]) -> tuple[Rates, tuple[tuple[str, str], ...]]:
    """The prices of all parts in a list of SKUs; and each SKU that was not understood, with the reason.

    A part with two prices in a region has none there.
    """
    known: Rates = {}
    odd: dict[object, tuple[str, str]] = {}
    for sku in skus:
        name = str(sku.get("description", ""))[:256]
        try:
            found = rates(sku)
        except OddSkuError as error:
            odd[object()] = name, str(error)
            continue
        for key, usd_h in found.items():
            if known.setdefault(key, usd_h) != usd_h:
                odd[key] = name, f"{usd_h:f} in {key[2]}, and {known[key]:f}: one part, two prices"
    return {key: usd_h for key, usd_h in known.items() if key not in odd}, tuple(odd.values())


def bills(machine: Machine) -> Iterator[Bill]:
    """The ways in which a machine may be billed, the most particular first; none where it is not settled."""
    gpus = Fraction(machine.gpu_count)
    if machine.family.name == "A4":
        yield (("whole B200", gpus),)
    if 0 < gpus < 1:
        yield ((EIGHTH, gpus * 8),)
    if series := machine.family.billed_as:
        amounts: dict[Part, Fraction | float] = {
            f"gpu {machine.gpu}": gpus,
            f"core {series}": machine.vcpus,
            f"ram {series}": machine.memory_gib,
            "ssd": machine.local_ssd_gib,
        }
        yield tuple((part, Fraction(amount)) for part, amount in amounts.items() if amount)


def sum_of(bill: Bill, rates: Rates, region: str, model: ProvisioningModel) -> Decimal | None:
    """A machine's price in dollars an hour, or None where a part of it has no price."""
    total = Decimal(0)
    for part, amount in bill:
        one = rates.get((part, model, region))
        if one is None:
            return None
        total += one * amount.numerator / amount.denominator
    return total.quantize(Decimal("0.000001"))


if __name__ == "__main__":  # the command `gputrain catalog refresh`
    sys.argv[1:1] = ["catalog", "refresh"]
    runpy.run_module("gputrain", run_name="__main__")
