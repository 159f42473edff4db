"""The requests, word for word; what Google's own schema says of them; what is refused before one is made."""

import json
import os
from datetime import datetime, timezone
from pathlib import Path

import pytest

import gputrain_emulator
from emulator.tests.discovery import Exchange, validate
from gputrain.backends.base import Bundle
from gputrain.backends.compute import ComputeEngine, request
from gputrain.errors import SpecError
from gputrain.jobstore import JobRecord
from gputrain.orchestration.options import draw, option_of
from gputrain.planning import candidates
from gputrain.spec import TrainingSpec
from gputrain_emulator.compute.state import Compute

GOLDEN = Path(__file__).parents[2] / "golden" / "compute"
BUNDLE = Bundle(location="gs://my-bucket/code/abc.tar.gz", argv=("train.py", "--lr", "3e-4"), sha256="abc")
PLAIN = {"project": "my-project", "regions": ["us-central1", "us-east4"], "bucket": "gs://my-bucket"}
GPU_NETS = [f"gpu-sub-{number}" for number in range(1, 9)]
ID, NOW = "a1234567", datetime(2026, 11, 20, tzinfo=timezone.utc)
ADDRESSES = {api: f"https://{api}.googleapis.com" for api in ("storage", "compute", "secretmanager")}
IMAGE = "us-docker.pkg.dev/p/r/i@sha256:0"
CASES = {
    "one-node": ({}, {"gpu": "L4:1"}),
    "two-nodes-spot": ({"service_account": "a@my-project.iam.gserviceaccount.com",
     "network_tags": ["train"]}, {"gpu": "A100-80GB:8", "num_nodes": 2, "provisioning_model": "spot",
     "max_restarts": 3, "max_run_duration": "12h", "env": {"A": "1"}, "labels": {"team": "nlp"}}),
    "flex-start": ({}, {"gpu": "H100:2", "provisioning_model": "flex-start", "max_wait_duration": "30m",
     "max_run_duration": "6d"}),
    "flex-start-group": ({"gpu_subnetworks": [*GPU_NETS, "gpu-sub-9"], "subnetwork": "main",
     "check_network": False}, {"gpu": "H200:8", "num_nodes": 2, "provisioning_model": "flex-start",
     "max_wait_duration": "3d", "image": IMAGE}),
    "attached-gpu": ({"image_family": "my-project/mine"}, {"gpu": "V100:2", "num_nodes": 2}),
    "hyperdisk-rdma": ({"gpu_subnetworks": [*GPU_NETS, "gpu-sub-9"], "subnetwork": "main",
     "check_network": False}, {"gpu": "H200:8", "num_nodes": 2, "provisioning_model": "spot",
     "image": IMAGE}),
    "arm64": ({"placement_policy": "together", "gpu_subnetworks": GPU_NETS[:5], "check_network": False},
     {"gpu": "GB200:4", "num_nodes": 2, "reservation": "mine", "image": IMAGE}),
    "tcpxo-placed": ({"placement_policy": "together", "gpu_subnetworks": GPU_NETS,
     "image_family": "my-project/mine", "secure_boot": True, "check_network": False,
     "nccl_plugin": "us-docker.pkg.dev/my-project/nccl/plugin:v9"}, {"gpu": "H100-MEGA:8", "num_nodes": 2,
     "reservation": "mine", "provisioning_model": "standard", "image": IMAGE}),
    "tcpx": ({"image_family": "my-project/mine", "gpu_subnetworks": GPU_NETS[:4]}, {"gpu": "H100:8",
     "num_nodes": 2}),
    "single-nic": ({"gpu_networking": "single-nic"}, {"gpu": "B200:8", "num_nodes": 2,
     "reservation": "mine"}),
    "two-interfaces": ({"gpu_subnetworks": GPU_NETS[:1]}, {"gpu": "RTX-PRO-6000:8", "num_nodes": 2}),
    "fast-socket": ({"gpu_networking": "fast-socket", "check_network": False}, {"gpu": "L4:8",
     "num_nodes": 2}),
    "everything": ({"boot_image": "projects/my-project/global/images/i", "python": "/opt/conda/bin/python3",
     "disk_gib": 500, "disk_type": "pd-ssd", "external_ip": True, "os_login": False}, {"gpu": "L4:4",
     "num_nodes": 3, "requirements": ["einops==0.8.0"], "image": IMAGE,
     "secrets": {"KEY": "secret://projects/p/secrets/s/versions/1"},
     "checkpoint_dir": "gs://my-bucket/ckpt", "output_dir": "gs://other/out"}),
}  # fmt: skip


