# one case a line
"""The constructor tells every fault at once, and the plan what Vertex AI cannot honour."""

import contextlib

import pytest

from gputrain import Trainer
from gputrain.backends.vertex import ReductionServer, VertexAI
from gputrain.backends.vertex.settings import NfsMount
from gputrain.errors import SpecError
from gputrain.jobstore import JobRecord, JobRef, Option
from gputrain.planning import candidates, rank
from gputrain.quota import Verdict
from gputrain.spec import TrainingSpec
from tests.each import each
from tests.support.clouds import reserve

NETWORK = "projects/1/global/networks/n"
ATTACHMENT = "projects/p/regions/us-central1/networkAttachments/a"
CONTEXT = "projects/p/locations/us-central1/metadataStores/default/contexts/c"
SHARE = {"server": "10.0.0.2", "path": "/share", "mount_point": "data"}
OF_SHARE = NfsMount(**SHARE)


@each(
    ("fields", "named"),
    [
        ({"disk_gib": 64_001}, "disk_gib"),
        ({"management_fee": 10}, "management_fee"),
        ({"management_fee": False}, "management_fee"),
        ({"network": NETWORK, "network_attachment": ATTACHMENT}, "network"),
        ({"tensorboard": "projects/p/locations/r/tensorboards/1", "service_account": "a@b.c"}, None),
        ({"nfs_mounts": [SHARE]}, "network"),
        ({"nfs_mounts": [SHARE, OF_SHARE], "network": NETWORK}, None),
        ({"nfs_mounts": [OF_SHARE], "network_attachment": ATTACHMENT}, None),
        ({"nfs_mounts": [{**SHARE, "more": ""}], "network": NETWORK}, "nfs_mounts"),
        ({"nfs_mounts": [{"server": "10.0.0.2", "path": "/share"}], "network": NETWORK}, "nfs_mounts"),
        ({"experiment": CONTEXT, "experiment_run": f"{CONTEXT}-1"}, None),
        ({"experiment_run": f"{CONTEXT}-1"}, "experiment"),
        ({"reduction_server": {"replicas": 2}}, None),
        ({"reduction_server": {"replicas": 0}}, "reduction_server"),
        ({"reduction_server": {"replica": 2}}, "reduction_server"),
        ({"reduction_server": {"replicas": 2, "image": "--privileged"}}, "reduction_server"),
    ],
)
def test_an_argument_is_taken_or_is_the_one_fault(fields, named):
    with pytest.raises(SpecError) if named else contextlib.nullcontext() as caught:
        VertexAI("my-project", "us-central1", **fields)
    assert [fault.field for fault in caught.value.faults] == [named] if named else caught is None


def test_a_region_and_regions_are_one_list_without_repetitions():
    backend = VertexAI("my-project", "us-east4", regions=["us-central1", "us-east4"])
    assert backend.supply.regions == ("us-east4", "us-central1")


def test_regions_keep_their_order_in_the_plan():
    backend = VertexAI("my-project", regions=["europe-west4", "us-central1"])
    found = candidates(TrainingSpec(script="train.py", gpu="L4:1"), [backend.supply]).candidates
    assert list(dict.fromkeys(one.place for one in found)) == ["europe-west4", "us-central1"]


def test_any_region_is_the_cheapest_first_after_those_that_are_named():
    spec = TrainingSpec(script="train.py", gpu="H100:8", provisioning_model="spot")
    for regions in (["any"], ["us-central1", "any"]):
        found = candidates(spec, [VertexAI("my-project", regions=regions).supply])
        ranked = rank(found.candidates, {})
        priced = [one.price_usd_h for one in ranked[len(regions) - 1 :] if one.price_usd_h is not None]
        assert len({one.place for one in ranked}) > 10
        assert priced == sorted(priced)
        assert len(regions) == 1 or ranked[0].place == "us-central1"


def test_a_plan_says_what_a_reduction_server_needs(make):
    plan = Trainer(make(reduction_server=ReductionServer(replicas=2))).plan
    warned = [
        "google-reduction-server" in str(plan("train.py", gpu="V100:8", num_nodes=nodes).warnings)
        for nodes in (1, 2)
    ]
    assert warned == [False, True]


ROOM = (128 - 24) << 10
"""Bytes of one argument, less those that are left to what else stands there."""

