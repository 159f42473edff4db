"""Places and prices are built from what the lists say, and from nothing that they do not say."""

from decimal import Decimal

import pytest

from gputrain import catalog
from gputrain.catalog import load
from gputrain.gcp.listing import listing_of
from gputrain.refresh import ChangeKind, places, prices
from gputrain.refresh.road import built
from gputrain.refresh.skus import EIGHTH, Meter, Part
from gputrain.refresh.stock import stock
from tests.each import each

STANDARD, SPOT, FLEX = prices.MODELS
DAY = "2026-11-21"
EMPTY = prices.PriceBook(rates={})


def machine(name, zone, accelerator="nvidia-l4", count=1, cpus=4, gib=16, **more):
    carried = [{"guestAcceleratorType": accelerator, "guestAcceleratorCount": count}]
    return {
        "name": name, "zone": zone, "guestCpus": cpus, "memoryMb": gib * 1024, "accelerators": carried, **more
    }  # fmt: skip


def gpu(name, zone):
    return {"name": name, "zone": f"https://www.googleapis.com/compute/v1/projects/p/zones/{zone}"}


def seen(*machines, gpus=(), left_out=()):
    return stock(listing_of(machines, left_out), listing_of(gpus))


def after(now, book=EMPTY):
    """The new file and its changes, from the built-in tables."""
    return built(None, now, book, day=DAY)


def listed(file, name, of):
    return next(row[3].split() for row in file.places if row[:2] == (name, of))


def test_a_machine_is_where_it_is_listed_and_nowhere_else():
    file, changes = after(
        seen(machine("g2-standard-4", "us-central1-a"), machine("g2-standard-4", "us-east1-z"))
    )
    assert listed(file, "machine-zones", "g2-standard-4") == ["us-central1-a", "us-east1-z"]
    assert listed(file, "machine-regions", "g2-standard-4") == ["us-central1", "us-east1"]
    told = {(one.kind, one.of): one for one in changes}
    assert told[ChangeKind.PLACES_ADDED, "g2-standard-4"].now == "us-east1-z"
    assert "europe-west4-a" in told[ChangeKind.PLACES_REMOVED, "g2-standard-4"].before.split()


def test_a_machine_that_is_listed_nowhere_is_gone():
    file, changes = after(seen(machine("g2-standard-4", "us-central1-a")))
    assert listed(file, "machine-regions", "a2-highgpu-1g") == []
    assert (ChangeKind.GONE, "a2-highgpu-1g") in {(one.kind, one.of) for one in changes}


def test_a_machine_that_can_no_longer_be_made_is_not_there():
    obsolete = machine("g2-standard-4", "us-east1-z", deprecated={"state": "OBSOLETE"})
    deprecated = machine("g2-standard-4", "us-central1-a", deprecated={"state": "DEPRECATED"})
    gpus = ({**gpu("nvidia-tesla-t4", "us-east1-z"), "deprecated": {"state": "DELETED"}},
            {**gpu("nvidia-tesla-t4", "us-central1-a"), "deprecated": {"state": "DEPRECATED"}})  # fmt: skip
    file, _ = after(seen(obsolete, deprecated, gpus=gpus))
    assert listed(file, "machine-zones", "g2-standard-4") == ["us-central1-a"]
    assert listed(file, "gpu-zones", "T4") == ["us-central1-a"]
    assert listed(file, "gpu-regions", "T4") == ["us-central1"]


def test_a_zone_that_did_not_answer_keeps_what_it_had():
    now = seen(machine("g2-standard-4", "us-central1-a"), left_out=("us-central1-b",))
    file, _ = after(now)
    assert listed(file, "machine-zones", "g2-standard-4") == ["us-central1-a", "us-central1-b"]
    assert "us-central1-b" in listed(file, "gpu-zones", "L4")
    assert listed(file, "machine-regions", "a2-highgpu-1g") == ["us-central1"]


@pytest.mark.parametrize("word", ["UNREACHABLE", "the list repeats itself", ""])
def test_a_list_that_lacks_something_unnamed_removes_nothing(word):
    before = places.of_rows(load.built_in("places"))
    now = places.refreshed(before, seen(machine("g2-standard-4", "us-east1-z"), left_out=(word,)))
    assert now.machine_zones["a2-highgpu-1g"] == before.machine_zones["a2-highgpu-1g"]
    assert now.machine_regions["a4x-highgpu-4g"] == before.machine_regions["a4x-highgpu-4g"]
    assert now.gpu_regions == before.gpu_regions
    assert now.machine_zones["g2-standard-4"] == before.machine_zones["g2-standard-4"] | {"us-east1-z"}


