"""Places and prices are built from what the lists say, and from nothing that they do not say."""

from decimal import Decimal

from gputrain import catalog
from gputrain.catalog import load, refresh
from gputrain.catalog.refresh import EIGHTH, bills, rates_of, sum_of

STANDARD, SPOT, FLEX = load.FIGURES.values()


def parts(model=STANDARD, region="us-central1", **figures):
    named = {"gpu": "gpu A100-40GB", "core": "core A2",
             "ram": "ram A2", "ssd": "ssd",
             "gpu80": "gpu A100-80GB"}  # fmt: skip
    return {(named[name], model, region): Decimal(text) for name, text in figures.items()}


def price_of(machine_type, rates, model=STANDARD):
    (bill, *_) = bills(catalog.machine(machine_type))
    return sum_of(bill, rates, "us-central1", model)


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
