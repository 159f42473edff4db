"""The Cloud Billing catalog, read by the official client and asked what it does not take."""

from __future__ import annotations

from decimal import Decimal

import pytest
from google.api_core.exceptions import Forbidden
from google.cloud import billing_v1
from google.cloud.billing_v1.types import Sku

from gputrain_emulator import Cloud

COMPUTE = "services/6F81-5844-456A"


@pytest.fixture
def catalog(cloud: Cloud) -> billing_v1.CloudCatalogClient:
    """Google's own client of the catalog."""
    return billing_v1.CloudCatalogClient(
        credentials=cloud.credentials, transport="rest", client_options=cloud.client_options
    )


def usd(sku: Sku) -> Decimal:
    price = sku.pricing_info[0].pricing_expression.tiered_rates[0].unit_price
    assert price.currency_code == "USD"
    return Decimal(price.units) + Decimal(price.nanos).scaleb(-9)


def test_a_part_has_a_sku_for_each_way_to_buy_it_and_others_that_only_look_like_it(
    catalog: billing_v1.CloudCatalogClient,
) -> None:
    found = {
        sku.description: (sku.category.usage_type, usd(sku))
        for sku in catalog.list_skus(parent=COMPUTE)
        if "us-central1" in sku.service_regions and "Tesla A100 GPU" in sku.description
    }
    half = Decimal("1.466954")
    assert found == {
        "Nvidia Tesla A100 GPU running in Iowa": ("OnDemand", Decimal("2.933908")),
        "Nvidia Tesla A100 GPU attached to Spot Preemptible VMs running in Iowa": (
            "Preemptible",
            Decimal("1.5399"),
        ),
        "Nvidia Tesla A100 GPU attached to DWS Defined Duration VMs running in Iowa": (
            "OnDemand",
            Decimal("1.61365"),
        ),
        "Nvidia Tesla A100 GPU attached to DWS Calendar Mode VMs running in Iowa": ("OnDemand", half),
        "Reserved Nvidia Tesla A100 GPU in Iowa": ("OnDemand", Decimal(0)),
        "Reserved Nvidia Tesla A100 GPU in Iowa in Calendar Mode": ("OnDemand", half),
        "Capacity Optimized Nvidia Tesla A100 GPU running in Iowa": ("OnDemand", half),
        "Commitment v1: Nvidia Tesla A100 GPU in Iowa for 1 Year": ("Commit1Yr", half),
        "Commitment v1: Nvidia Tesla A100 GPU in Iowa for 3 Years": ("Commit3Yr", half),
    }


def test_one_sku_serves_several_regions_at_one_price(catalog: billing_v1.CloudCatalogClient) -> None:
    several = [sku for sku in catalog.list_skus(parent=COMPUTE) if len(sku.service_regions) > 1]
    names = {sku.description for sku in several}
    assert "SSD backed Local Storage" in names
    assert "Nvidia L4 GPU running in Americas" in names


def test_the_api_must_be_on_in_the_project_that_pays(
    cloud: Cloud, catalog: billing_v1.CloudCatalogClient
) -> None:
    cloud.enable_api("cloudbilling", enabled=False)
    with pytest.raises(Forbidden, match="Cloud Billing API has not been used in project"):
        list(catalog.list_skus(parent=COMPUTE))
