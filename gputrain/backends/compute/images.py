"""What a VM boots: the newest image family that knows its GPU and its CPU."""

from __future__ import annotations

import attrs

from gputrain.backends.compute.settings import ComputeSettings
from gputrain.catalog import GpuNetworking, Shape, release
from gputrain.fields import invalid
from gputrain.google import Api, GoogleClient, MissingError

INSTALL_DRIVER = "install-nvidia-driver"
"""Metadata key that Deep Learning VM images obey; others ignore it."""


@attrs.frozen(kw_only=True)
class ImageFamily:
    """One family of images."""

    project: str
    name: str
    cuda: str
    cpu_architecture: str = "x86_64"
    has_torch: bool = True
    ready_for: tuple[GpuNetworking, ...] = ()
    """The plugins for which it has drivers and kernel."""

    @property
    def path(self) -> str:
        """As a disk's ``sourceImage`` names it: the family's newest image."""
        return f"projects/{self.project}/global/images/family/{self.name}"


FAMILIES: tuple[ImageFamily, ...] = (
    ImageFamily(
        project="deeplearning-platform-release", name="pytorch-2-9-cu129-ubuntu-2404-nvidia-580",
        cuda="12.9",
    ),
    ImageFamily(
        project="ubuntu-os-accelerator-images", name="ubuntu-accelerator-2404-amd64-with-nvidia-580",
        cuda="12.9", has_torch=False, ready_for=(GpuNetworking.GIB,),
    ),
    ImageFamily(
        project="ubuntu-os-accelerator-images", name="ubuntu-accelerator-2404-arm64-with-nvidia-580",
        cuda="12.9", cpu_architecture="arm64", has_torch=False, ready_for=(GpuNetworking.GIB,),
    ),
)  # fmt: skip
"""In order of preference. All Debian families are deprecated, and so is PyTorch 2.7's.

Source: Deep Learning VM "Choose an image" (2026-09-15, at second hand) and AI Hypercomputer "Images"
(2026-04-06): the accelerator images are for A3, A4 and A4X and have drivers for RDMA, but not the module
that TCPXO needs on A3 Mega. The page of G2 (2026-04-13) says that Deep Learning VM images are none of its
boot disks, which users contradict (2026-10-01); support may quote it.
A family is looked up before a VM is made, so one that Google has renamed is named in the error.
"""


OLDEST_DRIVEN = "7.5"
"""The compute capability (Turing's) from which on their drivers know a GPU.

They drive Blackwell, so their kernel modules are NVIDIA's open ones, which "are only for Turing and newer".
Source: NVIDIA's driver installation guide, "Kernel Modules", read 2026-11-22.
"""


def choose(
    shape: Shape, settings: ComputeSettings, image: str | None, networking: GpuNetworking | None = None
) -> str:
    """The boot image as a disk names it.

    Args:
        shape: the machine.
        settings: ``boot_image`` and ``image_family`` win.
        image: the container to run in; without one, PyTorch must be on the boot image.
        networking: what it should be ready for, where one that suits is.

    Raises:
        SpecError: no known family suits the machine.
    """
    named = path_of(settings)
    if named:
        return named
    unfit = refusal(shape, settings, image)
    if unfit is not None:
        allowed, fix = unfit
        raise invalid("image_family", None, allowed, fix, what=f"no known boot image runs {shape.gpu.kind}")
    suiting = _suiting(shape, image)
    return next((one for one in suiting if networking in one.ready_for), suiting[0]).path


def is_ready(shape: Shape, image: str | None, networking: GpuNetworking) -> bool:
    """Whether a family is known that suits the machine and is ready for a plugin."""
    return any(networking in one.ready_for for one in _suiting(shape, image))


def refusal(shape: Shape, settings: ComputeSettings, image: str | None) -> tuple[str, str] | None:
    """What no family that is known has of what a machine needs, and what helps; None where one is named."""
    if path_of(settings) or _suiting(shape, image):
        return None
    gpu = shape.gpu
    if release(gpu.compute_capability) < release(OLDEST_DRIVEN):
        return (
            f"a boot image whose driver knows {gpu.kind}: NVIDIA's open kernel modules begin with Turing",
            "gpu='T4' or gpu='L4', or image_family='PROJECT/FAMILY' with NVIDIA's proprietary modules",
        )
    cpu = shape.machine.cpu_architecture
    container = "" if image is not None else ", with PyTorch on it, or image= to run in a container"
    return (
        f"a family for {cpu} that drives {gpu.kind}{container}",
        "image='REGION-docker.pkg.dev/PROJECT/REPO/IMAGE@sha256:...' or image_family='PROJECT/FAMILY'",
    )


def newest(access: GoogleClient, path: str) -> str:
    """The image that a disk's name stands for today. RequestError, AccessError: it is not there."""
    try:
        url = f"{access.url(Api.COMPUTE)}/compute/v1/{path}"
        found = access.get(url, action="look for the boot image")
    except MissingError as error:
        error.fix = "name another with image_family='PROJECT/FAMILY' or boot_image="
        raise
    return "projects/" + str(found["selfLink"]).partition("/projects/")[2]


def path_of(settings: ComputeSettings) -> str:
    """The image that the settings name, as a disk names it; empty where they name none."""
    if settings.boot_image is not None or settings.image_family is None:
        return settings.boot_image or ""
    project, _, name = settings.image_family.partition("/")
    return f"projects/{project}/global/images/family/{name}"


def _suiting(shape: Shape, image: str | None) -> list[ImageFamily]:
    """The families that run a machine; without a container they need PyTorch."""
    return [
        one
        for one in FAMILIES
        if one.cpu_architecture == shape.machine.cpu_architecture
        and release(one.cuda) >= release(shape.gpu.min_cuda)
        and release(shape.gpu.compute_capability) >= release(OLDEST_DRIVEN)
        and (one.has_torch or image is not None)
    ]
