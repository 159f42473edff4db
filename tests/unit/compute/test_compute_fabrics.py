"""Interfaces of GPUs: the subnetworks that a refusal names are those that are then accepted."""

import ast

import pytest

from gputrain import catalog
from gputrain.backends.compute import fabrics
from gputrain.errors import SpecError
from tests import present

SHAPES = {
    shape.machine_type: shape
    for shape in catalog.shapes()
    if any(fabric.nics for fabric in catalog.fabrics(shape))
}


def choice(machine_type, subnetworks, fabric):
    backend = present.backend("compute")(
        "my-project", regions=["us-central1"], bucket="gs://my-bucket", gpu_networking=fabric.networking,
        gpu_subnetworks=subnetworks, image_family="my-project/mine",
    )  # fmt: skip
    return fabrics.choose(SHAPES[machine_type], backend._settings, 2, "an-image")


@pytest.mark.parametrize("machine_type", sorted(SHAPES))
def test_as_many_subnetworks_are_asked_for_as_there_are_interfaces(machine_type):
    for fabric in catalog.fabrics(SHAPES[machine_type]):
        named = fabrics.names(fabric)
        assert len(named) == len(set(named)) == len(fabric.nics)
        assert [one.rpartition("-")[0] for one in named] == [
            "gpu-sub" if kind == "GVNIC" else "rdma-sub" for kind in fabric.nics
        ]
        assert choice(machine_type, named, fabric).lacks == ""
        for wrong in (named[:-1], [*named, "one-more"]):
            if wrong and fabric.nics:
                counted = "1 subnetwork" if len(named) == 1 else f"{len(named)} subnetworks"
                told = rf"{counted} \(.*\) of their own, and gpu_subnetworks names {len(wrong)}"
                with pytest.raises(SpecError, match=told) as caught:
                    choice(machine_type, wrong, fabric).check()
                said = caught.value.faults[0].fix.partition("gpu_subnetworks=")[2].partition(";")[0]
                assert ast.literal_eval(said) == named


@pytest.mark.parametrize("machine_type", sorted(SHAPES))
def test_a_plan_warns_of_a_way_that_is_slower_than_the_fastest(machine_type):
    shape, ways = SHAPES[machine_type], catalog.fabrics(SHAPES[machine_type])
    for fabric in ways:
        backend = present.backend("compute")(
            "my-project", regions=["us-central1"], bucket="gs://my-bucket", image_family="my-project/mine",
            gpu_networking=fabric.networking, gpu_subnetworks=fabrics.names(fabric),
        )  # fmt: skip
        told = fabrics.network(shape, backend._settings, 2, "an-image")
        is_slower = fabric.gbps_per_gpu(shape) < ways[0].gbps_per_gpu(shape)
        assert bool(told.warning) is is_slower
        assert (told.name, told.gbps_per_gpu) == (fabric.networking.value, fabric.gbps_per_gpu(shape))
        assert (
            not is_slower
            or f"of {ways[0].gbps_per_gpu(shape):g} Gbps a GPU ({ways[0].networking})" in told.warning
        )
        assert fabrics.network(shape, backend._settings, 1, "an-image") is None
