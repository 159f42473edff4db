import pytest

from gputrain import catalog
from gputrain.catalog import Service


def shape(gpu, count):
    return catalog.shapes(gpu, count)[0]


def test_a_machines_own_zones_come_before_its_gpus():
    assert "us-central1-f" in catalog.zones(shape("A100", 16))
    assert "us-east1-b" not in catalog.zones(shape("A100", 16))
    assert "us-east1-b" in catalog.zones(shape("A100", 8))


@pytest.mark.parametrize(
    ("gpu", "count", "zones"),
    [
        ("GB200", 4, ("us-central1-a", "us-central1-b")),
        ("GB300", 4, ("us-central1-b",)),
        ("RTX-PRO-6000", 1, ("us-central1-b", "us-central1-f")),
    ],
)
def test_of_the_newest_only_the_zones_somebody_saw_are_known(gpu, count, zones):
    assert catalog.zones(shape(gpu, count)) == zones
    assert len(catalog.regions(shape(gpu, count))) > 1


def test_vertex_leaves_out_regions_that_do_not_train():
    l4 = shape("L4", 1)
    assert "us-west4" in catalog.not_for_training(l4)
    assert "us-west4" not in catalog.regions(l4, Service.VERTEX)
    assert "us-west4" in catalog.regions(l4, Service.COMPUTE)


def test_ai_zones_lie_in_their_region_and_us_east7_is_one():
    assert catalog.region_of("us-central1-ai1a") == "us-central1"
    assert catalog.likely_region("us-east7") == ""
    assert catalog.possible_zones(shape("B200", 8), "us-east7") == (
        "us-east7-a", "us-east7-ai1b", "us-east7-b", "us-east7-c",
    )  # fmt: skip


def test_where_a_region_sells_a_shape_and_no_zone_is_known_any_of_its_zones_may_have_it():
    rtx = shape("RTX-PRO-6000", 1)
    assert catalog.possible_zones(rtx, "us-central1") == ("us-central1-b", "us-central1-f")
    assert catalog.possible_zones(rtx, "us-east4") == ("us-east4-a", "us-east4-b", "us-east4-c")
    assert catalog.possible_zones(rtx, "mars-north1") == ()
    for region in catalog.regions(rtx):
        assert catalog.possible_zones(rtx, region), region
