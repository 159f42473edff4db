from gputrain import catalog
from gputrain.catalog import Stage


def test_the_architecture_follows_from_the_compute_capability():
    assert catalog.find("H100").sm == "sm_90"
    assert catalog.find("RTX-PRO-6000").sm == "sm_120"


def test_capabilities_compare_as_numbers():
    assert catalog.find("B200").capability > catalog.find("H100").capability


def test_old_gpus_know_when_they_end():
    ends = {
        gpu.kind: (gpu.lifecycle.stage, gpu.lifecycle.ends) for gpu in catalog.gpus() if gpu.lifecycle.ends
    }
    assert ends == {
        "T4": (Stage.DEPRECATED, "2027-08-01"),
        "P4": (Stage.DEPRECATED, "2027-08-01"),
        "P100": (Stage.GONE, "2026-09-15"),
        "K80": (Stage.GONE, "2024"),
    }


def test_a_deprecated_gpu_is_sold_until_its_end():
    t4 = catalog.find("T4")
    assert t4.is_sold()
    assert t4.is_sold(on="2027-07-31")
    assert not t4.is_sold(on="2027-08-01")


def test_a_gone_gpu_is_not_sold_on_any_day():
    assert not catalog.find("P100").is_sold()
    assert not catalog.find("P100").is_sold(on="2020-01-01")


def test_a_gpu_without_an_end_is_sold_on_any_day():
    assert catalog.find("H100").is_sold(on="2099-01-01")


def test_an_ending_gpu_names_what_to_take_instead():
    for gpu in catalog.gpus():
        assert bool(gpu.instead) == bool(gpu.lifecycle.ends)
        assert all(catalog.find(kind).is_sold() for kind in gpu.instead)


def test_hopper_and_newer_carry_dense_figures_not_googles_sparse_ones():
    assert catalog.find("H100").bf16_tflops == 989
    assert catalog.find("B200").bf16_tflops == 2250


def test_gpus_without_bfloat16_say_none():
    assert {gpu.kind for gpu in catalog.gpus() if gpu.bf16_tflops is None} == {
        "T4",
        "V100",
        "P4",
        "P100",
        "K80",
    }


def test_vertex_has_no_word_for_the_gb300():
    assert [gpu.kind for gpu in catalog.gpus() if gpu.vertex_accelerator_type is None] == ["GB300"]
