"""Read the SKUs of the Cloud Billing catalog, and sum machines' prices from them. Pure.

The list has some 32,000 SKUs, and only descriptions tell them apart: Flex-start ("DWS Defined Duration") and
reserved SKUs say ``OnDemand`` too, some Spot ones as well. So a SKU counts only where its whole description,
less the words for how it is bought and where, is one of the names in ``skus.csv``; nothing is found inside
another name. Sources of these words: as of that table, 2026-11-21.
"""

from __future__ import annotations

import re
from collections.abc import Iterable, Iterator, Mapping
from decimal import Decimal
from fractions import Fraction
from typing import Any

from . import load
from .models import Machine, ProvisioningModel

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
