# ruff: noqa: E501  # one case a line
"""The requests, word for word; what Google's own schema says of them; and that code and fact agree."""

import json
import os
from pathlib import Path

import pytest

import gputrain_emulator
from emulator.tests.discovery import Exchange, validate
from gputrain.backends.base import Bundle, Start
from gputrain.backends.vertex import NfsMount, ReductionServer, VertexAI, render
from gputrain.backends.vertex.render import PREBUILT
from gputrain.errors import SpecError
from gputrain.planning import candidates
from gputrain.spec import TrainingSpec
from gputrain_emulator.registry import Registry
from tests.each import each

GOLDEN = Path(__file__).parents[2] / "golden" / "vertex"
BUNDLE = Bundle(location="gs://my-bucket/code/abc.tar.gz", argv=("train.py", "--lr", "3e-4"), sha256="abc")
RESERVATION = "projects/my-project/zones/us-central1-a/reservations/big"

PLAIN = {"project": "my-project", "region": "us-central1", "bucket": "gs://my-bucket"}
FULL = {
    "service_account": "train@my-project.iam.gserviceaccount.com",
    "network_attachment": "projects/my-project/regions/us-central1/networkAttachments/a",
    "tensorboard": "projects/my-project/locations/us-central1/tensorboards/1",
    "persistent_resource": "my-cluster",
    "kms_key": "projects/my-project/locations/us-central1/keyRings/r/cryptoKeys/k",
    "disk_gib": 500,
    "enable_web_access": True,
    "nfs_mounts": [NfsMount(server="10.0.0.2", path="/share", mount_point="data")],
    "experiment": "projects/my-project/locations/us-central1/metadataStores/default/contexts/scan",
    "experiment_run": "projects/my-project/locations/us-central1/metadataStores/default/contexts/scan-1",
}
CASES = {
    "one-node": ({}, {"gpu": "H100:2"}),
    "two-nodes-spot": (
        {"service_account": FULL["service_account"]},
        {"gpu": "A100-80GB:8", "num_nodes": 2, "provisioning_model": "spot", "max_restarts": 3,
         "max_run_duration": "12h", "env": {"A": "1"}, "labels": {"team": "nlp"}},
    ),
    "flex-start": ({}, {"gpu": "H100:8", "provisioning_model": "flex-start", "max_wait_duration": "6h",
                        "max_run_duration": "7d"}),
    "reservation": ({}, {"gpu": "A100-40GB:1", "reservation": RESERVATION}),
    "reduction-server": ({"reduction_server": ReductionServer(replicas=4)}, {"gpu": "V100:8", "num_nodes": 3}),
    "attached-gpu": ({}, {"gpu": "T4:2", "image": "us-docker.pkg.dev/p/r/i@sha256:0"}),
    "hyperdisk": ({}, {"gpu": "H200:8", "image": "us-docker.pkg.dev/p/r/i@sha256:0", "provisioning_model": "spot"}),
    "everything": (FULL, {"gpu": "L4:4", "num_nodes": 2, "requirements": ["einops==0.8.0"],
                          "secrets": {"KEY": "secret://projects/p/secrets/s/versions/1"},
                          "checkpoint_dir": "gs://my-bucket/ckpt", "output_dir": "gs://my-bucket/out"}),
}  # fmt: skip


def start(spec, one, **more):
    return Start(**{"spec": spec, "candidate": one, "job_id": "train-x1y2", "bundle": BUNDLE, **more})


def rendered(settings, fields, region="us-central1"):
    backend = VertexAI(**{**PLAIN, **settings})
    spec = TrainingSpec(script="train.py", **fields)
    wanted = candidates(spec, [backend.supply])
    found = [one for one in wanted.candidates if one.place == region]
    assert found, [str(refusal) for refusal in wanted.refusals if refusal.asked_for]
    return backend.render(start(spec, found[0])).body


@pytest.fixture(scope="module")
def cloud():
    with gputrain_emulator.start() as running:
        running.world.part(Registry).add(PREBUILT[0].uri, ("linux/amd64",))
        yield running