def planned(backend, fields, attempt_id=ID):
    """The spec, the attempt at its best place, and the rest of what a request is built from."""
    spec = TrainingSpec(script="train.py", **fields)
    wanted = candidates(spec, [backend.supply])
    assert wanted.candidates, [str(refusal) for refusal in wanted.refusals]
    one = wanted.candidates[0]
    record = JobRecord(job_id="train-x1y2", spec=spec.to_dict(), options=(option_of(one),))
    return record, spec, draw(record, one, NOW, attempt_id), one, BUNDLE


def rendered(settings, fields, attempt_id=ID):
    backend = ComputeEngine(**{**PLAIN, **settings})
    _, *rest = planned(backend, fields, attempt_id)
    return request.draft(backend._settings, ADDRESSES, "train-x1y2", *rest)


def properties_of(made):
    """What each VM is made from, in whichever form it is asked for."""
    resource = made["resource"]
    return made.get("template", {}).get("properties", resource.get("instanceProperties", resource))


@pytest.fixture(scope="module")
def cloud():
    with gputrain_emulator.start() as running:
        images = running.world.part(Compute).resources["images"]
        for path in ("projects/my-project/global/images/i", "projects/my-project/global/images/family/mine"):
            images[path] = {"selfLink": f"https://www.googleapis.com/compute/v1/{path}-v1"}
        yield running


def completed(cloud, settings, fields):
    """What is sent, with the texts that are the same for every job by their names."""
    reach = {"endpoints": cloud.endpoints, "credentials": cloud.credentials}
    backend = ComputeEngine(**{**PLAIN, **settings, **reach})
    body = backend.build_request(*planned(backend, fields)).body
    for item in properties_of(body)["metadata"]["items"]:
        item["value"] = item["value"].replace(cloud.endpoints.storage, "https://emulated")
        if item["key"] == "gputrain-job":
            item["value"] = json.loads(item["value"])
        elif len(item["value"]) > 99:
            item["value"] = f"<{item['key']}>"
    return body


@pytest.mark.parametrize("case", CASES)
def test_the_request_that_is_sent_is_as_it_was_read_in_review(cloud, case):
    body = completed(cloud, *CASES[case])
    path = GOLDEN / f"{case}.json"
    if os.environ.get("GPUTRAIN_WRITE_GOLDEN"):
        path.write_text(json.dumps(body, indent=1, sort_keys=True) + "\n")
    assert body == json.loads(path.read_text())


@pytest.mark.parametrize("case", CASES)
def test_googles_own_schema_takes_the_request(case):
    made = request.call(rendered(*CASES[case]))
    for path, document in addresses(made).items():
        exchange = Exchange(
            method="POST",
            path=f"/compute/v1/projects/my-project/{path}",
            query=(("requestId", "11111111-1111-4111-8111-111111111111"),),
            request_body=json.dumps(document).encode(),
            response_body=b'{"kind": "compute#operation"}',
        )
        assert validate(exchange) == []


def addresses(made):
    """What is sent where."""
    zone, groups = f"zones/{made['zone']}", f"zones/{made['zone']}/instanceGroupManagers"
    return {
        "insert": {f"{zone}/instances": made["resource"]},
        "bulkInsert": {f"{zone}/instances/bulkInsert": made["resource"]},
        "resizeRequests": {
            "global/instanceTemplates": made.get("template"),
            groups: made.get("group"),
            f"{groups}/g/resizeRequests": made["resource"],
        },
    }[made["method"]]


def refusals(settings, **fields):
    spec = TrainingSpec(script="train.py", num_nodes=2, **fields)
    wanted = candidates(spec, [ComputeEngine(**{**PLAIN, **settings}).supply])
    assert wanted.candidates == ()
    return list(wanted.refusals)


