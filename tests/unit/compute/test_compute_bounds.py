"""Up to where a backend of VMs goes: how long it waits, how seldom it looks, what suits a machine."""

import json
import uuid

import attrs
import pytest

from gputrain import catalog
from gputrain.backends.base import Bundle, Start
from gputrain.backends.compute import ComputeEngine, images
from gputrain.backends.compute.calls import EVERY_S, LONGEST_S
from gputrain.backends.compute.look import _fresh_s
from gputrain.backends.compute.preflight import _needs
from gputrain.backends.compute.settings import ROWS
from gputrain.errors import SpecError, TransientError
from gputrain.planning import candidates
from gputrain.spec import TrainingSpec
from tests.unit.compute.test_compute_create import BULK, spec
from tests.unit.steps import Steps


@pytest.mark.parametrize(
    ("vms", "fresh_s"),
    [(0, 0.5), (4, 0.5), (5, 3), (500, 3), (501, 6), (1000, 6), (10_000, 60)],
)
def test_a_list_of_vms_is_read_the_more_seldom_the_more_pages_it_has(vms, fresh_s):
    assert _fresh_s(({str(one): {} for one in range(vms)}, True)) == fresh_s


def test_an_operation_is_waited_for_no_longer_than_is_said(cloud, make, code):
    backend = make(sleep=cloud.clock.advance)
    Steps(backend).submit(spec(code), job_id="bert-1")
    sent = json.loads(next(seen for seen in cloud.requests if seen.method == BULK).body)
    cloud.compute.settings.provision_s = 2 * LONGEST_S
    operation = backend._calls.start("us-central1-b", "bulkInsert", sent, str(uuid.uuid4()))
    began = cloud.clock.now()
    with pytest.raises(TransientError, match=r"in us-central1-b is not done after 300\.5 s"):
        backend._calls.end_of("us-central1-b", operation)
    assert LONGEST_S <= cloud.clock.now() - began <= LONGEST_S + 2 * EVERY_S


def test_jobs_of_another_backend_in_the_same_bucket_are_none_of_its_own(cloud, backend, code):
    Steps(backend).submit(spec(code), job_id="bert-1")
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


def backend_of(**settings):
    given = {"project": "my-project", "regions": ["us-central1"], "bucket": "gs://my-bucket"}
    return ComputeEngine(**{**given, **settings})


@pytest.mark.parametrize(
    ("field", "taken", "refused"),
    [
        ("disk_gib", (50, 64_000), (49, 64_001)),
        ("driver_wait_s", (0, 3600), (-1, 3601)),
        ("poll_s", (0.1, 3599.5), (0, -1, 3600.5)),
        ("network", ("n" * 63, "n"), ("n" * 64, "", "1n")),
    ],
)
def test_a_number_of_the_settings_goes_from_its_least_to_its_most(field, taken, refused):
    for value in taken:
        backend_of(**{field: value})
    for value in refused:
        with pytest.raises(SpecError, match=field):
            backend_of(**{field: value})


@pytest.mark.parametrize(
    ("project", "account"),
    [
        ("my-project", "gputrain@my-project.iam.gserviceaccount.com"),
        ("example.com:my-project", "gputrain@my-project.example.com.iam.gserviceaccount.com"),
    ],
)
def test_vms_run_as_an_account_of_the_project_unless_one_is_named(project, account):
    assert backend_of(project=project)._settings.service_account == account
    mine = backend_of(project=project, service_account="a@b.iam.gserviceaccount.com")
    assert mine._settings.service_account == "a@b.iam.gserviceaccount.com"


def test_an_image_and_a_family_are_not_both_named():
    image, family = {"boot_image": "projects/p/global/images/i"}, {"image_family": "p/f"}
    assert images.path_of(backend_of(**image)._settings) == "projects/p/global/images/i"
    assert images.path_of(backend_of(**family)._settings) == "projects/p/global/images/family/f"
    assert images.path_of(backend_of()._settings) == ""
    with pytest.raises(SpecError, match="an image or a family"):
        backend_of(**image, **family)