KEYS = {f"K{n}": "secret://projects/p/secrets/s/versions/1" for n in range(40)}
REFUSED = [
    ({}, "gpu"),
    ({"gpu": "L4:1", "reservation": "short"}, "reservation"),
    ({"gpu": "L4:1", "provisioning_model": "flex-start", "max_run_duration": "8d"}, "max_run_duration"),
    ({"gpu": "L4:1", "max_restarts": 7}, "max_restarts"),
    ({"gpu": "L4:1", "env": {f"V{n}": "" for n in range(81)}}, "env"),
    ({"gpu": "L4:1", "env": {f"V{n}": "" for n in range(41)}, "secrets": KEYS}, "env"),
    ({"gpu": "L4:1", "checkpoint_dir": "/tmp/ckpt"}, "checkpoint_dir"),
    ({"gpu": "L4:1", "output_dir": "out"}, "output_dir"),
    ({"gpu": "L4:1", "num_nodes": 3, "min_nodes": 2, "max_restarts": 1}, "min_nodes"),
    ({"gpu": "L4:1", "env": {"V": "$" + "x" * ROOM}}, "env"),
    ({"gpu": "L4:1", "reservation": "projects/p/zones/z/reservations/r/more"}, "reservation"),
]
TAKEN = [
    {"reservation": "projects/p/zones/us-central1-a/reservations/r"},
    {"provisioning_model": "flex-start", "max_run_duration": "7d"},
    {"max_run_duration": "8d"},
    {"max_restarts": 6},
    {"env": {f"V{n}": "" for n in range(80)}},
    {"env": {f"V{n}": "" for n in range(40)}, "secrets": KEYS},
    {"env": {"V": "$" + "x" * (ROOM - 200)}},
    {"num_nodes": 3, "min_nodes": 3, "max_restarts": 1},
    {"checkpoint_dir": "gs://my-bucket/ckpt", "output_dir": "/gcs/my-bucket/out"},
]


@each("fields", TAKEN)
def test_what_lies_within_its_bounds_is_taken(fields):
    supply = VertexAI("my-project", "us-central1", bucket="gs://my-bucket").supply
    assert candidates(TrainingSpec(script="train.py", gpu="L4:1", **fields), [supply]).candidates


@each(("fields", "named"), REFUSED)
def test_what_cannot_be_honoured_is_refused_by_name(fields, named):
    wanted = candidates(
        TrainingSpec(script="train.py", **fields), [VertexAI("my-project", "us-central1").supply]
    )
    assert not wanted.candidates
    assert named in {one.subject for one in wanted.refusals}


def test_a_name_is_enough_to_make_the_backend_again():
    ref = JobRef(project="my-project", home="my-bucket/mine", name="a-1")
    options = [
        Option(backend=name, place=place, region=place)
        for name, place in [("compute", "asia-east1"), ("vertex", "us-east4"), ("vertex", "us-central1")]
    ]
    backend = VertexAI.for_job(ref, JobRecord(job_id="a-1", spec={}, options=options))
    assert repr(backend) == "VertexAI(project='my-project', regions=['us-east4', 'us-central1'])"
    assert backend.documents.uri.startswith("gs://my-bucket/mine")


STEM = "aiplatform.googleapis.com/custom_model_training_"


def spec(code, **more):
    return TrainingSpec(script=code, **{"gpu": "L4:1", "machine_type": "g2-standard-4", **more})


def fact(backend, code, **more):
    """What is told of the first place."""
    wanted = candidates(spec(code, **more), [backend.supply]).candidates
    told = backend.availability(wanted)
    assert set(told) == set(wanted)
    return told[wanted[0]]


@pytest.mark.parametrize(
    ("model", "metric"),
    [
        ("standard", "nvidia_l4_gpus"),
        ("spot", "preemptible_nvidia_l4_gpus"),
        ("flex-start", "preemptible_nvidia_l4_gpus"),
    ],
)
def test_a_quota_that_is_short_is_known_before_anything_is_made(cloud, backend, code, model, metric):
    cloud.quota(f"{STEM}{metric}", 1)
    assert fact(backend, code, provisioning_model=model).verdict is Verdict.FITS
    assert fact(backend, code, provisioning_model=model, num_nodes=2).verdict is Verdict.SHORT
    assert [one.method for one in cloud.requests] == ["cloudquotas.quotaInfos.list"]


@pytest.mark.parametrize(
    ("kept", "why"),
    [
        ({"count": 1}, "1 of the 2 machines needed are free"),
        ({"machine": "g2-standard-8"}, "it holds g2-standard-8"),
        ({"zone": "us-east4-a"}, "is in us-east4-a"),
        ({"zone": "europe-west4-a"}, "is in europe-west4-a"),
    ],
)
def test_a_reservation_that_does_not_carry_the_job_rules_the_region_out(cloud, backend, code, kept, why):
    name = reserve(cloud, "mine", **kept)
    found = fact(backend, code, reservation=name, num_nodes=2, provisioning_model="standard")
    assert why in found.absent_why
