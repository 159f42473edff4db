"""The Cloud Billing catalog v1: the SKUs that GPU machines are billed by, and those that only look like them.

Names are as the public list has them (seen 2026-08 and 2026-09, read 2026-11-21); the prices of the look-
alikes are made up. Spot SKUs of the B200 are filed under OnDemand, as in the real list. The address names
no project: the API has to be on in the one that the caller names as payer (``x-goog-user-project``), else
in the first one. No permission is needed but to use that project.
"""

from __future__ import annotations

import zlib
from collections.abc import Iterator
from decimal import Decimal
from typing import Any

from gputrain_emulator import facts, tables, world
from gputrain_emulator.call import Call, numbered
from gputrain_emulator.clock import zulu_time
from gputrain_emulator.errors import ApiError, Style
from gputrain_emulator.routes import Service
from gputrain_emulator.world import World

_AMERICAS = ("us-central1", "us-east1", "us-west1")
"""Regions that share a SKU where their price is the same."""


class PriceList:
    """What each part of a machine costs; ``world.part(PriceList)``."""

    def __init__(self, world: World) -> None:
        self.world = world
        self.changed: dict[tuple[str, str, str], Decimal | None] = {}
        """By part, region and provisioning model; None is no longer sold."""

    def set_price(self, part: str, region: str, model: str, usd: Decimal | None) -> None:
        """What a part (``nvidia-l4``, ``G2 core``) costs from now on; None takes its SKU off the list."""
        if (part, region) not in facts.part_prices() or model not in facts.MODELS:
            raise LookupError(f"no such price: {part} in {region} as {model}")
        self.changed[part, region, model] = usd

    def price(self, part: str, region: str, model: str) -> Decimal | None:
        """Dollars for one unit, or None where it has no SKU."""
        listed = facts.part_prices()[part, region][facts.MODELS.index(model)]
        return self.changed.get((part, region, model), listed)

    def skus(self) -> list[dict[str, Any]]:
        """Every SKU, in an order that has nothing to do with what they are."""
        found = [*self._parts(), *_others()]
        return sorted(found, key=lambda sku: str(sku["skuId"]))

    def _parts(self) -> Iterator[dict[str, Any]]:
        for part in dict.fromkeys(part for part, _ in facts.part_prices()):
            for model in facts.MODELS:
                for place, regions, usd in self._priced(part, model):
                    yield _sku(_name(part, model, place), part, _usage(part, model), regions, usd)
                    if model == "STANDARD":
                        yield from _look_alikes(part, place, regions, usd)

    def _priced(self, part: str, model: str) -> Iterator[tuple[str, list[str], Decimal]]:
        prices = {
            region: usd
            for of, region in facts.part_prices()
            if of == part and (usd := self.price(part, region, model)) is not None
        }
        americas = [region for region in _AMERICAS if region in prices]
        if len(americas) > 1 and len({prices[region] for region in americas}) == 1:
            yield "Americas", americas, prices[americas[0]]
            prices = {region: usd for region, usd in prices.items() if region not in americas}
        for region, usd in prices.items():
            yield facts.places()[region]["place"] or region, [region], usd


def _usage(part: str, model: str) -> str:
    return "Preemptible" if model == "SPOT" and part != "nvidia-b200" else "OnDemand"


def _name(part: str, model: str, place: str) -> str:
    """How the list describes a part."""
    prefix = {"SPOT": "Spot Preemptible ", "FLEX_START": "DWS Defined Duration "}.get(model, "")
    attached = {
        "SPOT": " attached to Spot Preemptible VMs",
        "FLEX_START": " attached to DWS Defined Duration VMs",
    }.get(model, "")
    if part == "nvidia-b200":
        return f"{prefix}A4 Nvidia B200 (1 gpu slice) running in {place}"
    if part == "local SSD" and model == "FLEX_START":
        return f"{prefix}SSD backed Local Storage running in {place}"
    if part == "local SSD":
        return f"SSD backed Local Storage{attached}" + ("" if place == "Americas" else f" in {place}")
    if part in facts.gpus():
        return f"{facts.gpus()[part][model.lower()]}{attached} running in {place}"
    series, _, word = part.partition(" ")
    instance = "" if model == "FLEX_START" else " Instance"
    return f"{prefix}{series}{instance} {word.title()} running in {place}"


