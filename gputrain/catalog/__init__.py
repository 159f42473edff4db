"""What Google Cloud sells with NVIDIA GPUs: kinds, machines, places, prices, quotas.

::

    find("H100")                     any name of a GPU, to its row
    shapes("H100", 2)                the machines that carry exactly that, with filters
    regions(shape), zones(shape)     where it is listed
    price(shape, region, model)      dollars an hour, or None where unknown
    quota("H100", model)             the quota it counts against
    fabrics(shape)                   how the GPUs of several machines talk
    image_faults(image, shape)       why an image does not suit it

The facts are tables in ``data/``, each row with its source and date. Nothing here reads the network or the
clock. Prices and places come from the tables built in, or from the user's own newer ones
(`gputrain.catalog.refresh`), read once a process.
"""

from .images import (
    ImageFault as ImageFault,
    cuda_of as cuda_of,
    default_image as default_image,
    image_faults as image_faults,
)
from .load import SOURCES as SOURCES, source as source
from .lookup import (
    attachments as attachments,
    counts as counts,
    fabrics as fabrics,
    families as families,
    gpus as gpus,
    is_of_all_regions as is_of_all_regions,
    likely_region as likely_region,
    listed_in as listed_in,
    machine as machine,
    machines as machines,
    nccl_defaults as nccl_defaults,
    not_for_training as not_for_training,
    other_quota as other_quota,
    possible_zones as possible_zones,
    price as price,
    prices as prices,
    quota as quota,
    region_of as region_of,
    regions as regions,
    release as release,
    shapes as shapes,
    zones as zones,
)
from .models import (
    ANY_RESERVATION as ANY_RESERVATION,
    FLEX_START_LONGEST_RUN_S as FLEX_START_LONGEST_RUN_S,
    CompactPlacement as CompactPlacement,
    Confidence as Confidence,
    Fabric as Fabric,
    Gpu as Gpu,
    GpuNetworking as GpuNetworking,
    Gpus as Gpus,
    Machine as Machine,
    Price as Price,
    Prices as Prices,
    ProvisioningModel as ProvisioningModel,
    Quota as Quota,
    Service as Service,
    Shape as Shape,
    Shapes as Shapes,
    Source as Source,
    Stage as Stage,
)
from .names import (
    NOT_SOLD as NOT_SOLD,
    find as find,
    not_sold as not_sold,
)
