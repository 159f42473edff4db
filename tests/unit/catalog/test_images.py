import pytest

from gputrain import catalog
from tests.each import each


def faults(image, on, **kwargs):
    return [fault.what for fault in catalog.image_faults(image, on, **kwargs)]


@each(
    ("image", "cuda"),
    [
        ("pytorch/pytorch:2.0.0-cuda11.7-cudnn8-runtime", "11.7"),
        ("europe-docker.pkg.dev/p/r/train:2.4.0-cu121", "12.1"),
        ("europe-docker.pkg.dev/p/r/train-cu117:latest", "11.7"),
        ("nvidia/cuda:12.8.1-runtime-ubuntu22.04", "12.8"),
        ("nvcr.io/nvidia/cuda:11.8.0-base", "11.8"),
        ("pytorch-2-9-cu129-ubuntu-2404-nvidia-580", "12.9"),
        ("common-cu129-ubuntu-2204-nvidia-580", "12.9"),
        ("train:cuda-12-4", "12.4"),
        ("train:CUDA12.6", "12.6"),
        ("pytorch/pytorch:latest", None),
        ("us-docker.pkg.dev/vertex-ai/training/pytorch-gpu.2-4.py310:latest", None),
        ("accurate:1.17", None),
        ("barracuda:117", None),
        ("focus117:1", None),
        ("train@sha256:cu117cu117", None),
    ],
)
def test_the_cuda_release_is_read_from_the_name(image, cuda):
    assert catalog.cuda_of(image.split("@")[0]) == cuda


@pytest.mark.parametrize("gpu", ["H100", "H100-MEGA", "H200", "L4"])
def test_cuda_11_7_cannot_run_what_needs_11_8(gpu):
    (fault,) = catalog.image_faults("pytorch/pytorch:2.0.0-cuda11.7-cudnn8-runtime", gpu)
    assert fault.what == f"CUDA 11.7 cannot run on {gpu}"
    assert "11.8" in fault.fix
    assert fault.is_certain


def test_cuda_11_7_runs_an_a100():
    assert faults("pytorch/pytorch:2.0.0-cuda11.7-cudnn8-runtime", "A100") == []


@pytest.mark.parametrize(("gpu", "floor"), [("B200", "12.8"), ("RTX-PRO-6000", "12.8"), ("GB300", "12.9")])
def test_blackwell_needs_its_cuda(gpu, floor):
    (fault,) = catalog.image_faults("train:cu126", gpu)
    assert floor in fault.fix
    assert faults("train:cu129", gpu) == []


def test_blackwell_is_reached_by_its_floor_and_not_below():
    assert faults("train:cuda12.8", "B200") == []
    assert faults("train:cuda12.6", "B200") != []


@pytest.mark.parametrize("gpu", ["V100", "P4"])
def test_cuda_13_dropped_volta_and_older(gpu):
    (fault,) = catalog.image_faults("train:cu130", gpu)
    assert "CUDA 13.0 dropped" in fault.why
    assert fault.is_certain


def test_cuda_13_runs_a_t4():
    assert faults("train:cu130", "T4") == []


def test_pytorch_for_cuda_12_8_may_not_run_a_v100():
    (fault,) = catalog.image_faults("train:cu128", "V100")
    assert not fault.is_certain
    assert faults("train:cu126", "V100") == []


def test_an_arm64_host_needs_an_arm64_image():
    gb200 = catalog.shapes("GB200", 4)[0]
    assert faults("train:cu129-amd64", gb200) == ["the image is built for x86_64"]
    assert faults("train:cu129-arm64", gb200) == []
    (fault,) = catalog.image_faults("train:cu129", gb200)
    assert not fault.is_certain


def test_an_arm64_image_does_not_run_on_x86():
    assert faults("train:cu129-arm64", catalog.shapes("H100", 8)[0]) == ["the image is built for arm64"]
    assert faults("train:cu129-arm64", "H100", cpu_architecture="arm64") == []


@pytest.mark.parametrize("device", ["cpu", "rocm6.2", "tpu"])
def test_an_image_without_cuda_is_told(device):
    (fault,) = catalog.image_faults(f"train:2.9-{device}", "L4")
    assert "no CUDA" in fault.why


def test_the_word_gpu_in_a_name_is_no_fault():
    assert faults("us-docker.pkg.dev/vertex-ai/training/pytorch-gpu.2-4.py310:latest", "L4") == []


def test_a_digest_tells_nothing():
    assert faults("train@sha256:" + "cu11" * 16, "H100") == []


def test_a_port_of_a_registry_is_not_read_as_cuda():
    assert faults("localhost:5000/cu:latest", "H100") == []


def test_an_unknown_gpu_is_told():
    with pytest.raises(catalog_error()):
        catalog.image_faults("train:cu117", "H1000")


def catalog_error():
    from gputrain.errors import UnknownGpuError

    return UnknownGpuError


def test_a_fault_reads_as_a_sentence():
    (fault,) = catalog.image_faults("train:cu117", "H100")
    assert str(fault) == (
        "CUDA 11.7 cannot run on H100: H100 is sm_90, which CUDA knows from 11.8 on. "
        "Take an image built with CUDA 11.8 or newer"
    )
