"""Up to where a backend of VMs goes: how long it waits, how seldom it looks, what suits a machine."""

import json
import uuid

import attrs
import pytest

from gputrain import catalog
from gputrain.backends.compute import images
from gputrain.backends.compute.calls import EVERY_S, LONGEST_S
from gputrain.backends.compute.look import FEW, FRESH_S, _fresh_s
from gputrain.errors import TransientError
from tests.road import Road
from tests.unit.compute.test_compute_create import BULK, spec


@pytest.mark.parametrize(
    ("vms", "fresh_s"),
    [(0, FRESH_S), (FEW, FRESH_S), (FEW + 1, 3), (500, 3), (501, 6), (1000, 6), (10_000, 60)],
)
def test_a_list_of_vms_is_read_the_more_seldom_the_more_pages_it_has(vms, fresh_s):
    assert _fresh_s(({str(one): {} for one in range(vms)}, True)) == fresh_s


def test_an_operation_is_waited_for_no_longer_than_is_said(cloud, backend, code):
    Road(backend).submit(spec(code), job_id="bert-1")
    sent = json.loads(next(seen for seen in cloud.requests if seen.method == BULK).body)
    cloud.compute.settings.provision_s = 2 * LONGEST_S
    operation = backend._calls.start("us-central1-b", "bulkInsert", sent, str(uuid.uuid4()))
    began = cloud.clock.now()
    with pytest.raises(TransientError, match=r"in us-central1-b is not done after 300\.5 s"):
        backend._calls.end_of("us-central1-b", operation)
    assert LONGEST_S <= cloud.clock.now() - began <= LONGEST_S + 2 * EVERY_S


def test_jobs_of_another_backend_in_the_same_bucket_are_none_of_its_own(cloud, backend, code):
    Road(backend).submit(spec(code), job_id="bert-1")
    board = backend.recorder().board
    ask = board.read("bert-1").last
    other = attrs.evolve(board.read("bert-1"), job_id="bert-2", generation=0)
    other = attrs.evolve(other, asks=(attrs.evolve(ask, way=attrs.evolve(ask.way, backend="vertex")),))
    board.write(other)
    assert {one.job_id for one in board.entries()} == {"bert-1", "bert-2"}
    assert [ref.name for ref in backend.find()] == ["bert-1"]


@pytest.mark.parametrize(
    ("cuda", "suits"),
    [("{}", True), ("99.0", True), ("1.0", False), ("9.9", False)],
    ids=["same", "new", "old", "9.9"],
)
def test_a_boot_image_suits_whose_cuda_is_the_gpus_own_or_newer(cuda, suits):
    (shape, *_) = catalog.shapes("H100", 8)
    family = next(one for one in images.FAMILIES if images._suits(one, shape, native=False))
    changed = attrs.evolve(family, cuda=cuda.format(shape.gpu.min_cuda))
    assert images._suits(changed, shape, native=False) is suits
    assert not images._suits(attrs.evolve(changed, cpu_architecture="arm64"), shape, native=False)


def test_a_script_without_a_container_needs_a_boot_image_with_torch():
    (shape, *_) = catalog.shapes("L4", 1)
    bare = attrs.evolve(
        next(one for one in images.FAMILIES if images._suits(one, shape, native=True)), has_torch=False
    )
    assert not images._suits(bare, shape, native=True)
    assert images._suits(bare, shape, native=False)
