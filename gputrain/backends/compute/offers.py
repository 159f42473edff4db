"""What Compute Engine sells to a project, by the catalog, and what it cannot honour. Pure."""

from __future__ import annotations

from datetime import timedelta
from functools import partial

from gputrain import catalog
from gputrain.backends.compute import images, networks
from gputrain.backends.compute.names import NAME
from gputrain.backends.compute.settings import ComputeSettings
from gputrain.backends.google import LIMITS as OF_GOOGLE, folders_kept
from gputrain.catalog import FLEX_START_LONGEST_RUN_S, Price, ProvisioningModel, Service, Shape
from gputrain.planning import Offer, Supply
from gputrain.spec import TrainingSpec

LONGEST_FLEX_START = timedelta(seconds=FLEX_START_LONGEST_RUN_S)
MOST_NODES = 1000
"""VMs in one bulkInsert. Source: compute v1 documentation, read 2026-11-20."""


def supply(settings: ComputeSettings) -> Supply:
    """Every shape with GPUs in the zones of the allowed regions, in the order of the regions."""
    shapes = catalog.shapes(service=Service.COMPUTE)
    offers = tuple(_offer(shape, settings) for shape in shapes)
    return Supply(
        backend=NAME,
        offers=offers,
        limits=(*OF_GOOGLE, *LIMITS),
        find_gpu=catalog.find,
        regions=tuple(settings.regions),
    )


def _offer(shape: Shape, settings: ComputeSettings) -> Offer:
    known = catalog.zones(shape)
    needs = networks.missing(shape, settings)

    def price_of(place: str, model: ProvisioningModel | None) -> Price | None:
        return None if model is None else catalog.price(shape, catalog.region_of(place), model)

    return Offer(
        gpu=shape.gpu.kind,
        gpu_count=shape.gpu_count,
        machine_type=shape.machine_type,
        provisioning_models=shape.sold_as(Service.COMPUTE),
        places=tuple(
            zone for region in settings.regions for zone in known if catalog.region_of(zone) == region
        ),
        price_of=price_of,
        region_of=catalog.region_of,
        max_nodes=1 if needs else MOST_NODES,
        max_nodes_why=needs
        and f"the GPUs of several {shape.machine_type} talk through networks that are not named",
        max_nodes_fix=needs and f"{needs}; then name the subnetworks in gpu_subnetworks, in that order",
        refuses=partial(_refuses, shape, settings),
    )


def _refuses(
    shape: Shape, settings: ComputeSettings, spec: TrainingSpec, model: ProvisioningModel | None
) -> tuple[str, str] | None:
    """What no boot image or flex-start can give; docs/design/decisions/ says why a gang has none."""
    unbootable = images.refusal(shape, settings, spec.image_name)
    if unbootable is not None:
        lacks, fix = unbootable
        return f"no boot image is known for it: it needs {lacks}", fix
    if model is not ProvisioningModel.FLEX_START:
        return None
    if spec.num_nodes > 1:
        why = "Google queues flex-start VMs one by one, so a gang of them could wait half made, and bill"
        return why, "num_nodes=1, another provisioning_model, or Vertex AI, which queues whole jobs"
    if spec.max_run_duration > LONGEST_FLEX_START:
        return (
            "flex-start VMs run for 7 days at most",
            "max_run_duration='7d', and resume from the checkpoint",
        )
    return None


LIMITS = folders_kept("a folder of a VM is gone when the VM is", "gs://")
