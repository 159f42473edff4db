# ruff: noqa: E501  # one case a line
"""The requests, word for word; what Google's own schema says of them; and that code and fact agree."""

import json
import os
from datetime import datetime, timezone
from pathlib import Path

import pytest

import gputrain_emulator
from emulator.tests.discovery import Exchange, validate
from gputrain.backends.base import Bundle
from gputrain.backends.vertex import NfsMount, ReductionServer, VertexAI
from gputrain.backends.vertex.request import custom_job, loader
from gputrain.jobstore import JobRecord
from gputrain.orchestration.options import draw
from gputrain.planning import candidates
from gputrain.spec import TrainingSpec
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
    "image-as-it-is": ({"reduction_server": ReductionServer(replicas=1)},
                       {"script": None, "gpu": "L4:1", "num_nodes": 2, "image": "us-docker.pkg.dev/p/r/i@sha256:0",
                        "args": ["--epochs", "$(EPOCHS)"], "env": {"EPOCHS": "5"}}),
    "everything": (FULL, {"gpu": "L4:4", "num_nodes": 2, "requirements": ["einops==0.8.0"],
                          "secrets": {"KEY": "secret://projects/p/secrets/s/versions/1"},
                          "checkpoint_dir": "gs://my-bucket/ckpt", "output_dir": "gs://my-bucket/out"}),
}  # fmt: skip


RECORD = JobRecord(job_id="train-x1y2", spec={})


def attempt_at(candidate):
    return draw(RECORD, candidate, datetime(2026, 11, 28, tzinfo=timezone.utc), "a1b2c3d4")


def body_of(backend, spec, candidate, bundle=BUNDLE):
    """As it is before images are looked up."""
    addresses = {"storage": "https://storage", "secretmanager": "https://secrets"}
    attempt = attempt_at(candidate)
    return custom_job(backend._settings, spec, candidate, RECORD.job_id, attempt, bundle, addresses)


def placed(backend, spec, region):
    wanted = candidates(spec, [backend.supply])
    found = [one for one in wanted.candidates if one.place == region]
    assert found, [str(refusal) for refusal in wanted.refusals]
    return found[0]


def rendered(settings, fields, region="us-central1"):
    backend, spec = VertexAI(**{**PLAIN, **settings}), TrainingSpec(**{"script": "train.py", **fields})
    return body_of(backend, spec, placed(backend, spec, region))


@pytest.fixture(scope="module")
def cloud():
    with gputrain_emulator.start() as running:
        yield running


def sent(cloud, settings, fields):
    reach = {"endpoints": cloud.endpoints, "credentials": cloud.credentials}
    backend, spec = (
        VertexAI(**{**PLAIN, **settings, **reach}),
        TrainingSpec(**{"script": "train.py", **fields}),
    )
    one = placed(backend, spec, PLAIN["region"])
    body = backend.build_request(RECORD, spec, attempt_at(one), one, BUNDLE).body
    return json.loads(json.dumps(body).replace(cloud.endpoints.storage, "https://emulated"))


@pytest.mark.parametrize("case", CASES)
def test_the_request_that_is_sent_is_as_it_was_read_in_review(cloud, case):
    body = sent(cloud, *CASES[case])
    text = json.dumps(body, indent=2, sort_keys=True).replace(json.dumps(loader())[1:-1], "<loader.py>")
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


def test_the_loader_needs_nothing_newer_than_python_3_7():
    import ast

    ast.parse(loader(), feature_version=(3, 7))
