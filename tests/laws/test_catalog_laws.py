"""Laws that hold over the whole catalog."""

from fractions import Fraction

import pytest
from hypothesis import given, strategies as st

from gputrain import catalog
from gputrain.catalog import ProvisioningModel, Service, Shape, attachments, load
from gputrain.catalog.load import rows
from gputrain.errors import NoFitError
from tests.each import each

KINDS = [gpu.kind for gpu in catalog.gpus()]
NAMES = [(name, gpu.kind) for gpu in catalog.gpus() for name in gpu.names]
N1_HOSTS = [
    f"n1-{series}-{vcpus}" for series in ("standard", "highmem", "highcpu") for vcpus in (2, 8, 32, 96)
]
EVERY = list(
    dict.fromkeys(shape for machine in (None, *N1_HOSTS) for shape in catalog.shapes(machine_type=machine))
)


counts = st.one_of(st.integers(-3, 40), st.sampled_from([Fraction(1, n) for n in (2, 3, 4, 8, 16)]))


@each("kind", KINDS)
def test_each_kind_and_count_gives_exactly_that_or_a_refusal_naming_the_counts_that_exist(kind):
    for count in (*range(-1, 65), *(Fraction(1, n) for n in range(2, 17)), *(Fraction(n, 2) for n in (3, 5))):
        check_exact_or_refused(kind, count)


def check_exact_or_refused(kind, count):
    exist = catalog.counts(kind)
    if count in exist:
        found = catalog.shapes(kind, count)
        assert found
        assert all(shape.gpu.kind == kind and shape.gpu_count == count for shape in found)
        assert all(shape.machine.gpu_count in (count, 0) for shape in found)
        return
    with pytest.raises(NoFitError) as caught:
        catalog.shapes(kind, count)
    assert caught.value.counts == exist
    assert all(str(one) in caught.value.why for one in exist)
    assert caught.value.fix


@given(
    pair=st.sampled_from(NAMES),
    changes=st.lists(st.sampled_from([str.upper, str.lower, str.title, str.swapcase]), max_size=3),
    separator=st.sampled_from(["-", "_", " ", "", "."]),
)
def test_every_name_finds_its_own_gpu_whatever_its_case_and_separators(pair, changes, separator):
    name, kind = pair
    for change in changes:
        name = change(name)
    for old in "-_ ":
        name = name.replace(old, separator)
    assert catalog.find(name).kind == kind


def test_no_two_gpus_share_a_name():
    plain = {}
    for name, kind in NAMES:
        key = "".join(c for c in name.casefold() if c.isalnum())
        assert plain.setdefault(key, kind) == kind, f"{name} names {kind} and {plain[key]}"


@each("service", list(Service))
@each("shape", EVERY)
def test_no_spot_price_is_above_its_standard_price(shape, service):
    by_place = {}
    for price in catalog.prices(shape, service=service):
        assert price.usd_h > 0
        by_place.setdefault(price.region, {})[price.provisioning_model] = price.usd_h
    for region, figures in by_place.items():
        standard = figures.get(ProvisioningModel.STANDARD, float("inf"))
        assert figures.get(ProvisioningModel.SPOT, 0) <= standard, region


def test_every_price_is_of_something_in_a_region_that_lists_it():
    attached = {row.gpu for row in attachments()}
    for row in rows("prices"):
        what = row["what"]
        found = catalog.shapes(what, 1) if what in attached else catalog.shapes(machine_type=what)
        assert row["region"] in catalog.regions(found[0]), row


TABLES = [
    "images",
    "drivers",
    "gpus",
    "machines",
    "families",
    "attachments",
    "quotas",
    "not_sold",
    "skus",
    "prices",
    "places",
]
KEYS = {"drivers": 2, "attachments": 2, "quotas": 3, "places": 2}


@each("name", TABLES)
def test_every_row_is_there_once_and_has_a_source_and_a_date(name):
    keys = [tuple(row.values())[: KEYS.get(name, 1)] for row in load.built_in(name)]
    if name == "prices":  # whose figures may come from several documents, each once
        figures = [(row, column) for row in load.built_in(name) for column in load.FIGURES if row[column]]
        keys = [(row["what"], row["region"], column) for row, column in figures]
    assert len(keys) == len(set(keys)) > 1
    for row in load.built_in(name):
        named = (row.get("sources") or row["source"]).split("; ")
        assert set(named) <= set(catalog.SOURCES), row
        assert row.get("dated") or row["read_on"] >= "2026-11-20", row


def test_every_source_is_used_and_dated_and_every_way_to_talk_has_one():
    cells = [cell for name in TABLES for row in load.built_in(name) for cell in row.values()]
    used = {key for cell in cells for key in cell.split("; ")}
    for row in load.networks()["network"]:
        used |= set(row["sources"])
        assert row["sources"], row
        assert str(row["read_on"]) >= "2026-11-20", row
    used.add("vertex-fee")  # by `catalog.price`
    images = "x:cu117", "us-docker.pkg.dev/vertex-ai/training/pytorch-gpu.2-4"
    used |= {key for one in images for fault in catalog.image_faults(one, "H100") for key in fault.sources}
    assert set(catalog.SOURCES) <= used
    for source in catalog.SOURCES.values():
        assert source.what, source
        assert source.dated, source
        assert source.read_on >= "2026-11-20", source


@each("shape", EVERY)
def test_every_shape_is_sold_somewhere_and_all_its_zones_lie_in_its_regions(shape):
    assert isinstance(shape, Shape)
    assert shape.sold_as(Service.COMPUTE)
    regions = catalog.regions(shape)
    assert regions
    assert {catalog.region_of(zone) for zone in catalog.zones(shape)} <= set(regions)
    assert bool(catalog.regions(shape, Service.VERTEX)) == bool(shape.sold_as(Service.VERTEX))


@each("shape", EVERY)
def test_an_attached_gpu_stays_within_the_limits_of_its_host(shape):
    limits = [row for row in attachments() if (row.gpu, row.gpu_count) == (shape.gpu.kind, shape.gpu_count)]
    assert bool(limits) == shape.is_attached
    for limit in limits:
        assert shape.machine.vcpus <= limit.max_vcpus
        assert shape.machine.memory_gib <= limit.max_memory_gib
