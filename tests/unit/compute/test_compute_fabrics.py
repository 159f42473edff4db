"""Interfaces of GPUs: the subnetworks that a refusal names are those that are then accepted."""

import pytest

from gputrain import catalog
from gputrain.backends.compute import networking
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
    return networking.choose(SHAPES[machine_type], backend._settings, 2, "an-image")


@pytest.mark.parametrize("machine_type", sorted(SHAPES))
def test_a_plan_warns_of_a_way_that_is_slower_than_the_fastest(machine_type):
    shape, ways = SHAPES[machine_type], catalog.fabrics(SHAPES[machine_type])
    for fabric in ways:
        backend = present.backend("compute")(
            "my-project", regions=["us-central1"], bucket="gs://my-bucket", image_family="my-project/mine",
            gpu_networking=fabric.networking, gpu_subnetworks=networking.names(fabric),
        )  # fmt: skip
        told = networking.network(shape, backend._settings, 2, "an-image")
        is_slower = fabric.gbps_per_gpu(shape) < ways[0].gbps_per_gpu(shape)
        assert bool(told.warning) is is_slower
        assert (told.name, told.gbps_per_gpu) == (fabric.networking.value, fabric.gbps_per_gpu(shape))
        assert (
            not is_slower
            or f"of {ways[0].gbps_per_gpu(shape):g} Gbps a GPU ({ways[0].networking})" in told.warning
        )
        assert networking.network(shape, backend._settings, 1, "an-image") is None


@pytest.mark.parametrize(
    ("image", "lacks"),
    [("train:cu126", False), ("train:cuda13.0", True), ("an-image", False), (None, False)],
)
def test_tcpxo_needs_an_image_of_cuda_12_on_several_machines(image, lacks):
    shape = SHAPES["a3-megagpu-8g"]
    backend = present.backend("compute")(
        "my-project", regions=["us-central1"], bucket="gs://my-bucket", image_family="my-project/mine",
        gpu_subnetworks=[f"gpu-sub-{number}" for number in range(8)],
    )  # fmt: skip
    choice = networking.choose(shape, backend._settings, 2, image)
    assert ("CUDA 12" in choice.lacks) is lacks
    if lacks:
        assert choice.fix.startswith("an image built with CUDA 12; or gpu_networking='single-nic'")
    assert networking.choose(shape, backend._settings, 1, image).lacks == ""
