"""A cloud of one's own, and readers of its quotas."""

import pytest

from gputrain.catalog import ProvisioningModel, Service, shapes
from gputrain.google.cache import LONGEST_S, Cache
from gputrain.quota.reader import QuotaReader
from tests.support.clouds import REGION, client, emulated

FAMILY = "GPUS_PER_GPU_FAMILY"
READS = {"compute.regions.list", "compute.projects.get", "cloudquotas.quotaInfos.list"}


@pytest.fixture
def cloud():
    """The test fails if anything that was said departs from Google's published documents."""
    with emulated(is_judged=True) as running:
        yield running


@pytest.fixture
def access(cloud):
    """Makes accesses; waiting moves the emulator's clock."""

    def build(*, wait_s=None, credentials=None):
        own = {"credentials": credentials} if credentials else {}
        made = client(cloud, sleep=cloud.clock.advance, now=cloud.clock.now, **own)
        if wait_s is not None:
            looks = Cache(fresh_s=LONGEST_S, failure_s=15.0, now=cloud.clock.now, wait_s=wait_s)
            object.__setattr__(made, "looks", looks)
        return made

    return build


def of_compute(client, **options):
    """A reader of Compute Engine's quotas."""
    return QuotaReader(client=client, service=Service.COMPUTE, **options)


def of_vertex(client, **options):
    """A reader of Vertex AI's quotas."""
    return QuotaReader(client=client, service=Service.VERTEX, **options)


@pytest.fixture
def reader(access):
    """A reader of Compute Engine's quotas."""
    return of_compute(access())


def standing(book, gpu, count=1, model="standard", region=REGION, *, nodes=1, machine_type=None):
    """How ``nodes`` machines with ``count`` GPUs stand in a book."""
    shape = shapes(gpu, count, machine_type=machine_type)[0]
    return book.status(shape, nodes, ProvisioningModel(model), region)