def test_machines_whose_gpus_need_networks_of_their_own_run_alone_without_them():
    body = rendered({}, {"gpu": "H100:8"})
    assert len(body["job"]["names"]) == len(body["properties"]["networkInterfaces"]) == 1
    assert body["job"]["fabric"] is None
    fixes = [one.fix for one in refusals({}, gpu="H100:8")]
    made = [fix for fix in fixes if "gcloud compute networks create" in fix and "gpu_subnetworks" in fix]
    assert "--region us-central1 " in made[0]  # in a region that the settings allow


def test_a_plugin_that_no_known_boot_image_is_ready_for_is_refused_until_somebody_says_so():
    named = {"gpu_subnetworks": GPU_NETS}
    fields = {"gpu": "H100-MEGA:8"}
    (told,) = {(one.why, one.fix) for one in refusals(named, **fields) if "boot image" in one.why}
    assert "what tcpxo needs and PyTorch" in told[0]
    assert "gpu_networking='single-nic', at 25 of 200 Gbps a GPU" in told[1]
    for settings, more in (
        ({"image_family": "my-project/mine"}, {"image": IMAGE}),
        ({"image_family": "my-project/mine"}, {}),
        ({"gpu_networking": "tcpxo"}, {}),
        ({"gpu_networking": "single-nic"}, {}),
    ):
        body = rendered({**named, **settings}, {**fields, "num_nodes": 2, **more})
        is_alone = settings.get("gpu_networking") == "single-nic"
        assert len(body["properties"]["networkInterfaces"]) == (1 if is_alone else 9)


@pytest.mark.parametrize(("tag", "is_refused"), [("cu126", False), ("cuda13.0", True)])
def test_tcpxo_needs_an_image_of_cuda_12_on_several_machines(tag, is_refused):
    spec = TrainingSpec(script="train.py", gpu="H100-MEGA:8", num_nodes=2, image=f"docker.io/me/train:{tag}")
    backend = ComputeEngine(**PLAIN, image_family="my-project/mine", gpu_subnetworks=GPU_NETS)
    fixes = [one.fix for one in candidates(spec, [backend.supply]).refusals if "CUDA 12" in one.why]
    assert bool(fixes) is is_refused
    assert all("gpu_networking='single-nic'" in fix for fix in fixes)


def test_an_nvlink_domain_needs_a_policy_that_keeps_it_together():
    with pytest.raises(SpecError, match="--gpu-topology"):
        rendered(
            {"gpu_subnetworks": GPU_NETS[:5]},
            {"gpu": "GB200:4", "num_nodes": 2, "reservation": "mine", "image": IMAGE},
        )


@pytest.mark.parametrize("gpu", ["V100:1", "P4:1"])
@pytest.mark.parametrize("image", [None, IMAGE])
def test_a_gpu_that_no_known_driver_knows_is_refused_before_there_is_a_vm(gpu, image):
    spec = TrainingSpec(script="train.py", gpu=gpu, image=image)
    wanted = candidates(spec, [ComputeEngine(**PLAIN).supply])
    assert wanted.candidates == ()
    (told,) = {(one.why, one.fix) for one in wanted.refusals if "boot image" in one.why}
    assert "open kernel modules begin with Turing" in told[0]
    assert "gpu='T4'" in told[1]
    own = ComputeEngine(**PLAIN, image_family="my-project/mine")
    assert candidates(spec, [own.supply]).candidates


def test_an_image_whose_cuda_cannot_run_the_gpu_is_refused_before_there_is_a_vm():
    image = "docker.io/pytorch/pytorch:2.0.0-cuda11.7-cudnn8-runtime"
    with pytest.raises(SpecError, match=r"CUDA 11\.7"):
        rendered({"external_ip": True}, {"gpu": "H100:8", "image": image})


@pytest.mark.parametrize(
    ("disk_type", "fields", "told"),
    [
        ("pd-ssd", {"gpu": "H200:8", "provisioning_model": "spot"}, "hyperdisk-balanced on a3-ultragpu-8g"),
        ("hyperdisk-balanced", {"gpu": "A100-40GB:1"}, "pd-balanced or pd-ssd on a2-highgpu-1g"),
        ("hyperdisk-balanced", {"gpu": "L4:1"}, "pd-balanced or pd-ssd on g2-standard"),
    ],
)
def test_a_disk_that_the_machine_does_not_boot_from_is_refused(disk_type, fields, told):
    with pytest.raises(SpecError, match=told):
        rendered({"disk_type": disk_type}, fields)


