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


@pytest.mark.parametrize(("gpu", "floor"), [("B200", "12.8"), ("RTX-PRO-6000", "12.8"), ("GB300", "12.8")])
def test_blackwell_needs_its_cuda(gpu, floor):
    (fault,) = catalog.image_faults("train:cu126", gpu)
    assert floor in fault.fix
    assert faults("train:cu129", gpu) == []


@each(
    ("image", "gpu", "runs"),
    [
        ("pytorch/pytorch:2.0.0-cuda11.7-cudnn8-runtime", "L4", True),  # cubins of sm_86 run on sm_89
        ("pytorch/pytorch:2.0.0-cuda11.7-cudnn8-runtime", "H100", False),
        ("train:cu128", "GB300", True),  # those of sm_100 on sm_103
    ],
)
def test_code_of_an_older_gpu_of_the_same_generation_runs(image, gpu, runs):
    certain = [fault.what for fault in catalog.image_faults(image, gpu) if fault.is_certain]
    assert (certain == []) is runs


@pytest.mark.parametrize("gpu", ["V100", "P4"])
def test_cuda_13_dropped_volta_and_older(gpu):
    (fault,) = catalog.image_faults("train:cu130", gpu)
    assert "CUDA 13.0 dropped" in fault.why
    assert fault.is_certain


@each(
    ("image", "runs"),
    [
        ("train:cu126", True),
        ("train:cu128", False),
        ("pytorch/pytorch:2.7.1-cuda12.8-cudnn9-runtime", False),
        ("pytorch/pytorch:2.8.0-cuda12.8-cudnn9-runtime", True),
        ("pytorch/pytorch:2.10.0-cuda12.8-cudnn9-runtime", True),
        ("pytorch/pytorch:2.11.0-cuda12.8-cudnn9-runtime", False),
        ("pytorch-2-9-cu129-ubuntu-2404-nvidia-580", False),
    ],
)
def test_whether_pytorch_for_cuda_12_8_runs_a_v100_depends_on_its_release(image, runs):
    found = catalog.image_faults(image, "V100")
    assert [fault.is_certain for fault in found] == ([] if runs else [False])
    assert faults("pytorch/pytorch:2.9.1-cuda12.8-cudnn9-runtime", "P4") != []


@pytest.mark.parametrize("gpu", ["T4", "A100", "A100-80GB"])
def test_cuda_13_may_find_no_gpu_by_the_older_drivers_of_vertex_ai(gpu):
    image = "pytorch/pytorch:2.12.0-cuda13.0-cudnn9-runtime"
    (fault,) = catalog.image_faults(image, gpu, service="vertex")
    assert "R535" in fault.why
    assert not fault.is_certain
    assert faults(image, gpu) == faults(image, gpu, service="compute") == []
    assert faults(image, "L4", service="vertex") == []
    assert faults("nvidia/cuda:13.0.1-runtime", gpu, service="vertex") == [], "it brings cuda-compat"
    assert faults("train:cu129", gpu, service="vertex") == []


def test_googles_prebuilt_container_may_be_gone():
    (fault,) = catalog.image_faults("us-docker.pkg.dev/vertex-ai/training/pytorch-gpu.2-4.py310:latest", "L4")
    assert "2026-07-24" in fault.why
    assert not fault.is_certain


@each(
    ("gpu", "cuda"),
    [(kind, "12.6") for kind in ("P4", "V100", "T4", "L4", "A100", "A100-80GB", "H100", "H100-MEGA", "H200")]
    + [("RTX-PRO-6000", "12.8"), ("B200", "12.8"), ("GB200", None)],
)
def test_the_default_image_suits_the_gpu_and_the_driver_of_its_hosts(gpu, cuda):
    for service in catalog.Service:
        image = catalog.default_image(catalog.shapes(gpu)[0], service)
        assert (image and catalog.cuda_of(image)) == cuda
        assert image is None or "@" not in image


def test_an_arm64_host_needs_an_arm64_image():
    gb200 = catalog.shapes("GB200", 4)[0]
    assert faults("train:cu129-amd64", gb200) == ["the image is built for x86_64"]
    assert faults("train:cu129-arm64", gb200) == []
    (fault,) = catalog.image_faults("train:cu129", gb200)
    assert not fault.is_certain


@pytest.mark.parametrize("device", ["cpu", "rocm6.2", "tpu"])
def test_an_image_without_cuda_is_told(device):
    (fault,) = catalog.image_faults(f"train:2.9-{device}", "L4")
    assert "no CUDA" in fault.why