@pytest.mark.parametrize(
    ("settings", "fields", "is_taken"),
    [
        ({}, {"num_nodes": 1000}, True),
        ({}, {"provisioning_model": "flex-start", "max_run_duration": "7d"}, True),
        ({}, {"provisioning_model": "flex-start", "max_run_duration": "604801s"}, False),
        ({}, {"provisioning_model": "spot", "max_run_duration": "8d"}, True),
        ({}, {"provisioning_model": "flex-start", "num_nodes": 2}, True),
        ({"placement_policy": "together"}, {"provisioning_model": "flex-start"}, True),
        ({"placement_policy": "together"}, {"provisioning_model": "flex-start", "num_nodes": 2}, False),
        ({"placement_policy": "together"}, {"provisioning_model": "spot", "num_nodes": 2}, True),
    ],
)
def test_a_job_is_taken_up_to_what_compute_engine_sells(settings, fields, is_taken):
    supplies = [backend_of(**settings).supply]
    wanted = candidates(TrainingSpec(script="train.py", gpu="L4:1", **fields), supplies)
    assert bool(wanted.candidates) is is_taken


@pytest.mark.parametrize(
    ("fields", "queue_s", "limit_s"),
    [
        (
            {"provisioning_model": "flex-start", "max_wait_duration": "90m", "max_run_duration": "5m"},
            5400,
            300,
        ),
        ({"provisioning_model": "flex-start", "max_wait_duration": "9h"}, 7200, None),
        ({"provisioning_model": "spot", "max_wait_duration": "9h"}, 0, None),
        (
            {
                "provisioning_model": "flex-start",
                "num_nodes": 2,
                "max_wait_duration": "9h",
                "max_run_duration": "5m",
            },
            7200,
            600,
        ),
        ({"provisioning_model": "spot", "num_nodes": 2, "max_run_duration": "5m"}, 0, 300),
        ({"provisioning_model": "spot", "max_run_duration": "7s"}, 0, 30),
    ],
)
def test_one_vm_waits_in_googles_queue_as_long_as_its_job_may_and_google_lets_it(fields, queue_s, limit_s):
    backend, spec = backend_of(), TrainingSpec(script="train.py", gpu="L4:1", **fields)
    one = candidates(spec, [backend.supply]).candidates[0]
    bundle = Bundle(location="gs://my-bucket/a", argv=("train.py",), sha256="a")
    body = backend.render(Start(spec=spec, candidate=one, job_id="bert-1", bundle=bundle, nonce="cafe")).body
    assert body["queue_s"] == queue_s
    scheduling = body["properties"]["scheduling"]
    assert limit_s is None or scheduling["maxRunDuration"] == {"seconds": str(limit_s)}
    assert ("preemptionNoticeDuration" in scheduling) is (fields["provisioning_model"] == "spot")


@pytest.mark.parametrize(
    ("fields", "queues"),
    [
        ({"provisioning_model": "flex-start", "num_nodes": 2}, True),
        ({"provisioning_model": ["spot", "flex-start"], "num_nodes": 2}, True),
        ({"provisioning_model": "flex-start"}, False),
        ({"provisioning_model": "spot", "num_nodes": 2}, False),
    ],
)
def test_who_queues_no_gang_needs_no_permission_for_it(fields, queues):
    backend, spec = backend_of(), TrainingSpec(script="train.py", gpu="L4:1", **fields)
    needs = _needs(backend._settings, candidates(spec, [backend.supply]).candidates)
    assert ("compute.instanceGroupManagers.create" in {one.permission for one in needs}) is queues


NEEDED = (
    "regions", "bucket", "network", "gpu_subnetworks", "gpu_networking", "disk_gib", "driver_wait_s",
    "external_ip", "check_network", "secure_boot", "os_login", "network_tags", "capacity_advice", "poll_s",
    "sleep", "now",
)  # fmt: skip


@pytest.mark.parametrize("field", sorted(set(ROWS) - {"project"}))
def test_none_stands_for_what_may_be_left_out_and_for_nothing_else(field):
    if field in NEEDED:
        with pytest.raises(SpecError, match=field):
            backend_of(**{field: None})
    else:
        backend_of(**{field: None})


def test_what_is_less_safe_or_costs_more_is_off_unless_it_is_asked_for():
    usual = backend_of()._settings
    assert (usual.external_ip, usual.secure_boot, usual.network_tags) == (False, False, ())
    assert (usual.check_network, usual.os_login, usual.capacity_advice) == (True, True, True)
    assert (usual.poll_s, usual.disk_gib, usual.driver_wait_s, usual.network) == (5.0, 200, 600, "default")
