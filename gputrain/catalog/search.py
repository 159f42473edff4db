"""What is on sale, by kind, count, place, price and more: the shapes that answer."""

from __future__ import annotations

from fractions import Fraction

from .places import regions
from .pricing import costs_at_most
from .provisioning import ProvisioningModel, Service
from .shape import Shape, Shapes, carrying


def shapes(
    gpu: str | None = None,
    count: float | Fraction | None = None,
    *,
    machine_type: str | None = None,
    service: Service | str | None = None,
    provisioning_model: ProvisioningModel | str | None = None,
    region: str | None = None,
    min_gpu_memory_gib: float = 0,
    min_compute_capability: str = "0.0",
    max_usd_h: float | None = None,
) -> Shapes:
    """The shapes that carry a GPU kind and a count, exactly; all of them when nothing is asked.

    Args:
        gpu: any name of a GPU (`find`).
        count: GPUs on one machine.
        machine_type: this machine only; for attached GPUs, another N1 host than the default.
        service: only what this service offers, ``"compute"`` or ``"vertex"``.
        provisioning_model: only what is sold this way (``"spot"``), by ``service`` or by either without one.
        region: only what the service (by default Compute Engine) lists in this region.
        min_gpu_memory_gib: at least this much memory on each GPU.
        min_compute_capability: at least this, such as ``"8.0"`` for bfloat16.
        max_usd_h: known to cost at most this per hour, in ``region`` or somewhere,
            under ``provisioning_model`` or any that is sold. Shapes without a whole price are left out:
            GPUs attached to N1, and everything on Vertex AI, whose fee is not known.

    Returns:
        Smallest count first, then newest GPU, then the table's order. Empty where the filters leave nothing.

    Raises:
        UnknownGpuError: no GPU goes by that name.
        NoFitError: no machine carries that count, or the GPU is gone; ``counts`` holds those that exist.
        ValueError: a word that is no service, provisioning model or compute capability.

    Source: `gputrain.catalog.machines`, read on `gputrain.catalog.READ_ON`.

    >>> [shape.machine_type for shape in shapes("H100", 2)]
    ['a3-highgpu-2g']
    """
    service = Service(service) if service else None
    model = ProvisioningModel(provisioning_model) if provisioning_model else None
    least = _capability(min_compute_capability)
    return Shapes(
        shape
        for shape in carrying(gpu, count, machine_type)
        if shape.gpu.memory_gib >= min_gpu_memory_gib
        and shape.gpu.capability >= least
        and _is_offered(shape, service, model)
        and (region is None or region in regions(shape, service or Service.COMPUTE))
        and (
            max_usd_h is None
            or costs_at_most(shape, max_usd_h, region=region, provisioning_model=model, service=service)
        )
    )


def _capability(words: str) -> tuple[int, int]:
    major, _, minor = words.partition(".")
    return int(major), int(minor or 0)


def _is_offered(shape: Shape, service: Service | None, model: ProvisioningModel | None) -> bool:
    asked = (service,) if service else tuple(Service)
    sold = {one for each in asked for one in shape.sold_as(each)}
    return bool(sold) if model is None else model in sold
