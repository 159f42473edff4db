from fractions import Fraction

import pytest

from gputrain import catalog
from gputrain.catalog import ProvisioningModel, Service
from gputrain.errors import NoFitError
from tests.each import each


def types(shapes):
    return [shape.machine_type for shape in shapes]


@each(
    ("gpu", "count", "machine_types"),
    [
        ("H100", 2, ["a3-highgpu-2g"]),
        ("H100", 8, ["a3-highgpu-8g", "a3-edgegpu-8g", "a3-edgegpu-8g-nolssd"]),
        ("A100-80GB", 2, ["a2-ultragpu-2g"]),
        ("A100", 16, ["a2-megagpu-16g"]),
        ("L4", 2, ["g2-standard-24"]),
        ("GB300", 4, ["a4x-maxgpu-4g-metal", "a4x-maxgpu-4g-metal-nolssd"]),
        ("RTX-PRO-6000", Fraction(1, 2), ["g4-standard-24"]),
        ("RTX-PRO-6000", 0.5, ["g4-standard-24"]),
        ("T4", 4, ["n1-standard-32"]),
        ("V100", 8, ["n1-standard-64"]),
    ],
)
def test_a_kind_and_a_count_give_the_machines_that_carry_it(gpu, count, machine_types):
    assert types(catalog.shapes(gpu, count)) == machine_types


def test_a_count_nobody_sells_names_those_that_exist_and_the_way_over_nodes():
    with pytest.raises(NoFitError) as caught:
        catalog.shapes("T4", 8)
    assert caught.value.counts == (1, 2, 4)
    assert "1, 2, 4" in caught.value.why
    assert "gpu='T4:4' with num_nodes=2" in caught.value.fix


def test_a_gone_gpu_is_refused_with_its_last_day_and_what_to_take():
    with pytest.raises(NoFitError) as caught:
        catalog.shapes("P100", 1)
    assert "2026-09-15" in caught.value.why
    assert "L4" in caught.value.fix


def test_a_machine_type_alone_gives_its_shapes():
    assert [shape.name for shape in catalog.shapes(machine_type="a3-highgpu-2g")] == [
        "H100:2 on a3-highgpu-2g"
    ]
    attached = catalog.shapes(machine_type="n1-standard-96")
    assert {(shape.gpu.kind, shape.gpu_count) for shape in attached} == {("T4", 4), ("P4", 4), ("V100", 8)}


@pytest.mark.parametrize(
    "words", [{"service": "gke"}, {"provisioning_model": "on-demand"}, {"min_compute_capability": "new"}]
)
def test_a_word_nobody_knows_is_an_error_and_not_an_empty_answer(words):
    with pytest.raises(ValueError, match=r"gke|on-demand|new"):
        catalog.shapes("H100", **words)


def test_compute_capability_filters_as_numbers():
    kinds = {shape.gpu.kind for shape in catalog.shapes(min_compute_capability="9.0")}
    assert kinds == {"H100", "H100-MEGA", "H200", "B200", "GB200", "GB300", "RTX-PRO-6000"}
    assert {shape.gpu.kind for shape in catalog.shapes(min_compute_capability="12")} == {"RTX-PRO-6000"}


def test_a_region_filters_by_the_machine_and_not_by_its_gpu():
    # asia-south1 lists the accelerator nvidia-h100-mega-80gb, but not the machine a3-megagpu-8g
    assert types(catalog.shapes("H100-MEGA", 8, region="asia-south1")) == []
    assert types(catalog.shapes("H100-MEGA", 8, region="us-east4")) == ["a3-megagpu-8g"]


def test_a_provisioning_model_filters_by_service():
    standard = ProvisioningModel.STANDARD
    assert types(catalog.shapes("H100", 2, service=Service.COMPUTE, provisioning_model=standard)) == []
    assert types(catalog.shapes("H100", 2, service=Service.VERTEX, provisioning_model=standard)) == [
        "a3-highgpu-2g"
    ]
    assert types(catalog.shapes("H100", 2, provisioning_model=standard)) == ["a3-highgpu-2g"]


def test_price_filters_by_region_and_model():
    cheap = catalog.shapes(
        "L4", 1, region="us-central1", max_usd_h=0.71, provisioning_model=ProvisioningModel.STANDARD
    )
    assert types(cheap) == ["g2-standard-4"]
    assert types(catalog.shapes("L4", 1, region="us-central1", max_usd_h=0.1)) == []


def test_a_count_alone_gives_all_kinds_that_have_it():
    assert {shape.gpu.kind for shape in catalog.shapes(count=16)} == {"A100-40GB"}
    assert catalog.shapes(count=3) == ()
