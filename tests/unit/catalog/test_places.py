import pytest

from gputrain import catalog
from gputrain.catalog import Service


def shape(gpu, count):
    return catalog.shapes(gpu, count)[0]


def test_a3_mega_is_in_13_regions_though_its_gpu_is_listed_in_20():
    assert len(catalog.regions(shape("H100-MEGA", 8))) == 13
    assert "asia-south1-c" not in catalog.zones(
        shape("H100-MEGA", 8)
    )  # its GPU is seen there, the machine not


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


def test_vertex_takes_no_zone():
    assert catalog.zones(shape("L4", 1), Service.VERTEX) == ()


def test_vertex_leaves_out_regions_that_do_not_train():
    l4 = shape("L4", 1)
    assert "us-west4" in catalog.not_for_training(l4)
    assert "us-west4" not in catalog.regions(l4, Service.VERTEX)
    assert "us-west4" in catalog.regions(l4, Service.COMPUTE)


def test_a_word_serves_as_well_as_an_enum():
    assert catalog.regions(shape("L4", 1), "vertex") == catalog.regions(shape("L4", 1), Service.VERTEX)
    assert catalog.zones(shape("L4", 1), "vertex") == ()


def test_what_a_service_does_not_offer_is_nowhere():
    assert catalog.regions(shape("GB300", 4), Service.VERTEX) == ()


def test_attached_gpus_are_where_their_kind_is():
    assert len(catalog.regions(shape("T4", 1))) == 23
    assert "us-central1-a" in catalog.zones(shape("V100", 8))
