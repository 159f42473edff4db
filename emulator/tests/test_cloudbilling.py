"""The Cloud Billing catalog, read by the official client and asked what it does not take."""

from __future__ import annotations

import re
from decimal import Decimal
from typing import Any

import pytest
import requests
from google.api_core.exceptions import BadRequest, Forbidden, NotFound
from google.cloud import billing_v1
from google.cloud.billing_v1.types import Sku

from gputrain_emulator import Cloud, facts
from gputrain_emulator.clock import zulu_time
from gputrain_emulator.cloudbilling import PriceList

COMPUTE = "services/6F81-5844-456A"
MODELS = ("STANDARD", "SPOT", "FLEX_START")


@pytest.fixture
def catalog(cloud: Cloud) -> billing_v1.CloudCatalogClient:
    """Google's own client of the catalog."""
    return billing_v1.CloudCatalogClient(
        credentials=cloud.credentials, transport="rest", client_options=cloud.client_options
    )


@pytest.fixture
def ask(cloud: Cloud) -> Any:
    """A GET with the owner's token; the answer's status and document."""
    token = {"Authorization": f"Bearer {cloud.credentials.token}"}

    def get(path: str, headers: dict[str, str] | None = None, **query: str) -> tuple[int, dict[str, Any]]:
        answer = requests.get(
            f"{cloud.endpoints.cloudbilling}{path}",
            params=query,
            headers={**token, **(headers or {})},
            timeout=30,
        )
        return answer.status_code, answer.json()

    return get


def usd(sku: Sku) -> Decimal:
    price = sku.pricing_info[0].pricing_expression.tiered_rates[0].unit_price
    assert price.currency_code == "USD"
    return Decimal(price.units) + Decimal(price.nanos).scaleb(-9)


def test_compute_engine_is_among_the_services(catalog: billing_v1.CloudCatalogClient) -> None:
    named = {one.display_name: one.name for one in catalog.list_services()}
    assert named["Compute Engine"] == COMPUTE
    assert list(catalog.list_skus(parent=named["Cloud Storage"])) == []


def test_pages_hold_every_sku_once(catalog: billing_v1.CloudCatalogClient) -> None:
    whole = [sku.sku_id for sku in catalog.list_skus(parent=COMPUTE)]
    request = billing_v1.ListSkusRequest(parent=COMPUTE, page_size=1000)
    pages = list(catalog.list_skus(request).pages)
    assert [len(page.skus) for page in pages[:-1]] == [1000] * (len(pages) - 1)
    assert [sku.sku_id for page in pages for sku in page.skus] == whole
    assert len(whole) == len(set(whole)) > 2000


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


def test_a_changed_price_shows_at_once_and_a_price_taken_away_is_gone(
    cloud: Cloud, catalog: billing_v1.CloudCatalogClient
) -> None:
    cloud.price("nvidia-tesla-t4", "us-central1", "STANDARD", 0.5)
    cloud.price("nvidia-tesla-t4", "us-central1", "SPOT", None)
    prices = {sku.description: usd(sku) for sku in catalog.list_skus(parent=COMPUTE)}
    assert prices["Nvidia Tesla T4 GPU running in Iowa"] == Decimal("0.5")
    assert not [name for name in prices if re.match("Nvidia Tesla T4 GPU attached to Spot", name)]
    with pytest.raises(LookupError):
        cloud.price("nvidia-tesla-t4", "mars-north1", "STANDARD", 0.5)


def test_a_price_can_be_set_from_a_shell(cloud: Cloud) -> None:
    order = {"part": "nvidia-l4", "region": "us-east1", "model": "SPOT", "usd": 0.25}
    answer = requests.post(f"{cloud.endpoints.compute}/_emulator/price", json=order, timeout=30)
    assert answer.json() == {"done": "price"}
    assert cloud.world.part(PriceList).price("nvidia-l4", "us-east1", "SPOT") == Decimal("0.25")
    offer = {"what": "a2-highgpu-1g", "zone": "us-east4-a"}
    assert (
        requests.post(f"{cloud.endpoints.compute}/_emulator/offer", json=offer, timeout=30).status_code == 200
    )
    assert cloud.compute.offered("a2-highgpu-1g", "us-east4-a")


def test_another_currency_is_converted(catalog: billing_v1.CloudCatalogClient) -> None:
    request = billing_v1.ListSkusRequest(parent=COMPUTE, currency_code="JPY")
    sku = next(
        one for one in catalog.list_skus(request) if one.description.startswith("Nvidia Tesla T4 GPU run")
    )
    info = sku.pricing_info[0]
    assert info.currency_conversion_rate == 155.5
    price = info.pricing_expression.tiered_rates[0].unit_price
    assert (price.currency_code, price.units, price.nanos) == ("JPY", 54, 425_000_000)


