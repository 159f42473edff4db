"""Google's prebuilt PyTorch containers: which one suits a GPU. Pure."""

from __future__ import annotations

import attrs

from gputrain.catalog import Shape, image_faults
from gputrain.catalog.images import release
from gputrain.errors import Fault, SpecError


@attrs.frozen(kw_only=True)
class Prebuilt:
    """One container image with Python and PyTorch."""

    uri: str
    torch: str
    python: str
    cuda: str


PREBUILT: tuple[Prebuilt, ...] = (
    Prebuilt(
        uri="us-docker.pkg.dev/vertex-ai/training/pytorch-gpu.2-4.py310:latest",
        torch="2.4", python="3.10", cuda="12.4",
    ),
)  # fmt: skip
"""Newest first. Source: Vertex AI's list of prebuilt containers, by general knowledge, not re-read."""


def choose(image: str | None, shape: Shape) -> str:
    """The image to run: the user's own, or the newest prebuilt one that knows the GPU.

    Raises:
        SpecError: the user's image cannot run this GPU, or no prebuilt one can.
    """
    if image is not None:
        certain = [fault for fault in image_faults(image, shape) if fault.is_certain]
        if certain:
            fault = Fault(field="image", value=repr(image), allowed=certain[0].why, fix=certain[0].fix)
            raise SpecError(f"{certain[0].what}: {fault}", faults=(fault,))
        return image
    for one in PREBUILT:
        fits_cpu = shape.machine.cpu_architecture == "x86_64"
        if fits_cpu and release(one.cuda) >= release(shape.gpu.min_cuda):
            return one.uri
    allowed = f"an image with CUDA {shape.gpu.min_cuda} or newer for {shape.machine.cpu_architecture}"
    fix = "image='REGION-docker.pkg.dev/PROJECT/REPOSITORY/IMAGE@sha256:...'"
    missing = Fault(field="image", value="None", allowed=allowed, fix=fix)
    raise SpecError(f"no prebuilt container runs {shape.gpu.kind}: {missing}", faults=(missing,))
