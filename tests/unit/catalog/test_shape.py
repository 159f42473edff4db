from fractions import Fraction

import pytest

from gputrain import catalog
from gputrain.catalog import ProvisioningModel, Service
from gputrain.errors import NoFitError, UnknownGpuError
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
        ("GB300", 4, ["a4x-maxgpu-4g-metal"]),
        ("RTX-PRO-6000", Fraction(1, 2), ["g4-standard-24"]),
        ("RTX-PRO-6000", 0.5, ["g4-standard-24"]),
        ("T4", 4, ["n1-standard-32"]),
        ("V100", 8, ["n1-standard-64"]),
    ],
)
def test_a_kind_and_a_count_give_the_machines_that_carry_it(gpu, count, machine_types):
    assert types(catalog.shapes(gpu, count)) == machine_types


@each(
    ("gpu", "counts"),
    [
        ("H100", (1, 2, 4, 8)),
        ("H100-MEGA", (8,)),
        ("H200", (8,)),
        ("B200", (8,)),
        ("GB200", (4,)),
        ("GB300", (4,)),
        ("A100-40GB", (1, 2, 4, 8, 16)),
        ("A100-80GB", (1, 2, 4, 8)),
        ("L4", (1, 2, 4, 8)),
        ("T4", (1, 2, 4)),
        ("V100", (1, 2, 4, 8)),
        ("P4", (1, 2, 4)),
        ("RTX-PRO-6000", (Fraction(1, 8), Fraction(1, 4), Fraction(1, 2), 1, 2, 4, 8)),
        ("P100", ()),
        ("K80", ()),
    ],
)
def test_the_counts_are_googles(gpu, counts):
    assert catalog.counts(gpu) == counts


def test_a_count_nobody_sells_names_those_that_exist_and_the_way_over_nodes():
    with pytest.raises(NoFitError) as caught:
        catalog.shapes("T4", 8)
    assert caught.value.counts == (1, 2, 4)
    assert "1, 2, 4" in caught.value.why
    assert "gpu='T4:4' with num_nodes=2" in caught.value.fix


def test_three_h100_are_not_sold_on_one_machine():
    with pytest.raises(NoFitError, match="no H100:3") as caught:
        catalog.shapes("H100", 3)
    assert "gpu='H100:1' with num_nodes=3" in caught.value.fix


@pytest.mark.parametrize("count", [0, -1, 10**9, Fraction(1, 3), 2.5])
def test_a_count_that_cannot_be_is_refused_in_the_same_words(count):
    with pytest.raises(NoFitError) as caught:
        catalog.shapes("H100", count)
    assert caught.value.counts == (1, 2, 4, 8)


def test_a_gone_gpu_is_refused_with_its_last_day_and_what_to_take():
    with pytest.raises(NoFitError) as caught:
        catalog.shapes("P100", 1)
    assert "2026-09-15" in caught.value.why
    assert "L4" in caught.value.fix


def test_an_unknown_gpu_is_told_before_anything_else():
    with pytest.raises(UnknownGpuError):
        catalog.shapes("H1000", 2)


def test_a_machine_type_picks_another_host_for_attached_gpus():
    assert types(catalog.shapes("T4", 1, machine_type="n1-highmem-16")) == ["n1-highmem-16"]


def test_a_host_too_large_for_the_count_names_the_counts_it_takes():
    with pytest.raises(NoFitError) as caught:
        catalog.shapes("V100", 1, machine_type="n1-standard-16")
    assert caught.value.counts == (2, 4, 8)


def test_a_machine_with_other_gpus_is_refused_by_name():
    with pytest.raises(NoFitError, match="a2-highgpu-1g carries no H100") as caught:
        catalog.shapes("H100", 1, machine_type="a2-highgpu-1g")
    assert "a3-highgpu-1g" in caught.value.why


def test_a_machine_nobody_knows_is_refused_with_and_without_a_gpu():
    for gpu in (None, "H100"):
        with pytest.raises(NoFitError, match="knows no machine type"):
            catalog.shapes(gpu, machine_type="a3-hihgpu-8g")


def test_a_machine_type_alone_gives_its_shapes():
    assert [shape.name for shape in catalog.shapes(machine_type="a3-highgpu-2g")] == [
        "H100:2 on a3-highgpu-2g"
    ]
    attached = catalog.shapes(machine_type="n1-standard-96")
    assert {(shape.gpu.kind, shape.gpu_count) for shape in attached} == {("T4", 4), ("P4", 4), ("V100", 8)}


@each(
    ("gpu", "machine_type", "counts"),
    [
        ("T4", "n1-standard-32", [2, 4]),
        ("T4", "n1-standard-64", [4]),
        ("V100", "n1-standard-96", [8]),
        ("V100", "n1-highmem-2", [1, 2, 4, 8]),
        ("T4", "n1-standard-2", []),
        ("T4", "n1-highcpu-8", []),
    ],
)
def test_vertex_takes_fewer_counts_on_an_n1_machine(gpu, machine_type, counts):
    found = catalog.shapes(gpu, machine_type=machine_type, service=Service.VERTEX)
    assert [shape.gpu_count for shape in found] == counts


def test_every_default_host_is_good_for_both_services():
    attached = [shape for shape in catalog.shapes() if shape.is_attached]
    assert len(attached) == 10
    assert all(shape.sold_as(service) for shape in attached for service in Service)


def test_words_serve_as_well_as_enums():
    assert catalog.shapes("H100", 2, service="compute", provisioning_model="spot") == catalog.shapes(
        "H100", 2
    )
    assert catalog.shapes("H100", 2, service="compute", provisioning_model="standard") == ()


@pytest.mark.parametrize(
    "words", [{"service": "gke"}, {"provisioning_model": "on-demand"}, {"min_compute_capability": "new"}]
)
def test_a_word_nobody_knows_is_an_error_and_not_an_empty_answer(words):
    with pytest.raises(ValueError, match=r"gke|on-demand|new"):
        catalog.shapes("H100", **words)


@pytest.mark.parametrize("service", ["gke", None])
def test_a_shape_answers_only_for_the_services_there_are(service):
    with pytest.raises(ValueError, match="not a valid Service"):
        catalog.shapes("H100", 2)[0].sold_as(service)


def test_a_part_of_a_gpu_counts_as_one_to_apis_and_quotas():
    assert catalog.shapes("RTX-PRO-6000", Fraction(1, 8))[0].api_gpu_count == 1
    assert catalog.shapes("H100", 8)[0].api_gpu_count == 8


def test_gpu_memory_filters():
    assert {s.gpu.kind for s in catalog.shapes(min_gpu_memory_gib=141)} == {"H200", "B200", "GB200", "GB300"}


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


def test_a_price_that_is_not_whole_satisfies_no_price_filter():
    assert types(catalog.shapes("T4", 1, max_usd_h=1000)) == []
    assert types(catalog.shapes("L4", 1, max_usd_h=1000, service=Service.VERTEX)) == []


def test_a_count_alone_gives_all_kinds_that_have_it():
    assert {shape.gpu.kind for shape in catalog.shapes(count=16)} == {"A100-40GB"}
    assert catalog.shapes(count=3) == ()


def test_a_shape_tells_the_memory_of_the_whole_node():
    assert catalog.shapes("H100", 2)[0].gpu_memory_gib == 160
    assert catalog.shapes("RTX-PRO-6000", Fraction(1, 8))[0].gpu_memory_gib == 12
