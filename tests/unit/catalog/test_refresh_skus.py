"""Only a SKU's whole name decides what it prices; a price that is not plain is not read."""

from decimal import Decimal

import pytest

from gputrain.catalog import ProvisioningModel
from gputrain.catalog.refresh import EIGHTH, OddSkuError, meaning, rates
from tests.each import each

STANDARD, SPOT = ProvisioningModel.STANDARD, ProvisioningModel.SPOT
FLEX = ProvisioningModel.FLEX_START
A100 = "Nvidia Tesla A100 GPU running in Americas"


def gpu(kind):
    return f"gpu {kind}"


def sku(description=A100, *, usage="OnDemand", unit="h", units="2", nanos=933908000, **more):
    price = {"currencyCode": "USD", "units": units, "nanos": nanos, **more}
    return {
        "description": description,
        "category": {"usageType": usage},
        "serviceRegions": ["us-central1", "us-east1"],
        "pricingInfo": [{"pricingExpression": {"usageUnit": unit, "tieredRates": [{"unitPrice": price}]}}],
    }


@each(
    ("description", "usage", "part", "model"),
    [
        (A100, "OnDemand", gpu("A100-40GB"), STANDARD),
        ("Nvidia Tesla A100 80GB GPU running in Netherlands", "OnDemand", gpu("A100-80GB"), STANDARD),
        ("Nvidia H100 80GB GPU running in Americas", "OnDemand", gpu("H100"), STANDARD),
        ("Nvidia H100 80GB Plus GPU running in Americas", "OnDemand", gpu("H100-MEGA"), STANDARD),
        ("Nvidia H100 80GB Mega GPU running in Virginia", "OnDemand", gpu("H100-MEGA"), STANDARD),
        ("RTX 6000 96GB running in Iowa", "OnDemand", gpu("RTX-PRO-6000"), STANDARD),
        ("Nvidia  L4 GPU running in  Iowa ", "OnDemand", gpu("L4"), STANDARD),
        ("Nvidia L4 GPU attached to Spot Preemptible VMs running in Iowa", "Preemptible", gpu("L4"), SPOT),
        ("Nvidia Tesla A100 GPU attached to Spot Preemptible VMs", "Preemptible", gpu("A100-40GB"), SPOT),
        ("Nvidia Tesla T4 GPU attached to DWS Defined Duration VMs", "OnDemand", gpu("T4"), FLEX),
        (
            "Nvidia H100 Mega 80GB GPU attached to DWS Defined Duration VMs running in Americas",
            "OnDemand", gpu("H100-MEGA"), FLEX,
        ),
        ("A2 Instance Core running in Americas", "OnDemand", "core A2", STANDARD),
        ("A3Plus Instance Ram running in Virginia", "OnDemand", "ram A3Plus", STANDARD),
        ("Spot Preemptible G2 Instance Core in Iowa", "Preemptible", "core G2", SPOT),
        ("DWS Defined Duration A3 Ram running in Americas", "OnDemand", "ram A3", FLEX),
        ("SSD backed Local Storage", "OnDemand", "ssd", STANDARD),
        ("SSD backed Local Storage in Paris", "OnDemand", "ssd", STANDARD),
        (
            "SSD backed Local Storage attached to Spot Preemptible VMs in Paris",
            "Preemptible", "ssd", SPOT,
        ),
        (
            "DWS Defined Duration SSD backed Local Storage running in Americas",
            "OnDemand", "ssd", FLEX,
        ),
        (
            "Spot Preemptible A4 Nvidia B200 (1 gpu slice) running in Americas",
            "OnDemand", "whole B200", SPOT,
        ),
        ("1/8 vGPU no lssd running in Iowa", "OnDemand", EIGHTH, STANDARD),
    ],
)  # fmt: skip
def test_a_sku_prices_what_its_whole_name_says(description, usage, part, model):
    assert meaning(description, usage) == (part, model)


@each(
    ("description", "usage"),
    [
        ("Reserved Nvidia Tesla A100 GPU in Americas", "OnDemand"),
        ("Reserved Nvidia H100 80GB Mega GPU in Americas in Calendar Mode", "OnDemand"),
        ("Nvidia H100 80GB GPU in Americas in Calendar Mode", "OnDemand"),
        ("Nvidia H100 80GB GPU attached to DWS Calendar Mode VMs running in Americas", "OnDemand"),
        ("DWS Calendar Mode A3 Core running in Americas", "OnDemand"),
        ("DWS Flex Start H4D Instance Core running in Americas", "OnDemand"),
        ("Commitment v1: Nvidia Tesla A100 GPU running in Americas for 1 Year", "Commit1Yr"),
        ("Commitment v1: A2 Core in Americas for 1 Year", "Commit1Yr"),
        ("A2 Sole Tenancy Instance Core running in Americas", "OnDemand"),
        ("A2 Custom Instance Core running in Americas", "OnDemand"),
        ("Sole Tenancy Premium for A2 Sole Tenancy Instance Core running in Americas", "OnDemand"),
        ("Capacity Optimized Nvidia H100 80GB GPU running in Americas", "OnDemand"),
        ("Nvidia Tesla A100 GPU suspended in Americas", "OnDemand"),
        ("Nvidia Tesla A100 120GB GPU running in Americas", "OnDemand"),
        ("Old Nvidia Tesla A100 GPU running in Americas", "OnDemand"),
        ("N1 Predefined Instance Core running in Americas", "OnDemand"),
        ("SSD backed PD Capacity in Paris", "OnDemand"),
        ("A3Ultra Instance Core running in Americas", "OnDemand"),
        (A100, "Commit1Yr"),
        (A100, ""),
        ("", "OnDemand"),
    ],
)
def test_what_only_looks_alike_prices_nothing(description, usage):
    assert meaning(description, usage) is None


def test_a_price_is_exact_to_the_billionth():
    usd_h = Decimal("2.933908000")
    assert rates(sku()) == {
        (gpu("A100-40GB"), STANDARD, region): usd_h for region in ("us-central1", "us-east1")
    }
    assert set(rates(sku(units="0", nanos=1)).values()) == {Decimal("0.000000001")}
    assert set(rates(sku(units="3", nanos=0)).values()) == {3}


def with_tiers(*tiers):
    made = sku()
    made["pricingInfo"][0]["pricingExpression"]["tieredRates"] = list(tiers)
    return made


FREE, DEAR = ({"unitPrice": {"currencyCode": "USD", "units": units}} for units in ("0", "5"))


@each(
    "odd",
    [
        sku(currencyCode="EUR"),
        sku(unit="mo"),
        sku(unit="GiBy.h"),
        sku("A2 Instance Ram running in Americas", unit="GBy.h"),
        sku(units="-3", nanos=0),
        sku(units="many"),
        with_tiers(FREE, DEAR),
        with_tiers(),
        with_tiers({}),
        {**sku(), "pricingInfo": []},
        {**sku(), "pricingInfo": None},
    ],
)
def test_a_price_that_is_not_plain_is_odd_and_not_guessed(odd):
    with pytest.raises(OddSkuError):
        rates(odd)
