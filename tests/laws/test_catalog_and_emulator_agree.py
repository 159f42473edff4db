"""Two copies of the facts, transcribed apart: what the catalog tells and what the emulator enforces."""

import pytest

from gputrain import catalog
from gputrain.catalog import ProvisioningModel, Service
from gputrain_emulator import facts
from gputrain_emulator.vertex import offers
from tests.each import each

STANDARD, SPOT = ProvisioningModel.STANDARD, ProvisioningModel.SPOT
FLEX = ProvisioningModel.FLEX_START
GPUS = [gpu for gpu in catalog.gpus() if gpu.lifecycle.stage is not catalog.Stage.GONE]
MACHINES = list(catalog.machines())
SHAPES = list(catalog.shapes())
BUILT_IN = [shape for shape in SHAPES if not shape.is_attached]


def name(row):
    return getattr(row, "machine_type", None) or row.kind


@each("machine", MACHINES)
def test_on_what_a_machine_is(machine):
    theirs = facts.machines()[machine.machine_type]
    kind = catalog.find(theirs.accelerator).kind if theirs.accelerator else None
    assert (machine.gpu, machine.vcpus, machine.cpu_architecture) == (kind, theirs.vcpus, theirs.arch.lower())
    assert int(machine.memory_gib * 1024) == theirs.memory_mib
    assert set(machine.boot_disk_types) <= set(theirs.boot_disks)


@each("machine", MACHINES)
def test_on_how_compute_engine_sells_it(machine):
    theirs = facts.machines()[machine.machine_type]
    sold = machine.sold_as(Service.COMPUTE)
    assert (STANDARD in sold, SPOT in sold, FLEX in sold) == (theirs.standard, theirs.spot, theirs.flex_start)
    assert bool(machine.family.reservations) == theirs.reservation


@each("shape", BUILT_IN)
def test_on_how_many_gpus_apis_count(shape):
    assert shape.api_gpu_count == facts.machines()[shape.machine_type].gpus


@each("shape", BUILT_IN)
def test_on_the_zones_of_a_machine(shape):
    """The emulator's live lists have one zone more, in a region of which no table has a zone."""
    theirs = {zone for zone in facts.zones() if facts.offered(shape.machine_type, zone)}
    newer = {"us-east4-a"} if shape.machine_type == "g4-standard-384" else set()
    assert set(catalog.zones(shape)) == theirs - newer
    assert {facts.region_of(zone) for zone in newer} <= set(catalog.regions(shape))


def test_on_what_attaches_to_n1():
    ours = {
        (catalog.find(row.gpu).accelerator_type, row.gpu_count): (row.max_vcpus, row.max_memory_gib)
        for row in catalog.attachments()
    }
    assert ours == facts.attach_limits()


@each("shape", BUILT_IN)
def test_on_prices(shape):
    for region in catalog.regions(shape):
        for model in (STANDARD, SPOT):
            price = catalog.price(shape, region, model)
            if price is not None:
                theirs = facts.price_usd_h(shape.machine_type, region, model.name)
                assert theirs in (0, pytest.approx(price.usd_h, abs=1e-5)), region  # the sum of rounded parts


@each("gpu", GPUS)
def test_on_the_names_of_quotas(gpu):
    theirs = facts.gpu_quotas()[gpu.accelerator_type]
    standard, spot, flex = (catalog.quota(gpu, model) for model in (STANDARD, SPOT, FLEX))
    assert (flex and flex.quota_id) == (spot and spot.quota_id)
    assert (standard.metric or "", standard.quota_id) == (theirs.regional_metric, theirs.quota_id)
    assert (standard.gpu_family or "") == theirs.gpu_family
    assert (spot.quota_id if spot else "") == theirs.preemptible_quota_id
    on_vertex = [catalog.quota(gpu, model, service="vertex") for model in (STANDARD, SPOT)]
    assert [quota.metric if quota else "" for quota in on_vertex] == [
        theirs.vertex_metric,
        theirs.vertex_preemptible_metric,
    ]
    assert [quota.quota_id if quota else "" for quota in on_vertex] == [
        theirs.vertex_quota_id,
        theirs.vertex_preemptible_quota_id,
    ]


@each("shape", SHAPES)
def test_on_what_vertex_trains_on(shape):
    accelerator = shape.gpu.vertex_accelerator_type
    is_offered = shape.gpu_count in offers.allowed_counts(shape.machine_type, accelerator)
    assert bool(shape.sold_as(Service.VERTEX)) == is_offered
    if is_offered:
        theirs = offers.ACCELERATORS[accelerator]
        assert (FLEX in shape.sold_as(Service.VERTEX)) == theirs.flex_start
        assert (STANDARD not in shape.sold_as(Service.VERTEX)) == theirs.needs_reservation
        assert set(catalog.regions(shape, Service.VERTEX)) == theirs.regions
