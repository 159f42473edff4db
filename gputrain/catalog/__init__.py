"""What Google Cloud sells with NVIDIA GPUs: kinds, machines, places, prices, quotas.

::

    find("H100")                     any name of a GPU, to its row
    shapes("H100", 2)                the machines that carry exactly that, with filters
    regions(shape), zones(shape)     where it is listed
    price(shape, region, model)      dollars an hour, or None where unknown
    quota("H100", model)             the quota it counts against
    fabrics(shape)                   how the GPUs of several machines talk
    image_faults(image, shape)       why an image does not suit it

Each fact has a source and a date. Nothing here reads the network or the clock. Prices and places come
from the tables built in, or from the user's own newer ones (`gputrain.refresh`), read once a process.
"""

from .fabrics import (
    Fabric as Fabric,
    GpuNetworking as GpuNetworking,
    fabrics as fabrics,
    nccl_defaults as nccl_defaults,
)
from .families import (
    ANY_RESERVATION as ANY_RESERVATION,
    FLEX_START_LONGEST_RUN_S as FLEX_START_LONGEST_RUN_S,
    CompactPlacement as CompactPlacement,
    Confidence as Confidence,
    Family as Family,
    ProvisioningModel as ProvisioningModel,
    ReservationKind as ReservationKind,
    Service as Service,
    Stage as Stage,
    Terms as Terms,
)
from .gpu import Gpu as Gpu, Gpus as Gpus, Lifecycle as Lifecycle, gpus as gpus
from .images import ImageFault as ImageFault, cuda_of as cuda_of, image_faults as image_faults
from .load import READ_ON as READ_ON, SOURCES as SOURCES, Source as Source, source as source
from .machine_types import (
    Attachment as Attachment,
    Machine as Machine,
    Machines as Machines,
    machine as machine,
    machines as machines,
)
from .names import NotSold as NotSold, find as find, not_sold as not_sold
from .places import (
    likely_region as likely_region,
    not_for_training as not_for_training,
    region_of as region_of,
    regions as regions,
    zones as zones,
)
from .pricing import (
    VERTEX_FEE as VERTEX_FEE,
    Price as Price,
    Prices as Prices,
    price as price,
    prices as prices,
    shapes as shapes,
)
from .quotas import (
    ALL_REGIONS as ALL_REGIONS,
    CPUS as CPUS,
    PREEMPTIBLE_CPUS as PREEMPTIBLE_CPUS,
    Quota as Quota,
    quota as quota,
)
from .shape import Shape as Shape, Shapes as Shapes, counts as counts
