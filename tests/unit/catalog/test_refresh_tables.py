"""Places and prices are built from what the lists say, and from nothing that they do not say."""

from decimal import Decimal

import pytest

from gputrain import catalog
from gputrain.catalog import load, refresh
from gputrain.catalog.refresh import ChangeKind, inventory, rebuilt
from gputrain.catalog.skus import EIGHTH, bills, rates_of, sum_of
from gputrain.google.listing import Listing

STANDARD, SPOT, FLEX = load.FIGURES.values()
DAY = "2026-11-21"
BUILT_IN = {name: load.built_in(name) for name in load.COLUMNS}


def machine(name, zone, accelerator="nvidia-l4", count=1, cpus=4, gib=16, **more):
    carried = [{"guestAcceleratorType": accelerator, "guestAcceleratorCount": count}]
    return {
        "name": name, "zone": zone, "guestCpus": cpus, "memoryMb": gib * 1024, "accelerators": carried, **more
    }  # fmt: skip


def gpu(name, zone):
    return {"name": name, "zone": f"https://www.googleapis.com/compute/v1/projects/p/zones/{zone}"}


def seen(*machines, gpus=(), left_out=()):
    return inventory(Listing(machines, left_out), Listing(gpus))


def after(now):
    """The new tables and their changes, from the built-in ones."""
    return rebuilt(BUILT_IN, now, {}, day=DAY)


def listed(tables, name, of):
    return next(row["places"].split() for row in tables["places"] if (row["list"], row["of"]) == (name, of))


def test_a_machine_is_where_it_is_listed_and_nowhere_else():
    file, changes = after(
        seen(machine("g2-standard-4", "us-central1-a"), machine("g2-standard-4", "us-east1-z"))
    )
    assert listed(file, "machine-zones", "g2-standard-4") == ["us-central1-a", "us-east1-z"]
    assert listed(file, "machine-regions", "g2-standard-4") == ["us-central1", "us-east1"]
    told = {(one.kind, one.of): one for one in changes}
    assert told[ChangeKind.PLACES_ADDED, "g2-standard-4"].now == "us-east1-z"
    assert "europe-west4-a" in told[ChangeKind.PLACES_REMOVED, "g2-standard-4"].before.split()


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
    assert not {"g2-standard-64", "a9-highgpu-8g", "nvidia-r100"} & {row["of"] for row in file["places"]}


def parts(model=STANDARD, region="us-central1", **figures):
    named = {"gpu": "gpu A100-40GB", "core": "core A2",
             "ram": "ram A2", "ssd": "ssd",
             "gpu80": "gpu A100-80GB"}  # fmt: skip
    return {(named[name], model, region): Decimal(text) for name, text in figures.items()}


def price_of(machine_type, rates, model=STANDARD):
    (bill, *_) = bills(catalog.machine(machine_type))
    return sum_of(bill, rates, "us-central1", model)


def test_a_machines_price_is_the_exact_sum_of_its_parts():
    rates = parts(gpu="2.933908", core="0.031611", ram="0.004237")
    assert price_of("a2-highgpu-1g", rates) == Decimal("3.673385")
    assert price_of("a2-megagpu-16g", rates) == Decimal("55.739504")


def test_a_machine_with_a_part_that_has_no_price_has_none():
    assert price_of("a2-highgpu-1g", parts(gpu="2.9", core="0.03")) is None
    assert price_of("a2-ultragpu-1g", parts(gpu80="3.9", core="0.03", ram="0.004")) is None
    assert price_of("a2-highgpu-1g", parts(gpu="2.9", core="0.03", ram="0.004"), SPOT) is None


def test_parts_of_a_gpu_have_a_price_of_their_own_before_their_share_of_a_whole_one():
    eighth, summed = bills(catalog.machine("g4-standard-12"))
    assert eighth == ((EIGHTH, 2),)
    assert [str(amount) for _, amount in summed] == ["1/4", "12", "45"]
    (whole,) = bills(catalog.machine("g4-standard-48"))
    assert [str(amount) for _, amount in whole] == ["1", "48", "180"]


def merged(found, base=()):
    sold = {"g2-standard-4": frozenset({"us-central1"})}
    rows, changes = refresh.merged_prices(base, found, sold, day=DAY)
    return [tuple(row.values())[2:5] for row in rows], changes


KEY = ("g2-standard-4", "us-central1")
OLD = dict(zip(load.COLUMNS["prices"], (*KEY, "0.7", "0.4", "", "prices", "2026-07-30")))


def test_a_changed_price_tells_by_how_much():
    rows, changes = merged({KEY: {STANDARD: Decimal("0.84"), SPOT: Decimal("0.4")}}, (OLD,))
    assert rows == [("0.84", "0.4", "")]
    (change,) = changes
    assert (change.kind, change.before, change.now) == (ChangeKind.PRICE_CHANGED, "0.7", "0.84")
    assert change.percent == pytest.approx(20)


def test_one_machine_is_billed_in_one_way_and_not_in_a_mix_of_two():
    def rate_of(part, text, model=STANDARD):
        return {(part, model, "us-central1"): Decimal(text)}

    gpu_part = "gpu RTX-PRO-6000"
    rates = rate_of(EIGHTH, "0.64688")
    for model in (STANDARD, SPOT):
        rates |= rate_of(gpu_part, "1", model) | rate_of("core G4", "0.05", model)
        rates |= rate_of("ram G4", "0.006", model)
    sold = {f"g4-standard-{n}": frozenset({"us-central1"}) for n in (6, 48)}
    found = refresh.prices_of(rates, sold)
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

    part = "gpu A100-40GB"
    found, odd = rates_of(
        [a100("2", ["us-central1", "us-east1"]), a100("3", ["us-east1"]), a100("2", ["us-west1"])]
    )
    assert {region for _, _, region in found} == {"us-central1", "us-west1"}
    assert found[part, STANDARD, "us-central1"] == 2
    ((name, why),) = odd
    assert name == "Nvidia Tesla A100 GPU running in Americas"
    assert "us-east1" in why