def test_a_new_machine_type_and_a_new_gpu_are_told_and_not_taken_up():
    now = seen(
        machine("g2-standard-64", "us-central1-a", count=4, cpus=64, gib=256),
        machine("a9-highgpu-8g", "us-central1-b", "nvidia-r100", 8, 256, 4096),
        gpus=(
            gpu("nvidia-r100", "us-central1-b"),
            gpu("nvidia-l4-vws", "us-central1-a"),
            gpu("ct5lp", "us-a1-b"),
        ),
    )
    file, changes = after(now)
    told = [(one.kind, one.of, one.now) for one in changes][:3]
    assert told == [
        (ChangeKind.NEW_GPU, "nvidia-r100", "in 1 zones"),
        (ChangeKind.NEW_MACHINE, "a9-highgpu-8g", "8 x nvidia-r100, 256 vCPUs, 4096 GiB, in 1 zones"),
        (ChangeKind.NEW_MACHINE, "g2-standard-64", "4 x nvidia-l4, 64 vCPUs, 256 GiB, in 1 zones"),
    ]
    assert not {"g2-standard-64", "a9-highgpu-8g", "nvidia-r100"} & {row[1] for row in file.places}


def test_a_machine_that_is_not_what_the_catalog_says_is_told():
    _, changes = after(seen(machine("g2-standard-4", "us-central1-a", cpus=6)))
    (differs,) = [one for one in changes if one.kind is ChangeKind.OTHER_MACHINE]
    assert differs.before == "1 x nvidia-l4, 4 vCPUs, 16 GiB"
    assert differs.now == "1 x nvidia-l4, 6 vCPUs, 16 GiB"


def test_a_part_of_a_gpu_counts_as_one_as_the_api_counts_it():
    _, changes = after(seen(machine("g4-standard-6", "us-central1-b", "nvidia-rtx-pro-6000", 1, 6, 22)))
    assert ChangeKind.OTHER_MACHINE not in {one.kind for one in changes}


@each("zone", ["", "us-central1-a; rm -rf", "../etc", "a\tb-c", "ZONE-A", "x" * 99 + "-a"])
def test_a_zone_that_cannot_be_one_is_not_taken(zone):
    file, _ = after(seen(machine("g2-standard-4", "us-central1-a"), machine("g2-standard-4", zone)))
    assert listed(file, "machine-zones", "g2-standard-4") == ["us-central1-a"]


def parts(model=STANDARD, region="us-central1", **figures):
    named = {"gpu": Part(meter=Meter.GPU, of="A100-40GB"), "core": Part(meter=Meter.CORE, of="A2"),
             "ram": Part(meter=Meter.RAM, of="A2"), "ssd": Part(meter=Meter.SSD),
             "gpu80": Part(meter=Meter.GPU, of="A100-80GB")}  # fmt: skip
    return {(named[name], model, region): Decimal(text) for name, text in figures.items()}


def price_of(machine_type, rates, model=STANDARD):
    (bill, *_) = prices.bills(catalog.machine(machine_type))
    return prices.PriceBook(rates=rates).sum_of(bill, "us-central1", model)


def test_a_machines_price_is_the_exact_sum_of_its_parts():
    rates = parts(gpu="2.933908", core="0.031611", ram="0.004237")
    assert price_of("a2-highgpu-1g", rates) == Decimal("3.673385")
    assert price_of("a2-megagpu-16g", rates) == Decimal("55.739504")


def test_a_bundled_local_ssd_is_part_of_the_price():
    rates = parts(gpu80="3.928080", core="0.031611", ram="0.004237", ssd="0.000109589")
    assert price_of("a2-ultragpu-1g", rates) == Decimal("5.068798")


def test_a_machine_with_a_part_that_has_no_price_has_none():
    assert price_of("a2-highgpu-1g", parts(gpu="2.9", core="0.03")) is None
    assert price_of("a2-ultragpu-1g", parts(gpu80="3.9", core="0.03", ram="0.004")) is None
    assert price_of("a2-highgpu-1g", parts(gpu="2.9", core="0.03", ram="0.004"), SPOT) is None


def test_parts_of_a_gpu_have_a_price_of_their_own_before_their_share_of_a_whole_one():
    eighth, summed = prices.bills(catalog.machine("g4-standard-12"))
    assert eighth == ((EIGHTH, 2),)
    assert [str(amount) for _, amount in summed] == ["1/4", "12", "45"]
    (whole,) = prices.bills(catalog.machine("g4-standard-48"))
    assert [str(amount) for _, amount in whole] == ["1", "48", "180"]