def completed(cloud, settings, fields):
    """What is sent."""
    reach = {"endpoints": cloud.endpoints, "credentials": cloud.credentials}
    backend = VertexAI(**{**PLAIN, **settings, **reach})
    spec = TrainingSpec(script="train.py", **fields)
    one = next(one for one in candidates(spec, [backend.supply]).candidates if one.place == PLAIN["region"])
    body = backend.complete(backend.render(start(spec, one, nonce="0123456789ab"))).body
    return json.loads(json.dumps(body).replace(cloud.endpoints.storage, "https://emulated"))


@pytest.mark.parametrize("case", CASES)
def test_the_request_that_is_sent_is_as_it_was_read_in_review(cloud, case):
    body = completed(cloud, *CASES[case])
    text = json.dumps(body, indent=2, sort_keys=True).replace(
        json.dumps(render.loader())[1:-1], "<loader.py>"
    )
    path = GOLDEN / f"{case}.json"
    if os.environ.get("GPUTRAIN_WRITE_GOLDEN"):
        path.write_text(text + "\n")
    assert text + "\n" == path.read_text()


@each("case", CASES)
def test_googles_discovery_document_has_nothing_against_it(case):
    body = rendered(*CASES[case])
    exchange = Exchange(
        method="POST",
        path=f"/v1/{body['parent']}/customJobs",
        request_body=json.dumps(body["customJob"]).encode(),
        response_body=b"{}",
    )
    assert [problem for problem in validate(exchange) if "response" not in str(problem).lower()] == []


@each("case", CASES)
def test_googles_client_reads_it_without_a_field_unknown(case):
    from google.cloud.aiplatform_v1.types import CustomJob

    CustomJob.from_json(json.dumps(rendered(*CASES[case])["customJob"]), ignore_unknown_fields=False)


def test_only_googles_own_image_is_told_to_leave_torch_xla_alone_and_the_user_wins():
    def env(fields):
        pool = rendered({}, {"gpu": "L4:1", **fields})["customJob"]["jobSpec"]["workerPoolSpecs"][0]
        return {row["name"]: row["value"] for row in pool["containerSpec"]["env"]}

    assert env({})["USE_TORCH_XLA"] == "0"
    assert env({"env": {"USE_TORCH_XLA": "1"}})["USE_TORCH_XLA"] == "1"
    assert "USE_TORCH_XLA" not in env({"image": "us-docker.pkg.dev/p/r/i@sha256:0"})


def test_gpus_of_a_g4_write_into_each_other_here_as_well():
    fields = {"gpu": "RTX-PRO-6000:8", "image": "us-docker.pkg.dev/p/r/i@sha256:0"}
    pool = rendered({}, fields)["customJob"]["jobSpec"]["workerPoolSpecs"][0]
    assert {"name": "NCCL_P2P_LEVEL", "value": "SYS"} in pool["containerSpec"]["env"]


def test_rendering_twice_gives_the_same_bytes():
    assert json.dumps(rendered(*CASES["everything"])) == json.dumps(rendered(*CASES["everything"]))


def test_every_shape_on_offer_can_be_rendered_and_its_three_fields_agree():
    from google.cloud.aiplatform_v1.types import AcceleratorType

    backend = VertexAI(**{**PLAIN, "region": None, "regions": ["us-central1", "us-east4", "europe-west4"]})
    spec = TrainingSpec(
        script="train.py",
        gpu=None,
        image="us-docker.pkg.dev/p/r/i-arm64-amd64@sha256:0",
        max_run_duration="1d",
    )
    seen = set()
    for offer in backend.supply.offers:
        one = spec.replace(gpu=f"{offer.gpu}:{offer.gpu_count}", machine_type=offer.machine_type,
                           provisioning_model=[m.value for m in offer.provisioning_models],
                           reservation=RESERVATION)  # fmt: skip
        for candidate in candidates(one, [backend.supply]).candidates:
            body = backend.render(start(one, candidate)).body
            machine = body["customJob"]["jobSpec"]["workerPoolSpecs"][0]["machineSpec"]
            assert machine["machineType"] == candidate.machine_type
            assert machine["acceleratorCount"] == candidate.gpu_count
            assert machine["acceleratorType"] in {one.name for one in AcceleratorType}
            seen.add(offer.machine_type)
    assert len(seen) > 20


def test_limits_on_time_are_always_set():
    for settings, fields in CASES.values():
        scheduling = rendered(settings, fields)["customJob"]["jobSpec"]["scheduling"]
        assert scheduling["timeout"].endswith("s")
        assert ("maxWaitDuration" in scheduling) == (scheduling["strategy"] == "FLEX_START")