def test_places_come_in_the_order_of_the_regions():
    backend = ComputeEngine("my-project", regions=["us-east4", "us-central1"], bucket="gs://b-1")
    offer = next(one for one in backend.supply.offers if one.machine_type == "g2-standard-24")
    regions = [place.rpartition("-")[0] for place in offer.places]
    assert regions == sorted(regions, key=["us-east4", "us-central1"].index)
    assert set(regions) == {"us-east4", "us-central1"}


@pytest.mark.parametrize(("models", "left"), [(["flex-start"], []), (["flex-start", "spot"], ["spot"])])
@pytest.mark.parametrize(
    ("fields", "why"),
    [({"max_run_duration": "8d"}, "7 days at most"), ({"num_nodes": 2}, "take no placement policy")],
)
def test_what_flex_start_cannot_give_is_refused_and_the_other_models_are_not(models, left, fields, why):
    supply = ComputeEngine(**PLAIN, placement_policy="together").supply
    spec = TrainingSpec(script="train.py", gpu="L4:1", provisioning_model=models, **fields)
    wanted = candidates(spec, [supply])
    assert sorted({one.provisioning_model.value for one in wanted.candidates}) == left
    told = [one for one in wanted.refusals if why in one.why]
    assert told
    assert all(one.fix for one in told)


@pytest.mark.parametrize(("name", "value"), [
    ("mine", "mine"),
    ("projects/p/zones/us-central1-a/reservations/r", "projects/p/reservations/r"),
    ("projects/p/reservations/r", "projects/p/reservations/r"),
    ("projects/p/zones/us-central1-a/reservations/r/reservationBlocks/b",
     "projects/p/reservations/r/reservationBlocks/b"),
])  # fmt: skip
def test_a_reservation_is_named_as_compute_engine_documents_it(name, value):
    fields = {"gpu": "H200:8", "reservation": name, "provisioning_model": "reservation-bound"}
    affinity = rendered({}, fields)["properties"]["reservationAffinity"]
    assert (affinity["consumeReservationType"], affinity["values"]) == ("SPECIFIC_RESERVATION", [value])


@pytest.mark.parametrize(
    "plugin", ["google-fast-socket-", "google-fast-socket+", "-oAPT::Update::Pre-Invoke::=id"]
)
def test_an_order_to_apt_is_refused_before_anything_is_made(plugin):
    with pytest.raises(SpecError, match="nccl_plugin"):
        ComputeEngine("my-project", regions=["us-central1"], bucket="gs://my-bucket", nccl_plugin=plugin)


@pytest.mark.parametrize(("fields", "queue_s", "limit_s"), [
    ({"provisioning_model": "flex-start", "max_wait_duration": "90m", "max_run_duration": "5m"}, 5400, 300),
    ({"provisioning_model": "flex-start", "max_wait_duration": "9h"}, 7200, None),
    ({"provisioning_model": "spot", "max_wait_duration": "9h"}, 0, None),
    ({"provisioning_model": "flex-start", "num_nodes": 2, "max_wait_duration": "9h",
     "max_run_duration": "5m"}, 7200, 600),
    ({"provisioning_model": "spot", "num_nodes": 2, "max_run_duration": "5m"}, 0, 300),
    ({"provisioning_model": "spot", "max_run_duration": "7s"}, 0, 30),
])  # fmt: skip
def test_one_vm_waits_in_googles_queue_as_long_as_its_job_may_and_google_lets_it(fields, queue_s, limit_s):
    body = rendered({}, {"gpu": "L4:1", **fields})
    assert body["queue_s"] == queue_s
    scheduling = body["properties"]["scheduling"]
    assert limit_s is None or scheduling["maxRunDuration"] == {"seconds": str(limit_s)}
    assert ("preemptionNoticeDuration" in scheduling) is (fields["provisioning_model"] == "spot")
