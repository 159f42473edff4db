import pickle

import pytest

from gputrain import catalog
from gputrain.errors import SpecError, UnknownGpuError
from tests.each import each


@each(
    ("name", "kind"),
    [
        ("H100", "H100"),
        ("h100-80gb", "H100"),
        ("nvidia-h100-80gb", "H100"),
        ("NVIDIA_H100_80GB", "H100"),
        ("  H100 ", "H100"),
        ("NVIDIA H100 80GB HBM3", "H100"),  # as nvidia-smi prints it
        ("nvidia-h100-mega-80gb", "H100-MEGA"),
        ("a100 80gb", "A100-80GB"),
        ("NVIDIA A100-SXM4-80GB", "A100-80GB"),
        ("nvidia-tesla-a100", "A100-40GB"),
        ("rtx pro 6000", "RTX-PRO-6000"),
        ("Tesla T4", "T4"),
        ("Tesla V100-SXM2-16GB", "V100"),
        ("NVIDIA_TESLA_L4", "L4"),
        ("tesla h100", "H100"),
    ],
)
def test_a_gpu_is_found_by_every_name_it_goes_by(name, kind):
    assert catalog.find(name).kind == kind


def test_a100_alone_is_the_40_gb_one_as_in_googles_own_name():
    assert catalog.find("A100") == catalog.find("nvidia-tesla-a100")
    assert catalog.find("A100").memory_gib == 40


@pytest.mark.parametrize(
    ("misspelt", "meant"),
    [("H1000", "H100"), ("V1000", "V100"), ("L44", "L4"), ("GB20", "GB200"), ("A100-80g", "A100-80GB")],
)
def test_a_misspelling_names_the_nearest(misspelt, meant):
    with pytest.raises(UnknownGpuError) as caught:
        catalog.find(misspelt)
    assert caught.value.nearest[0] == meant
    assert meant in caught.value.fix


@each("nothing", ["", "  ", "--", None, 7, ["H100"], b"H100"])
def test_what_is_no_name_is_a_clear_error(nothing):
    with pytest.raises(UnknownGpuError, match="is not the name of a GPU"):
        catalog.find(nothing)


@each(
    ("card", "nearest"),
    [
        ("RTX 4090", "L4"),
        ("GeForce RTX 4090", "L4"),
        ("rtx4090", "L4"),
        ("4090", "L4"),
        ("RTX 4090 24GB", "L4"),
        ("RTX 3090", "L4"),
        ("RTX 5090", "RTX-PRO-6000"),
        ("NVIDIA GeForce RTX 5090", "RTX-PRO-6000"),
        ("RTX 4080 SUPER", "L4"),
        ("A6000", "A100-40GB"),
        ("RTX 6000 Ada Generation", "RTX-PRO-6000"),
        ("L40S", "RTX-PRO-6000"),
        ("V100-32GB", "A100-40GB"),
        ("MI300X", "B200"),
        ("RTX 9999", "L4"),
    ],
)
def test_a_card_that_is_not_sold_says_so_and_names_local_and_the_nearest(card, nearest):
    with pytest.raises(UnknownGpuError) as caught:
        catalog.find(card)
    error = caught.value
    assert "is not sold on Google Cloud" in error.what
    assert "Local" in error.fix
    assert error.nearest[0] == nearest
    assert catalog.not_sold(card).nearest == error.nearest


def test_an_unknown_gpu_is_a_fault_of_the_spec_and_pickles():
    with pytest.raises(SpecError) as caught:
        catalog.find("H1000")
    again = pickle.loads(pickle.dumps(caught.value))
    assert str(again) == str(caught.value)
    assert again.nearest == caught.value.nearest
