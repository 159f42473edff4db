"""Whether a container image can run a GPU, as far as its name tells, and the image to run by default."""

from __future__ import annotations

import re
from collections.abc import Iterator
from functools import cache

import attrs

from gputrain.display.table import TableDisplay

from . import load
from .lookup import release
from .models import Gpu, Service, Shape
from .names import find


@attrs.frozen(kw_only=True)
class ImageFault(TableDisplay):
    """Why an image does not suit a GPU; ``is_certain`` tells a job that must fail from one that may."""

    what: str
    why: str
    fix: str
    is_certain: bool = True
    sources: tuple[str, ...] = ("nvidia", "wheels")

    def __str__(self) -> str:
        return f"{self.what}: {self.why}. {self.fix}"


_CUDA = re.compile(
    r"(?<![a-z0-9])(?:cuda|cu)[-_.:]?(\d{2})[-_.]?(\d)(?!\d)|nvidia/cuda:(\d{2})\.(\d)", re.IGNORECASE
)
_TORCH = re.compile(r"torch[-_:](\d+)[-.](\d+)", re.IGNORECASE)
_ARM = re.compile(r"(?<![a-z0-9])(?:arm64|aarch64|sbsa)(?![a-z0-9])", re.IGNORECASE)
_X86 = re.compile(r"(?<![a-z0-9])(?:amd64|x86[-_]64)(?![a-z0-9])", re.IGNORECASE)
_OTHER = re.compile(r"(?<![a-z0-9])(cpu|rocm|tpu|xpu)(?=[-_.\d]|$)", re.IGNORECASE)
_PREBUILT = re.compile(r"(?:us|europe|asia)-docker\.pkg\.dev/vertex-ai/training/pytorch-")
"""Google's own training containers."""
_BRINGS_COMPAT = re.compile(r"nvidia/cuda:|nvcr\.io/nvidia/")
"""NVIDIA's images, whose cuda-compat packages run newer CUDA on the drivers of data-centre GPUs."""


def image_faults(
    image: str,
    on: Shape | Gpu | str,
    *,
    service: Service | str | None = None,
) -> tuple[ImageFault, ...]:
    """What is wrong with an image for a GPU, read from the image's name alone; empty where nothing shows.

    Args:
        image: as given to docker, such as ``"pytorch/pytorch:2.0.0-cuda11.7-cudnn8-runtime"``.
        on: a shape, or a GPU by row or name, in a host with x86_64 CPUs.
        service: whose hosts run it, ``"compute"`` or ``"vertex"``: their drivers count too.

    Raises:
        UnknownGpuError: no GPU goes by that name.

    Source: NVIDIA's CUDA release notes by general knowledge, and the architectures of PyTorch's wheels.

    >>> print(image_faults("pytorch/pytorch:2.0.0-cuda11.7-cudnn8-runtime", "H100")[0].what)
    CUDA 11.7 cannot run on H100
    """
    gpu = on.gpu if isinstance(on, Shape) else find(on) if isinstance(on, str) else on
    host = on.machine.cpu_architecture if isinstance(on, Shape) else "x86_64"
    name = image.split("@", 1)[0]
    faults = [*_faults_of_name(name, host)]
    if cuda := cuda_of(name):
        faults += _cuda_faults(cuda, _TORCH.search(name), gpu)
        faults += _driver_faults(name, cuda, gpu, Service(service) if service else None)
    return tuple(faults)


def default_image(shape: Shape, service: Service | str) -> str | None:
    """The image to run where none is named: PyTorch's own, pinned by tag; None where none is known to suit.

    The first that knows the GPU and runs on the drivers of the service's hosts.

    >>> from gputrain.catalog import shapes
    >>> default_image(shapes("A100", 1)[0], "vertex")
    'docker.io/pytorch/pytorch:2.9.1-cuda12.6-cudnn9-runtime'
    """
    images = (row["image"] for row in load.rows("images"))
    return next((image for image in images if not image_faults(image, shape, service=service)), None)


def cuda_of(image: str) -> str | None:
    """The CUDA release in an image's name, such as ``"11.7"``, or None.

    >>> cuda_of("registry.example/train:2.4-cu121")
    '12.1'
    """
    match = _CUDA.search(image)
    return ".".join(filter(None, match.groups())) if match else None