def _look_alikes(part: str, place: str, regions: list[str], usd: Decimal) -> Iterator[dict[str, Any]]:
    """SKUs of other ways to buy the same part, most of them filed under OnDemand."""
    name = _name(part, "STANDARD", place)
    bare = name.partition(" running in ")[0].replace(" Instance", "").partition(" in ")[0]
    series, _, word = part.partition(" ")
    words = {"name": name, "bare": bare, "place": place, "series": series, "word": word.title()}
    for row in tables.records("look_alikes.csv"):
        if row["of"] == "every part" or word in ("core", "ram"):
            price = (usd * Decimal(row["share"])).quantize(Decimal("0.000001"))
            yield _sku(row["description"].format(**words), part, row["usage"], regions, price)


def _others() -> Iterator[dict[str, Any]]:
    """SKUs that have nothing to do with GPUs."""
    for row in tables.records("other_skus.csv"):
        yield _sku(row["description"], row["part"], "OnDemand", list(_AMERICAS), Decimal("0.0316"))


_UNITS = {
    "ram": ("GiBy.h", "gibibyte hour", "By.s", "byte second", 3.8654705664e12),
    "SSD": ("GiBy.mo", "gibibyte month", "By.s", "byte second", 2.821794963456e15),
}
_HOURS = ("h", "hour", "s", "second", 3600.0)


def _sku(description: str, part: str, usage: str, regions: list[str], usd: Decimal) -> dict[str, Any]:
    digits = f"{zlib.crc32(description.encode()):08X}{zlib.crc32(description[::-1].encode()):08X}"
    ident = f"{digits[:4]}-{digits[4:8]}-{digits[8:12]}"
    kind = part.rpartition(" ")[2]
    group = {"core": "CPU", "ram": "RAM", "SSD": "LocalSSD"}.get(kind, "GPU")
    unit, words, base, base_words, factor = _UNITS.get(kind, _HOURS)
    billionths = int((usd * 10**9).to_integral_value())
    money = {"currencyCode": "USD", "units": str(billionths // 10**9), "nanos": billionths % 10**9}
    return {
        "name": f"services/6F81-5844-456A/skus/{ident}",
        "skuId": ident,
        "description": description,
        "category": {
            "serviceDisplayName": "Compute Engine",
            "resourceFamily": "Storage" if group == "LocalSSD" else "Compute",
            "resourceGroup": group,
            "usageType": usage,
        },
        "serviceRegions": list(regions),
        "pricingInfo": [
            {
                "summary": "",
                "pricingExpression": {
                    "usageUnit": unit,
                    "usageUnitDescription": words,
                    "baseUnit": base,
                    "baseUnitDescription": base_words,
                    "baseUnitConversionFactor": factor,
                    "displayQuantity": 1,
                    "tieredRates": [{"startUsageAmount": 0, "unitPrice": money}],
                },
                "currencyConversionRate": 1,
            }
        ],
        "serviceProviderName": "Google",
        "geoTaxonomy": {
            "type": "REGIONAL" if len(regions) == 1 else "MULTI_REGIONAL",
            "regions": list(regions),
        },
    }


SERVICE = Service(name="cloudbilling", style=Style.PLATFORM, is_tabled=True)

MOST_PER_PAGE = 5000
_COMPUTE_ENGINE = "6F81-5844-456A"


@SERVICE.method("cloudbilling.services.skus.list", permission="-")
def list_skus(call: Call) -> dict[str, Any]:
    """The SKUs of one service, priced as of now."""
    _payer(call)
    if call.params["service"] != _COMPUTE_ENGINE:
        raise ApiError(404, "Requested entity was not found.")
    if call.query.get("currencyCode", "USD") not in ("", "USD"):
        raise ApiError(501, "The emulator lists prices in US dollars (currencyCode=USD) only.")
    if call.query.get("startTime") or call.query.get("endTime"):
        raise ApiError(501, "The emulator lists the prices of now, without startTime and endTime.")
    now = {"currencyConversionRate": 1, "effectiveTime": zulu_time(call.world.clock.now())}
    listed = call.world.part(PriceList).skus()
    page = numbered(call, "skus", listed, default=MOST_PER_PAGE, most=MOST_PER_PAGE)
    skus = [
        {**sku, "pricingInfo": [{**info, **now} for info in sku["pricingInfo"]]}
        for sku in page.get("skus", ())
    ]
    return {"nextPageToken": "", **page, "skus": skus}  # empty at the end, and there


def _payer(call: Call) -> None:
    """Whose API is called: it has to be on, and ours to use."""
    named = call.headers.get("x-goog-user-project", "")
    project = call.world.find_project(named) if named else next(iter(call.world.projects.values()))
    if project is None or (named and not call.caller.may("serviceusage.services.use")):
        raise ApiError(403, f"Caller does not have required permission to use project {named}.")
    if "cloudbilling" not in project.apis:
        raise world.api_disabled("cloudbilling", project, Style.PLATFORM)


SERVICES = (SERVICE,)