@pytest.mark.parametrize("name", ["a3-ultragpu-8g", "a4x-highgpu-4g", "a3-edgegpu-8g", "n1-standard-8"])
def test_what_is_not_settled_has_no_bill(name):
    assert not list(prices.bills(catalog.machine(name)))


def merged(found, base=()):
    regions = frozenset({"us-central1"})
    sold = places.Places(
        machine_zones={}, machine_regions={"g2-standard-4": regions}, gpu_zones={}, gpu_regions={}
    )
    return prices.merged(base, found, sold, "billing")


KEY = ("g2-standard-4", "us-central1")
OLD = (*KEY, "0.7", "0.4", "", "prices")


def test_a_changed_price_tells_by_how_much():
    rows, changes = merged({KEY: {STANDARD: Decimal("0.84"), SPOT: Decimal("0.4")}}, (OLD,))
    assert rows == ((*KEY, "0.84", "0.4", "", "billing"),)
    (change,) = changes
    assert (change.kind, change.before, change.now) == (ChangeKind.PRICE_CHANGED, "0.7", "0.84")
    assert change.percent == pytest.approx(20)


def test_a_sixth_digit_that_was_rounded_otherwise_is_no_change():
    _, changes = merged({KEY: {STANDARD: Decimal("0.700001"), SPOT: Decimal("0.4")}}, (OLD,))
    assert changes == ()


def test_what_the_list_does_not_tell_any_more_keeps_its_price_and_its_old_date():
    assert merged({}, (OLD,)) == ((OLD,), ())


def test_a_price_where_the_machine_is_not_sold_any_more_goes():
    elsewhere = ("g2-standard-4", "us-east1", "0.7", "", "", "prices")
    rows, changes = merged({}, (elsewhere,))
    assert rows == ()
    assert [one.kind for one in changes] == [ChangeKind.PRICE_GONE]


def test_spot_above_standard_is_refused_and_the_price_before_stays():
    rows, changes = merged({KEY: {STANDARD: Decimal("0.3"), SPOT: Decimal("0.4")}}, (OLD,))
    assert rows == (OLD,)
    assert [(one.kind, one.now) for one in changes] == [
        (ChangeKind.PRICE_REFUSED, "spot 0.4 is above standard 0.3")
    ]


def test_a_price_that_no_machine_costs_is_refused():
    rows, changes = merged({KEY: {STANDARD: Decimal(100_000)}}, (OLD,))
    assert rows == (OLD,)
    assert [(one.kind, one.now) for one in changes] == [(ChangeKind.PRICE_REFUSED, "100000 an hour")]


def test_one_machine_is_billed_in_one_way_and_not_in_a_mix_of_two():
    def rate_of(part, text, model=STANDARD):
        return {(part, model, "us-central1"): Decimal(text)}

    named = {meter: Part(meter=meter, of="G4") for meter in (Meter.CORE, Meter.RAM)}
    gpu_part = Part(meter=Meter.GPU, of="RTX-PRO-6000")
    rates = rate_of(EIGHTH, "0.64688")
    for model in (STANDARD, SPOT):
        rates |= rate_of(gpu_part, "1", model) | rate_of(named[Meter.CORE], "0.05", model)
        rates |= rate_of(named[Meter.RAM], "0.006", model)
    sold = places.Places(
        machine_zones={}, gpu_zones={}, gpu_regions={},
        machine_regions={name: frozenset({"us-central1"}) for name in ("g4-standard-6", "g4-standard-48")},
    )  # fmt: skip
    found = prices.refreshed(prices.PriceBook(rates=rates), sold)
    assert found["g4-standard-6", "us-central1"] == {STANDARD: Decimal("0.64688")}
    assert set(found["g4-standard-48", "us-central1"]) == {STANDARD, SPOT}


def test_a_part_with_two_prices_has_none_and_is_told():
    def a100(price, regions):
        tier = {"unitPrice": {"currencyCode": "USD", "units": price}}
        expression = {"usageUnit": "h", "tieredRates": [tier]}
        return {
            "description": "Nvidia Tesla A100 GPU running in Americas", "category": {"usageType": "OnDemand"},
            "serviceRegions": regions, "pricingInfo": [{"pricingExpression": expression}],
        }  # fmt: skip

    part = Part(meter=Meter.GPU, of="A100-40GB")
    found = prices.book(
        [a100("2", ["us-central1", "us-east1"]), a100("3", ["us-east1"]), a100("2", ["us-west1"])]
    )
    assert {region for _, _, region in found.rates} == {"us-central1", "us-west1"}
    assert found.rates[part, STANDARD, "us-central1"] == 2
    assert [(one.kind, one.region) for one in found.odd] == [(ChangeKind.SKU_UNREAD, "us-east1")]
