"""What Google Cloud sells with NVIDIA GPUs: kinds, machines, places, prices, quotas.

::

    find("H100")                     any name of a GPU, to its row
    shapes("H100", 2)                the machines that carry exactly that, with filters
    regions(shape), zones(shape)     where it is listed
    price(shape, region, model)      dollars an hour, or None where unknown
    quota("H100", model)             the quota it counts against
    image_faults(image, shape)       why an image does not suit it

Each fact has a source and a date. Nothing here reads the network or the clock. Prices and places come
from the tables built in, or from the user's own newer ones (`gputrain.refresh`), read once a process.
"""

from __future__ import annotations

from gputrain import lazy

from .provisioning import (
    FLEX_START_LONGEST_RUN_S,
    Confidence,
    ProvisioningModel,
    ReservationKind,
    Service,
    Stage,
)

TYPE_CHECKING = False
if TYPE_CHECKING:
    from .cards import NotSold
    from .families import CompactPlacement, Family, Terms
    from .gpu import Gpu, Gpus, Lifecycle, gpus
    from .hosts import Attachment
    from .images import ImageFault, cuda_of, image_faults
    from .load import source
    from .machine_types import Machine, Machines, machine, machines
    from .names import find, not_sold
    from .places import not_for_training, region_of, regions, zones
    from .pricing import Price, Prices, price, prices
    from .quotas import ALL_REGIONS, CPUS, PREEMPTIBLE_CPUS, Quota, quota
    from .search import shapes
    from .shape import Shape, Shapes, counts
    from .sources import READ_ON, SOURCES, Source

_HOMES = {
    "ALL_REGIONS": "quotas",
    "Attachment": "hosts",
    "CPUS": "quotas",
    "Family": "families",
    "Gpu": "gpu",
    "Gpus": "gpu",
    "ImageFault": "images",
    "Lifecycle": "gpu",
    "Machine": "machine_types",
    "Machines": "machine_types",
    "NotSold": "cards",
    "PREEMPTIBLE_CPUS": "quotas",
    "CompactPlacement": "families",
    "Price": "pricing",
    "Prices": "pricing",
    "Quota": "quotas",
    "READ_ON": "sources",
    "SOURCES": "sources",
    "Shape": "shape",
    "Shapes": "shape",
    "Source": "sources",
    "Terms": "families",
    "counts": "shape",
    "cuda_of": "images",
    "find": "names",
    "gpus": "gpu",
    "image_faults": "images",
    "machine": "machine_types",
    "machines": "machine_types",
    "not_for_training": "places",
    "not_sold": "names",
    "price": "pricing",
    "prices": "pricing",
    "quota": "quotas",
    "region_of": "places",
    "regions": "places",
    "shapes": "search",
    "source": "load",
    "zones": "places",
}

__all__ = [
    "ALL_REGIONS",
    "Attachment",
    "CPUS",
    "Confidence",
    "Family",
    "Gpu",
    "Gpus",
    "ImageFault",
    "Lifecycle",
    "Machine",
    "Machines",
    "NotSold",
    "FLEX_START_LONGEST_RUN_S",
    "PREEMPTIBLE_CPUS",
    "CompactPlacement",
    "Price",
    "Prices",
    "ProvisioningModel",
    "Quota",
    "READ_ON",
    "ReservationKind",
    "SOURCES",
    "Service",
    "Shape",
    "Shapes",
    "Source",
    "Stage",
    "Terms",
    "counts",
    "cuda_of",
    "find",
    "gpus",
    "image_faults",
    "machine",
    "machines",
    "not_for_training",
    "not_sold",
    "price",
    "prices",
    "quota",
    "region_of",
    "regions",
    "shapes",
    "source",
    "zones",
]


__getattr__, __dir__ = lazy.names(__name__, _HOMES)
