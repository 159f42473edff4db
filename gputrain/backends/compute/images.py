"""What a VM boots: the newest image family that knows its GPU and its CPU. Pure."""

from __future__ import annotations

import attrs

from gputrain.backends.compute.settings import ComputeSettings
from gputrain.catalog import Shape
from gputrain.catalog.images import release
from gputrain.errors import Fault, SpecError

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
        project="deeplearning-platform-release", name="pytorch-2-7-cu128-ubuntu-2204-nvidia-570",
        cuda="12.8",
    ),
    ImageFamily(
        project="ubuntu-os-accelerator-images", name="ubuntu-accelerator-2404-arm64-with-nvidia-580",
        cuda="12.9", cpu_architecture="arm64", has_torch=False,
    ),
)  # fmt: skip
"""In order of preference. All Debian families are deprecated; 2-7 gets no more patches and ends 2027-04-13.

Source: Deep Learning VM "Choose an image" (2026-09-15, at second hand) and AI Hypercomputer "Images"
(2026-04-06). A family is looked up before a VM is made, so one that Google has renamed is told by name.
"""


def choose(shape: Shape, settings: ComputeSettings, image: str | None) -> str:
    """The boot image as a disk names it.

    Args:
        shape: the machine.
        settings: ``boot_image`` and ``image_family`` win.
        image: the container to run in; without one, PyTorch must be on the boot image.

    Raises:
        SpecError: no known family suits the machine.
    """
    named = path_of(settings)
    if named:
        return named
    for family in FAMILIES:
        if _suits(family, shape, native=image is None):
            return family.path
    cpu = shape.machine.cpu_architecture
    container = "" if image is not None else ", with PyTorch on it, or image= to run in a container"
    fault = Fault(
        field="image_family",
        value="None",
        allowed=f"a family for {cpu} that drives {shape.gpu.kind}{container}",
        fix="image='REGION-docker.pkg.dev/PROJECT/REPO/IMAGE@sha256:...' or image_family='PROJECT/FAMILY'",
    )
    raise SpecError(f"no known boot image runs {shape.gpu.kind} on {cpu}: {fault}", faults=(fault,))


def path_of(settings: ComputeSettings) -> str:
    """The image that the settings name, as a disk names it; empty where they name none."""
    if settings.boot_image is not None or settings.image_family is None:
        return settings.boot_image or ""
    project, _, name = settings.image_family.partition("/")
    return f"projects/{project}/global/images/family/{name}"


def _suits(family: ImageFamily, shape: Shape, *, native: bool) -> bool:
    gpu, cuda = shape.gpu, release(family.cuda)
    if family.cpu_architecture != shape.machine.cpu_architecture or cuda < release(gpu.min_cuda):
        return False
    dropped_in = gpu.torch_dropped_in if native else gpu.cuda_dropped_in
    return (family.has_torch or not native) and (not dropped_in or cuda < release(dropped_in))
