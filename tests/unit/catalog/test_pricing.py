import pytest

from gputrain import catalog
from gputrain.catalog import ProvisioningModel, Service
from gputrain.errors import NoFitError
from tests.each import each

STANDARD, SPOT = ProvisioningModel.STANDARD, ProvisioningModel.SPOT
FLEX, RESERVED = ProvisioningModel.FLEX_START, ProvisioningModel.RESERVATION_BOUND


@each(
    ("machine_type", "region", "model", "usd_h"),
    [
        ("a2-highgpu-1g", "us-central1", STANDARD, 3.673385),
        ("a2-highgpu-1g", "us-central1", SPOT, 1.92802),
        ("a3-highgpu-8g", "us-central1", STANDARD, 88.49),
        ("a3-highgpu-2g", "us-central1", SPOT, 12.65),
        ("a3-megagpu-8g", "us-east4", SPOT, 23.275237),
        ("g2-standard-24", "us-central1", STANDARD, 2.001),
        ("g4-standard-48", "us-central1", STANDARD, 4.5),
        ("a4-highgpu-8g", "us-central1", SPOT, 37.7464),
    ],
)
def test_prices_are_those_of_the_list(machine_type, region, model, usd_h):
    price = catalog.price(machine_type, region, model)
    assert price.usd_h == pytest.approx(usd_h, abs=0.005)
    assert price.is_whole
    assert (price.region, price.provisioning_model, price.date) == (region, model, "2026-07-30")
    assert "pricing.yml" in price.source


def test_words_serve_as_well_as_enums():
    assert catalog.price("g2-standard-4", "us-central1", "spot", service="compute") == catalog.price(
        "g2-standard-4", "us-central1", SPOT
    )


def test_what_compute_does_not_sell_on_demand_has_no_on_demand_price():
    assert catalog.price("a3-highgpu-2g", "us-central1", STANDARD) is None
    assert catalog.price("a4-highgpu-8g", "us-central1", STANDARD) is None


@pytest.mark.parametrize("model", [FLEX, RESERVED])
def test_flex_start_and_reserved_prices_are_unknown_rather_than_guessed(model):
    assert catalog.price("a3-highgpu-8g", "us-central1", model) is None


def test_a_region_without_the_machine_has_no_price():
    assert catalog.price("a3-megagpu-8g", "asia-south1", STANDARD) is None
    assert catalog.price("a2-highgpu-1g", "mars-north1", STANDARD) is None


def test_attached_gpus_cost_at_least_their_own_price():
    price = catalog.price(catalog.shapes("T4", 2)[0], "us-central1", STANDARD)
    assert price.usd_h == pytest.approx(0.70)
    assert price.leaves_out == ("the N1 machine itself",)
    assert str(price) == "at least $0.70/h (2026-07-30, without the N1 machine itself)"


def test_an_unlisted_attached_gpu_has_no_price():
    assert catalog.price(catalog.shapes("P4", 1)[0], "us-central1", STANDARD) is None


def test_on_vertex_the_figure_leaves_out_the_fee():
    price = catalog.price("g2-standard-24", "us-central1", STANDARD, service=Service.VERTEX)
    assert price.usd_h == catalog.price("g2-standard-24", "us-central1", STANDARD).usd_h
    assert not price.is_whole
    assert "Vertex AI's management fee" in str(price)


def test_vertex_sells_small_h100_machines_on_demand_at_the_list_price():
    price = catalog.price("a3-highgpu-2g", "us-central1", STANDARD, service=Service.VERTEX)
    assert price.usd_h == pytest.approx(22.12, abs=0.01)


def test_all_prices_of_a_shape_come_cheapest_first():
    figures = [price.usd_h for price in catalog.prices("a3-highgpu-8g")]
    assert len(figures) == 36
    assert figures == sorted(figures)


def test_an_n1_machine_alone_has_no_price():
    with pytest.raises(NoFitError, match="alone has no price"):
        catalog.prices("n1-standard-8")


def test_a_machine_nobody_knows_has_no_price():
    with pytest.raises(NoFitError, match="knows no machine type"):
        catalog.price("h100-large", "us-central1")
