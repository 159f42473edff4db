import pytest

from gputrain import catalog
from gputrain.catalog import ProvisioningModel, Service
from gputrain.errors import NoFitError, UnknownGpuError

STANDARD, SPOT = ProvisioningModel.STANDARD, ProvisioningModel.SPOT
FLEX, RESERVED = ProvisioningModel.FLEX_START, ProvisioningModel.RESERVATION_BOUND


def test_flex_start_and_reserved_prices_are_unknown_rather_than_guessed():
    assert catalog.price("a2-highgpu-8g", "us-central1", FLEX) is None
    assert catalog.price("a3-highgpu-8g", "us-central1", RESERVED) is None


def test_attached_gpus_cost_at_least_their_own_price():
    price = catalog.price(catalog.shapes("T4", 2)[0], "us-central1", STANDARD)
    assert price.usd_h == pytest.approx(0.70)
    assert price.leaves_out == ("the N1 machine itself",)
    assert str(price) == "at least $0.70/h (2026-07-30, without the N1 machine itself)"


def test_on_vertex_a_management_fee_comes_on_top_also_of_spot():
    standard = catalog.price("g2-standard-24", "us-central1").usd_h
    spot = catalog.price("g2-standard-24", "us-central1", SPOT).usd_h
    on_vertex = catalog.price("g2-standard-24", "us-central1", service=Service.VERTEX)
    assert on_vertex.usd_h == pytest.approx(1.15 * standard)
    assert on_vertex.is_whole
    assert "(2025-08)" in on_vertex.source
    other = catalog.price("g2-standard-24", "us-central1", SPOT, service="vertex", management_fee=0.2)
    assert other.usd_h == pytest.approx(spot + 0.2 * standard)


def test_prices_of_a_gpu_need_no_project_and_come_cheapest_first_over_all_machines_and_regions():
    found = catalog.prices("H100:8")
    assert {price.machine_type for price in found} >= {"a3-highgpu-8g"}
    assert len({price.region for price in found}) > 10
    assert [price.usd_h for price in found] == sorted(price.usd_h for price in found)
    assert {price.provisioning_model for price in catalog.prices("h100:8", spot=True)} == {SPOT}
    assert SPOT not in {price.provisioning_model for price in catalog.prices("H100:8", spot=False)}
    (one,) = catalog.prices("L4:2", spot=True, region="us-central1")
    assert (one.machine_type, one.region) == ("g2-standard-24", "us-central1")
    assert catalog.prices("H100:8", region="us-central1", service="vertex")[0].usd_h > 50
    assert catalog.prices("nvidia-h100-80gb:8") == catalog.prices("H100:8")
    with pytest.raises(NoFitError, match="no H100:3"):
        catalog.prices("H100:3")
    with pytest.raises(UnknownGpuError, match="RTX 4090 is not sold"):
        catalog.prices("RTX 4090:2")