@pytest.mark.parametrize(
    "wrong",
    [
        {"currency_code": "XXX"},
        {"page_token": "gibberish"},
        {"start_time": "2099-01-01T00:00:00Z"},
        {"start_time": "2026-09-01T12:00:00Z", "end_time": "2026-10-02T12:00:00Z"},
        {"start_time": "2026-10-05T12:00:00Z", "end_time": "2026-10-02T12:00:00Z"},
    ],
)
def test_an_argument_that_cannot_be_is_refused(ask: Any, wrong: dict[str, str]) -> None:
    named = {re.sub(r"_(.)", lambda m: m.group(1).upper(), key): value for key, value in wrong.items()}
    status, document = ask(f"/v1/{COMPUTE}/skus", **named)
    assert (status, document["error"]["status"]) == (400, "INVALID_ARGUMENT")


@pytest.mark.parametrize(
    "query", [{"pageSize": "many"}, {"pageSize": "-1"}, {"startTime": "noon"}, {"filter": "x"}]
)
def test_what_cannot_be_read_is_refused(ask: Any, query: dict[str, str]) -> None:
    status, document = ask(f"/v1/{COMPUTE}/skus", **query)
    assert (status, document["error"]["code"]) == (400, 400)


def test_a_time_within_one_past_month_is_answered(cloud: Cloud, ask: Any) -> None:
    now = cloud.clock.now()
    times = {"startTime": zulu_time(now - 120), "endTime": zulu_time(now - 60)}
    status, document = ask(f"/v1/{COMPUTE}/skus", pageSize="1", **times)
    assert status == 200
    assert document["skus"][0]["pricingInfo"][0]["effectiveTime"] == times["startTime"]


def test_a_service_that_is_none_is_not_found(catalog: billing_v1.CloudCatalogClient) -> None:
    with pytest.raises(NotFound):
        list(catalog.list_skus(parent="services/0000-0000-0000"))


def test_the_api_must_be_on_in_the_project_that_pays(
    cloud: Cloud, catalog: billing_v1.CloudCatalogClient
) -> None:
    cloud.enable_api("cloudbilling", enabled=False)
    with pytest.raises(Forbidden, match="Cloud Billing API has not been used in project"):
        list(catalog.list_skus(parent=COMPUTE))


def test_the_paying_project_must_be_the_callers_to_use(cloud: Cloud, ask: Any) -> None:
    status, document = ask("/v1/services", headers={"x-goog-user-project": "not-mine"})
    assert (status, document["error"]["details"][0]["reason"]) == (403, "USER_PROJECT_DENIED")
    cloud.add_project("second")
    assert ask("/v1/services", headers={"x-goog-user-project": "second"})[0] == 200


def test_a_page_token_of_another_list_is_refused(catalog: billing_v1.CloudCatalogClient) -> None:
    token = catalog.list_skus(billing_v1.ListSkusRequest(parent=COMPUTE, page_size=1)).next_page_token
    with pytest.raises(BadRequest):
        list(catalog.list_services(billing_v1.ListServicesRequest(page_token=token)))


def test_the_parts_of_a_machine_add_up_to_its_price() -> None:
    checked = 0
    for name in facts.machines():
        for region, at in ((region, at) for region in facts.regions() for at in (0, 1)):
            whole = facts.price_usd_h(name, region, MODELS[at])
            if not whole:
                continue
            prices = {part: facts.part_prices()[part, region][at] for part in facts.parts(name)}
            total = sum((prices[part] or 0) * amount for part, amount in facts.parts(name).items())
            assert float(total) == pytest.approx(whole, abs=2e-5), (name, region)
            checked += 1
    assert checked > 800


def test_flex_start_is_metered_at_its_own_price() -> None:
    assert facts.price_usd_h("a2-highgpu-1g", "us-central1", "FLEX_START") == pytest.approx(2.020332)
    assert facts.price_usd_h("a4-highgpu-8g", "us-central1", "FLEX_START") == pytest.approx(8 * 4.7183)
    assert facts.price_usd_h("a4-highgpu-8g", "us-central1", "STANDARD") == 0
    assert facts.price_usd_h("n1-standard-8", "us-central1", "FLEX_START") == 0


def test_no_part_is_dearer_as_spot_than_as_standard() -> None:
    for (part, region), (standard, spot, _) in facts.part_prices().items():
        assert standard is None or spot is None or spot <= standard, (part, region)
