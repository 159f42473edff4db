# ruff: noqa: E501  # one document a line
"""The same job through gcloud, and specs read from files written for it."""

import json
import os
import shutil
import subprocess

import pytest
import yaml

from gputrain.backends.vertex import VertexAI, from_gcloud, render
from gputrain.errors import SpecError
from gputrain.spec import TrainingSpec
from gputrain.trainer import Trainer

POOL = {
    "machineSpec": {
        "machineType": "a2-ultragpu-2g",
        "acceleratorType": "NVIDIA_A100_80GB",
        "acceleratorCount": 2,
    },
    "replicaCount": "1",
    "diskSpec": {"bootDiskType": "pd-ssd", "bootDiskSizeGb": 200},
    "containerSpec": {
        "imageUri": "us-docker.pkg.dev/p/r/i",
        "command": ["python3", "train.py"],
        "args": ["--lr", "3e-4"],
        "env": [{"name": "SEED", "value": "1"}],
    },
}


def request_of(backend, code, **fields):
    spec = TrainingSpec(**{"script": "train.py", "source_dir": code, "gpu": "L4:2", **fields})
    plan = Trainer(backend).plan(spec)
    return backend.render(spec, plan.candidates[0], "train-x1", backend.stage(spec, "train-x1"))


def test_the_file_holds_the_job_word_for_word(make, code):
    backend = make()
    request = request_of(
        backend, code, args=["--x", "a: b", "# no", "two\nlines", "ünï", "'\"", "- x", "yes"]
    )
    config = yaml.safe_load(backend.to_gcloud(request).config)
    sent = backend._code.sent(request.body["customJob"])["jobSpec"]
    assert config == sent
    assert isinstance(config["workerPoolSpecs"], list)


@pytest.mark.skipif(shutil.which("gcloud") is None, reason="gcloud is not installed here")
def test_gcloud_makes_the_job_that_we_make(make, cloud, vertex, code, tmp_path):
    backend = make()
    request = request_of(backend, code, num_nodes=2, provisioning_model="spot", max_restarts=2)
    wanted = backend.to_gcloud(request)
    (tmp_path / "config.yaml").write_text(wanted.config)
    url = cloud.endpoints.url
    env = {
        **os.environ,
        "CLOUDSDK_CONFIG": str(tmp_path / "gcloud"),
        "CLOUDSDK_AUTH_DISABLE_CREDENTIALS": "true",
        "CLOUDSDK_CORE_DISABLE_PROMPTS": "1",
        "CLOUDSDK_CORE_DISABLE_USAGE_REPORTING": "true",
        "CLOUDSDK_COMPONENT_MANAGER_DISABLE_UPDATE_CHECK": "true",
        "CLOUDSDK_API_ENDPOINT_OVERRIDES_AIPLATFORM": f"{url}/",
    }
    done = subprocess.run(wanted.command, cwd=tmp_path, env=env, capture_output=True, text=True, timeout=120)
    assert done.returncode == 0, done.stderr
    (theirs,) = vertex.jobs.values()
    vertex.jobs.clear()
    backend.create(request)
    (ours,) = vertex.jobs.values()
    assert theirs.document["jobSpec"] == ours.document["jobSpec"]
    assert theirs.document["labels"] == ours.document["labels"]
    assert theirs.document["displayName"] == ours.document["displayName"]


@pytest.mark.parametrize("pools", [[POOL], POOL])
def test_both_forms_of_pools_are_read(pools):
    imported = from_gcloud(yaml.safe_dump({"workerPoolSpecs": pools, "serviceAccount": "a@b.c"}))
    assert imported.spec == TrainingSpec(
        command=["python3", "train.py", "--lr", "3e-4"], gpu="A100-80GB:2", machine_type="a2-ultragpu-2g",
        image="us-docker.pkg.dev/p/r/i", env={"SEED": "1"}, max_restarts=3, provisioning_model="standard",
    )  # fmt: skip
    assert imported.settings == {"service_account": "a@b.c", "disk_type": "pd-ssd", "disk_gib": 200}
    VertexAI("my-project", "us-central1", **imported.settings)


def test_chief_and_workers_are_nodes_and_scheduling_is_limits():
    document = {
        "worker_pool_specs": [
            {**POOL, "replica_count": 1}, {**POOL, "replicaCount": 3},
        ],
        "scheduling": {"timeout": "3600s", "strategy": "FLEX_START", "max_wait_duration": "600s", "disable_retries": True},
        "baseOutputDirectory": {"outputUriPrefix": "gs://my-bucket/out"},
    }  # fmt: skip
    document["worker_pool_specs"][0].pop("replicaCount", None)
    spec = from_gcloud(json.dumps(document)).spec
    assert (spec.num_nodes, spec.max_restarts, spec.output_dir) == (4, 0, "gs://my-bucket/out")
    assert (spec.max_run_duration.total_seconds(), spec.max_wait_duration.total_seconds()) == (3600, 600)
    assert [model.value for model in spec.provisioning_model] == ["flex-start"]


def test_everything_that_a_spec_cannot_say_is_told_at_once():
    pool = {**POOL, "machineSpec": {**POOL["machineSpec"], "tpuTopology": "2x2"}}
    document = {
        "workerPoolSpecs": [pool],
        "enableWebAccess": True,
        "scheduling": {"strategy": "HOPE", "timeout": "1h"},
    }
    with pytest.raises(SpecError) as caught:
        from_gcloud(document)
    assert {fault.field for fault in caught.value.faults} == {
        "machineSpec.tpuTopology", "enableWebAccess", "scheduling.strategy", "scheduling.timeout",
    }  # fmt: skip


@pytest.mark.parametrize(
    "config",
    ["", "just words", "a: [", "{}", {"workerPoolSpecs": []}, {"workerPoolSpecs": {"0": POOL}},
     {"workerPoolSpecs": [{"pythonPackageSpec": {}}]}],
)  # fmt: skip
def test_a_file_without_pools_is_refused(config):
    with pytest.raises(SpecError):
        from_gcloud(config)


def test_an_image_that_starts_by_itself_must_say_what():
    pool = {**POOL, "containerSpec": {"imageUri": "us-docker.pkg.dev/p/r/i"}}
    with pytest.raises(SpecError, match="name what the image starts by itself"):
        from_gcloud({"workerPoolSpecs": [pool]})


def test_a_file_that_we_wrote_is_not_read_back_into_itself():
    pool = {**POOL, "containerSpec": {**POOL["containerSpec"], "command": ["python3", "-c", render.loader()]}}
    with pytest.raises(SpecError, match="keep the spec"):
        from_gcloud({"workerPoolSpecs": [pool]})
