"""The price list, summed anew from the parts that Cloud Billing prices. Pure."""

from __future__ import annotations

from collections.abc import Iterable, Iterator, Mapping
from decimal import Decimal
from fractions import Fraction

import attrs

from gputrain import catalog
from gputrain.catalog import Machine, ProvisioningModel
from gputrain.catalog.load import MOST_USD_H
from gputrain.catalog.machine_types import ATTACHMENTS
from gputrain.refresh.places import Places, Rows
from gputrain.refresh.skus import EIGHTH, Meter, OddSkuError, Part, Rate, rate
from gputrain.refresh.stock import Change, ChangeKind, Json

MODELS = (ProvisioningModel.STANDARD, ProvisioningModel.SPOT, ProvisioningModel.FLEX_START)
"""In the order of the table's columns."""

_SERIES = {
    "A2 Ultra": "A2",
    "A2 Standard": "A2",
    "A3 High": "A3",
    "A3 High 1-4": "A3",
    "A3 Mega": "A3Plus",
    "G2": "G2",
    "G4": "G4",
}
"""Google's word for the cores and memory of a family. A3 Ultra's and A3 Edge's sums are not settled, and A4X
has no SKUs: without a row here there is no price."""

_MILLIONTH = Decimal("0.000001")
_ROUNDING = Decimal("0.00001")
"""Less than this is the rounding of the list before, not a change."""

_Figures = Mapping[ProvisioningModel, Decimal]
_Key = tuple[str, str]
"""Machine type or attached GPU kind, and region."""


@attrs.frozen(kw_only=True)
class PriceBook:
    """What each part costs, by region and by how it is bought."""

    rates: Mapping[tuple[Part, ProvisioningModel, str], Decimal]
    odd: tuple[Change, ...] = ()
    """SKUs that were not understood, and parts with two prices, which then have none."""

    def sum_of(self, bill: Bill, region: str, model: ProvisioningModel) -> Decimal | None:
        """A machine's price in dollars an hour, or None where a part of it has no price."""
        total = Decimal(0)
        for part, amount in bill:
            one = self.rates.get((part, model, region))
            if one is None:
                return None
            total += one * amount.numerator / amount.denominator
        return total.quantize(_MILLIONTH) if bill else None


Bill = tuple[tuple[Part, Fraction], ...]


def book(skus: Iterable[Json]) -> PriceBook:
    """The prices of all parts in a list of SKUs."""
    rates: dict[tuple[Part, ProvisioningModel, str], Decimal] = {}
    odd: list[Change] = []
    torn: dict[tuple[Part, ProvisioningModel, str], Change] = {}
    for sku in skus:
        name = str(sku.get("description", ""))[:256]
        try:
            found = rate(sku)
        except OddSkuError as error:
            odd.append(Change(kind=ChangeKind.SKU_UNREAD, of=name, now=str(error)))
            continue
        if found is None:
            continue
        for region in found.regions:
            key = (found.part, found.model, region)
            before = rates.setdefault(key, found.usd_h)
            if before != found.usd_h:
                torn[key] = _two_prices(name, found, region, before)
    for key in torn:
        del rates[key]
    return PriceBook(rates=rates, odd=(*odd, *torn.values()))


def _two_prices(name: str, found: Rate, region: str, before: Decimal) -> Change:
    return Change(
        kind=ChangeKind.SKU_UNREAD, of=name, region=region, provisioning_model=str(found.model),
        before=text(before), now=f"{text(found.usd_h)}: one part, two prices",
    )  # fmt: skip


def bills(machine: Machine) -> Iterator[Bill]:
    """The ways in which a machine may be billed, the most particular first; none where it is not settled."""
    gpus = Fraction(machine.gpu_count)
    if machine.family.name == "A4":
        yield ((Part(meter=Meter.WHOLE, of="B200"), gpus),)
    if 0 < gpus < 1:
        yield ((EIGHTH, gpus * 8),)
    series = _SERIES.get(machine.family.name)
    if series:
        ssd = ((Part(meter=Meter.SSD), Fraction(machine.local_ssd_gib)),) if machine.local_ssd_gib else ()
        yield (
            (Part(meter=Meter.GPU, of=machine.gpu or ""), gpus),
            (Part(meter=Meter.CORE, of=series), Fraction(machine.vcpus)),
            (Part(meter=Meter.RAM, of=series), Fraction(machine.memory_gib)),
            *ssd,
        )


def refreshed(prices: PriceBook, places: Places) -> dict[_Key, dict[ProvisioningModel, Decimal]]:
    """Every price that the parts add up to, where the machine is sold."""
    billed = {m.machine_type: tuple(bills(m)) for m in catalog.machines() if m.gpu}
    for kind in dict.fromkeys(row.gpu for row in ATTACHMENTS):
        billed[kind] = (((Part(meter=Meter.GPU, of=kind), Fraction(1)),),)
    found: dict[_Key, dict[ProvisioningModel, Decimal]] = {}
    for what, ways in billed.items():
        for region in sorted(places.regions_of(what)):
            sums = ({model: prices.sum_of(bill, region, model) for model in MODELS} for bill in ways)
            told = ({model: usd_h for model, usd_h in one.items() if usd_h} for one in sums)
            figures = next((one for one in told if one), None)  # one bill for a machine, not a mix of two
            if figures:
                found[what, region] = figures
    return found


def merged(
    base: Rows, found: Mapping[_Key, _Figures], places: Places, source: str
) -> tuple[Rows, tuple[Change, ...]]:
    """The new table and what changed. A price that the list does not tell any more keeps its old date.

    A row whose spot price is above its standard price is refused: one of the two is not what it seems,
    and nobody can say which.
    """
    before = {(row[0], row[1]): row for row in base}
    rows: dict[_Key, tuple[str, ...]] = {}
    changes: list[Change] = []
    for key, figures in found.items():
        doubt = _doubt(figures)
        if doubt:
            changes.append(Change(kind=ChangeKind.PRICE_REFUSED, of=key[0], region=key[1], now=doubt))
            continue
        rows[key] = (*key, *(text(figures[m]) if m in figures else "" for m in MODELS), source)
    for key, row in before.items():
        if key not in rows and key[1] in places.regions_of(key[0]):
            rows[key] = row
    for key in sorted(before.keys() | rows.keys()):
        changes += _differences(key, before.get(key), rows.get(key))
    return tuple(rows[key] for key in sorted(rows)), tuple(changes)


def _differences(key: _Key, before: tuple[str, ...] | None, now: tuple[str, ...] | None) -> Iterator[Change]:
    for at, model in enumerate(MODELS, start=2):
        old, new = before[at] if before else "", now[at] if now else ""
        if old == new or (old and new and abs(Decimal(old) - Decimal(new)) < _ROUNDING):
            continue
        lone = ChangeKind.PRICE_NEW if new else ChangeKind.PRICE_GONE
        kind = ChangeKind.PRICE_CHANGED if old and new else lone
        yield Change(kind=kind, of=key[0], region=key[1], provisioning_model=str(model), before=old, now=new)


def _doubt(figures: _Figures) -> str:
    """Why prices are not believed; empty where they are."""
    standard, spot = figures.get(ProvisioningModel.STANDARD), figures.get(ProvisioningModel.SPOT)
    if standard and spot and spot > standard:
        return f"spot {text(spot)} is above standard {text(standard)}"
    dearest = max(figures.values())
    return f"{text(dearest)} an hour" if dearest >= MOST_USD_H else ""


def text(figure: Decimal) -> str:
    """A price as the table has it: no more digits than it needs."""
    return f"{figure.normalize():f}"
