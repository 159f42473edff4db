"""How GPUs of several machines talk: a row for every family, and what can be checked of each."""

import re

from gputrain import catalog
from gputrain.catalog import GpuNetworking, load
from tests.each import each

SHAPES = {shape.machine_type: shape for shape in catalog.shapes()}
ROWS = [(kind, row) for kind, shape in SHAPES.items() for row in catalog.fabrics(shape)]


def test_every_family_but_the_newest_has_its_rows_and_nothing_else_has():
    named = {of for row in load.networks()["network"] for of in row["of"]}
    families = {family.name for family in catalog.families().values()}
    assert named - set(SHAPES) == families - {"A4X Max"}
    assert named & set(SHAPES) == {"g4-standard-384"}


@each(("kind", "row"), ROWS)
def test_a_row_is_whole(kind, row):
    shape = SHAPES[kind]
    assert all(catalog.source(key) for key in row.sources)
    assert len(row.nics) < shape.machine.nics
    assert 0 < row.gbps_per_gpu(shape) * shape.api_gpu_count <= shape.machine.max_gbps
    assert bool(row.rdma_nics) == bool(row.roce_profile)
    assert row.mtu in (1460, 8244, 8896)
    assert row.is_plain or row.libraries
    data = [f"eth{number}" for number in range(1, len(row.nics) + 1)]
    for value in row.environment.values():
        shown = value.format(control="eth0", data=data, all_data=",".join(data), gvnics="eth0")
        assert not re.search(r"[{}]", shown)


@each("kind", SHAPES)
def test_the_last_way_needs_nothing_and_the_fastest_comes_first(kind):
    ways = catalog.fabrics(SHAPES[kind])
    if not ways:
        assert SHAPES[kind].machine.family.name == "A4X Max"
        return
    assert (ways[-1].networking, ways[-1].nics, ways[-1].is_plain) == (GpuNetworking.SINGLE_NIC, (), True)
    rates = [one.gbps_per_gpu(SHAPES[kind]) for one in ways]
    assert rates == sorted(rates, reverse=True)


@each(
    ("kind", "networking", "nics", "gbps"),
    [
        ("a4-highgpu-8g", "gib", 9, 400),
        ("a3-ultragpu-8g", "gib", 9, 400),
        ("a4x-highgpu-4g", "gib", 5, 400),
        ("a3-megagpu-8g", "tcpxo", 8, 200),
        ("a3-highgpu-8g", "tcpx", 4, 100),
        ("g4-standard-384", "multi-nic", 1, 50),
        ("a3-highgpu-4g", "single-nic", 0, 25),
    ],
)
def test_the_fastest_way_is_the_one_that_google_documents(kind, networking, nics, gbps):
    fastest = catalog.fabrics(SHAPES[kind])[0]
    assert (str(fastest.networking), len(fastest.nics)) == (networking, nics)
    assert fastest.gbps_per_gpu(SHAPES[kind]) == gbps


def test_nccl_is_told_how_far_gpus_of_a_g4_reach():
    told = {kind: catalog.nccl_defaults(shape) for kind, shape in SHAPES.items()}
    assert {kind: one["NCCL_P2P_LEVEL"] for kind, one in told.items() if one} == {
        "g4-standard-96": "PHB", "g4-standard-192": "PHB", "g4-standard-384": "SYS",
    }  # fmt: skip