def test_a_secret_travels_as_a_reference_only():
    container = rendered(*CASES["everything"])["customJob"]["jobSpec"]["workerPoolSpecs"][0]["containerSpec"]
    assert json.loads(container["args"][0])["secrets"] == {"KEY": "secret://projects/p/secrets/s/versions/1"}
    assert all(one["name"] != "KEY" for one in container["env"])


def test_words_of_the_user_stay_words():
    hostile = ["--x", "$(rm -rf /)", "; echo", "`id`", "new\nline", '"quotes"', "ünï"]
    backend = VertexAI(**PLAIN)
    spec = TrainingSpec(script="train.py", gpu="L4:1")
    bundle = Bundle(location="gs://my-bucket/code/abc.tar.gz", argv=("train.py", *hostile), sha256="abc")
    candidate = candidates(spec, [backend.supply]).candidates[0]
    container = backend.render(start(spec, candidate, bundle=bundle)).body["customJob"]["jobSpec"][
        "workerPoolSpecs"
    ][0]["containerSpec"]
    assert container["command"] == ["python3", "-c", render.loader()]
    assert json.loads(container["args"][0])["argv"] == ["train.py", *hostile]


def test_outside_of_the_buckets_region_no_output_folder_is_named():
    settings = {"region": None, "regions": ["us-central1", "europe-west4", "us-east4"]}
    home, *others = (
        rendered(settings, {"gpu": "L4:1"}, region=region)["customJob"]["jobSpec"]
        for region in settings["regions"]
    )
    assert home["baseOutputDirectory"]["outputUriPrefix"] == "gs://my-bucket/jobs/train-x1y2/"
    assert not [away for away in others if "baseOutputDirectory" in away]
    away = others[0]
    env = {one["name"]: one["value"] for one in away["workerPoolSpecs"][0]["containerSpec"]["env"]}
    assert env["GPUTRAIN_CHECKPOINT_DIR"] == "/gcs/my-bucket/jobs/train-x1y2/checkpoints/"


@pytest.mark.parametrize(("regions", "labels"), [(1, []), (2, ["us-central1", "europe-west4"])])
def test_a_job_bears_the_regions_that_it_may_be_made_in_where_these_are_several(regions, labels):
    settings = {"region": None, "regions": ["us-central1", "europe-west4"][:regions]}
    found = rendered(settings, {"gpu": "L4:1"})["customJob"]["labels"]
    assert [found[f"gputrain-region-{number}"] for number in range(len(labels))] == labels
    assert sum(name.startswith("gputrain-region-") for name in found) == len(labels)


@pytest.mark.parametrize(
    ("reservation", "model", "affinity"),
    [
        ("any", "standard", "ANY_RESERVATION"),
        ("any", "spot", None),
        (RESERVATION, "standard", "SPECIFIC_RESERVATION"),
        (RESERVATION, "spot", None),
    ],
)
def test_only_what_a_reservation_holds_is_asked_of_it(reservation, model, affinity):
    fields = {"gpu": "A100-40GB:1", "reservation": reservation, "provisioning_model": model}
    (pool,) = rendered({}, fields)["customJob"]["jobSpec"]["workerPoolSpecs"]
    assert pool["machineSpec"].get("reservationAffinity", {}).get("reservationAffinityType") == affinity


@pytest.mark.parametrize("gpu", ["B200:8", "RTX-PRO-6000:1"])
def test_a_gpu_that_no_prebuilt_image_knows_asks_for_an_image(gpu):
    with pytest.raises(SpecError, match="no prebuilt container runs") as caught:
        rendered(
            {"region": "us-central1"}, {"gpu": gpu, "provisioning_model": ["standard", "spot", "flex-start"]}
        )
    assert caught.value.faults[0].field == "image"


def test_an_image_too_old_for_the_gpu_is_refused():
    with pytest.raises(SpecError, match=r"CUDA 11\.7 cannot run on H100"):
        rendered({}, {"gpu": "H100:2", "image": "pytorch/pytorch:2.0.0-cuda11.7-cudnn8-runtime"})


def test_the_loader_needs_nothing_newer_than_python_3_7():
    import ast

    ast.parse(render.loader(), feature_version=(3, 7))
