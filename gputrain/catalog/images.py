"""Whether a container image can run a GPU, as far as its name tells."""

from __future__ import annotations

import re

import attrs

from gputrain.tables import Shown

from .gpu import Gpu
from .names import find
from .shape import Shape


@attrs.frozen(kw_only=True)
class ImageFault(Shown):
    """Why an image does not suit a GPU.

    ``is_certain`` tells a job that must fail from one that may.
    """

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
_ARM = re.compile(r"(?<![a-z0-9])(?:arm64|aarch64|sbsa)(?![a-z0-9])", re.IGNORECASE)
_X86 = re.compile(r"(?<![a-z0-9])(?:amd64|x86[-_]64)(?![a-z0-9])", re.IGNORECASE)
_OTHER = re.compile(r"(?<![a-z0-9])(cpu|rocm|tpu|xpu)(?=[-_.\d]|$)", re.IGNORECASE)


def image_faults(
    image: str, on: Shape | Gpu | str, *, cpu_architecture: str = "x86_64"
) -> tuple[ImageFault, ...]:
    """What is wrong with an image for a GPU, read from the image's name alone; empty where nothing shows.

    Args:
        image: as given to docker, such as ``"pytorch/pytorch:2.0.0-cuda11.7-cudnn8-runtime"``.
        on: a shape, or a GPU by row or name.
        cpu_architecture: of the host; taken from the machine when ``on`` is a shape.

    Raises:
        UnknownGpuError: no GPU goes by that name.

    Source: NVIDIA's CUDA release notes by general knowledge, and the architectures of PyTorch's wheels.

    >>> print(image_faults("pytorch/pytorch:2.0.0-cuda11.7-cudnn8-runtime", "H100")[0].what)
    CUDA 11.7 cannot run on H100
    """
    gpu = on.gpu if isinstance(on, Shape) else find(on) if isinstance(on, str) else on
    host = on.machine.cpu_architecture if isinstance(on, Shape) else cpu_architecture
    name = image.split("@", 1)[0]
    found = (_wrong_device(name), _too_old(name, gpu), _too_new(name, gpu), _wrong_host(name, host))
    return tuple(fault for fault in found if fault)


def cuda_of(image: str) -> str | None:
    """The CUDA release an image's name tells, such as ``"11.7"``, or None.

    >>> cuda_of("registry.example/train:2.4-cu121")
    '12.1'
    """
    match = _CUDA.search(image)
    if not match:
        return None
    major, minor = (group for group in match.groups() if group)
    return f"{major}.{minor}"


def _too_old(image: str, gpu: Gpu) -> ImageFault | None:
    cuda = cuda_of(image)
    if cuda is None or release(cuda) >= release(gpu.min_cuda):
        return None
    return ImageFault(
        what=f"CUDA {cuda} cannot run on {gpu.kind}",
        why=f"{gpu.kind} is {gpu.sm}, which CUDA knows from {gpu.min_cuda} on",
        fix=f"Take an image built with CUDA {gpu.min_cuda} or newer",
    )


def _too_new(image: str, gpu: Gpu) -> ImageFault | None:
    cuda = cuda_of(image)
    if cuda is None:
        return None
    if gpu.cuda_dropped_in and release(cuda) >= release(gpu.cuda_dropped_in):
        return ImageFault(
            what=f"CUDA {cuda} cannot run on {gpu.kind}",
            why=f"{gpu.kind} is {gpu.sm}, which CUDA {gpu.cuda_dropped_in} dropped",
            fix=f"Take an image built with a CUDA before {gpu.cuda_dropped_in}",
        )
    if gpu.torch_dropped_in and release(cuda) >= release(gpu.torch_dropped_in):
        return ImageFault(
            what=f"PyTorch built for CUDA {cuda} may not run on {gpu.kind}",
            why=f"PyTorch's own wheels leave {gpu.sm} out from CUDA {gpu.torch_dropped_in} on",
            fix=f"Take an image whose PyTorch is built for a CUDA before {gpu.torch_dropped_in}",
            is_certain=False,
        )
    return None


def _wrong_host(image: str, host: str) -> ImageFault | None:
    says_arm, says_x86 = bool(_ARM.search(image)), bool(_X86.search(image))
    if host == "arm64":
        if says_arm:
            return None
        return ImageFault(
            what="the image is built for x86_64"
            if says_x86
            else "the image does not say that it runs on arm64",
            why="the host's CPU is arm64 (NVIDIA Grace)",
            fix="Take an arm64 image, or one built for both architectures",
            is_certain=says_x86,
            sources=("machines",),
        )
    if says_arm and not says_x86:
        return ImageFault(
            what="the image is built for arm64",
            why="the host's CPU is x86_64",
            fix="Take an x86_64 image, or one built for both architectures",
            sources=("machines",),
        )
    return None


def _wrong_device(image: str) -> ImageFault | None:
    match = _OTHER.search(image.rsplit("/", 1)[-1])
    if not match:
        return None
    return ImageFault(
        what=f"the image is built for {match[1].lower()}",
        why="it has no CUDA, so PyTorch finds no GPU in it",
        fix="Take an image built with CUDA",
        is_certain=False,
    )


def release(words: str) -> tuple[int, ...]:
    """A version as numbers, so that 12.10 comes after 12.9."""
    return tuple(int(part) for part in words.split("."))