def _cuda_faults(cuda: str, torch: re.Match[str] | None, gpu: Gpu) -> Iterator[ImageFault]:
    built, is_certain = release(cuda), True
    what = f"CUDA {cuda} cannot run on {gpu.kind}"
    if built < release(gpu.min_cuda):
        why = f"{gpu.kind} is {gpu.sm}, which needs CUDA {gpu.min_cuda} or newer"
        fix = f"Take an image built with CUDA {gpu.min_cuda} or newer"
    elif gpu.cuda_dropped_in and built >= release(gpu.cuda_dropped_in):
        why = f"{gpu.kind} is {gpu.sm}, which CUDA {gpu.cuda_dropped_in} dropped"
        fix = f"Take an image built with a CUDA before {gpu.cuda_dropped_in}"
    elif gpu.torch_dropped_in and built >= release(gpu.torch_dropped_in):
        if cuda == gpu.torch_dropped_in and torch and f"{torch[1]}.{torch[2]}" in gpu.torch_kept:
            return
        kept = f", but for PyTorch {', '.join(gpu.torch_kept)}" if gpu.torch_kept else ""
        what, is_certain = f"PyTorch built for CUDA {cuda} may not run on {gpu.kind}", False
        why = f"PyTorch's own wheels leave {gpu.sm} out from CUDA {gpu.torch_dropped_in} on{kept}"
        fix = f"Take an image whose PyTorch is built for a CUDA before {gpu.torch_dropped_in}"
    else:
        return
    yield ImageFault(what=what, why=why, fix=fix, is_certain=is_certain)


@cache
def _drivers() -> dict[tuple[str, str], load.Row]:
    """By service and kind of GPU: the driver that hosts have, and the newest CUDA release that it runs."""
    return {(row["service"], row["gpu"]): row for row in load.rows("drivers")}


def _driver_faults(image: str, cuda: str, gpu: Gpu, service: Service | None) -> Iterator[ImageFault]:
    """CUDA runs on older drivers of the same major release only, unless the image brings cuda-compat."""
    host = _drivers().get((service.value, gpu.kind)) if service else None
    if host and release(cuda)[0] > release(host["cuda"])[0] and not _BRINGS_COMPAT.search(image):
        yield ImageFault(
            what=f"CUDA {cuda} may find no {gpu.kind}, and PyTorch would train on the CPU",
            why=f"hosts with {gpu.kind} have driver {host['driver']}, which runs CUDA {host['cuda']}",
            fix=f"Take an image built with CUDA {release(host['cuda'])[0]}",
            is_certain=False,
            sources=tuple(host["sources"].split("; ")),
        )


def _faults_of_name(image: str, host: str) -> Iterator[ImageFault]:
    """What the name says of the device and the CPU that it is built for."""
    if match := _OTHER.search(image.rsplit("/", 1)[-1]):
        yield ImageFault(
            what=f"the image is built for {match[1].lower()}",
            why="it has no CUDA, so PyTorch finds no GPU in it",
            fix="Take an image built with CUDA",
            is_certain=False,
        )
    if _PREBUILT.search(image):
        yield ImageFault(
            what="Google may not serve this image any more",
            why="Google ended the availability of its PyTorch training containers on 2026-07-24",
            fix="Take PyTorch's own image, or one of yours",
            is_certain=False,
            sources=("vertex-images",),
        )
    says_arm, says_x86 = bool(_ARM.search(image)), bool(_X86.search(image))
    wrong = ""
    if host == "arm64" and not says_arm:
        no_word = "the image does not say that it runs on arm64"
        wrong = "the image is built for x86_64" if says_x86 else no_word
    elif host != "arm64" and says_arm and not says_x86:
        wrong = "the image is built for arm64"
    if wrong:
        yield ImageFault(
            what=wrong,
            why="the host's CPU is arm64 (NVIDIA Grace)" if host == "arm64" else "the host's CPU is x86_64",
            fix=f"Take an image for {host}, or one built for both architectures",
            is_certain=says_arm or says_x86,
            sources=("machines",),
        )
