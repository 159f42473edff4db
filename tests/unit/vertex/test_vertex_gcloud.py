# ruff: noqa: E501  # one document a line
"""The same job through gcloud, and specs read from files written for it."""

import json
import os
import shutil
import subprocess
import sys
import warnings

import pytest
import yaml

from gputrain.backends.local import Local
from gputrain.backends.vertex import VertexAI, render
from gputrain.errors import SpecError
from gputrain.gcp.objects import Objects
from gputrain.spec import TrainingSpec
from gputrain.trainer import Trainer
from gputrain_emulator import gcloud
from tests.each import each

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


def plan_of(backend, code, **fields):
    spec = TrainingSpec(**{"script": "train.py", "source_dir": code, "gpu": "L4:2", **fields})
    return Trainer(backend).plan(spec)


def test_the_file_holds_the_job_word_for_word(make, cloud, vertex, code):
    plan = plan_of(make(), code, args=["--x", "a: b", "# no", "two\nlines", "ünï🜁", "'\"", "- x", "\x7f"])
    config = yaml.safe_load(plan.to_gcloud().config)
    assert not vertex.jobs, "no job is made"
    plan.submit()
    (ours,) = vertex.jobs.values()
    assert isinstance(config["workerPoolSpecs"], list)
    assert [pool["containerSpec"] for pool in config["workerPoolSpecs"]] == [
        pool["containerSpec"] for pool in ours.document["jobSpec"]["workerPoolSpecs"]
    ]


def test_what_is_printed_of_it_is_what_a_shell_takes(make, cloud, code, tmp_path):
    made = plan_of(make(), code, args=["a: b", "two\nlines", "END", "$HOME `id`"]).to_gcloud()
    asked = tmp_path / "gcloud"
    asked.write_text('#!/bin/sh\nprintf "%s\\n" "$@" > asked\n')
    asked.chmod(0o755)
    env = {**os.environ, "PATH": f"{tmp_path}:{os.environ['PATH']}"}
    subprocess.run(["sh", "-c", str(made)], cwd=tmp_path, env=env, check=True, timeout=60)
    assert (tmp_path / "config.yaml").read_text() == made.config
    assert (tmp_path / "asked").read_text().splitlines() == list(made.command[1:])
    assert made._repr_mimebundle_() == {"text/plain": str(made)}


@pytest.mark.skipif(shutil.which("gcloud") is None, reason="gcloud is not installed here")
def test_gcloud_makes_the_job_that_we_make(make, cloud, vertex, code, tmp_path):
    plan = plan_of(make(), code, num_nodes=2, provisioning_model="spot", max_restarts=2)
    wanted = plan.to_gcloud()
    (sent,) = Objects(make()._access, "my-bucket").list("code/").seen
    assert sent.name in wanted.config, "the code that the file names is there"
    (tmp_path / "config.yaml").write_text(wanted.config)
    env = {**os.environ, **gcloud.environment(cloud.endpoints.url, tmp_path / "gcloud")}
    done = subprocess.run(wanted.command, cwd=tmp_path, env=env, capture_output=True, text=True, timeout=120)
    assert done.returncode == 0, done.stderr
    (theirs,) = vertex.jobs.values()
    vertex.jobs.clear()
    plan.submit()
    (ours,) = vertex.jobs.values()
    assert theirs.document["jobSpec"] == ours.document["jobSpec"]
    assert ours.document["labels"].pop("gputrain-gang"), "that of its record, which gcloud writes none of"
    assert theirs.document["labels"] == ours.document["labels"]
    assert theirs.document["displayName"] == ours.document["displayName"]


def test_a_backend_without_gcloud_jobs_says_so():
    plan = Trainer(Local(gpus=0)).plan("train.py", source_dir="examples")
    with pytest.raises(SpecError, match="gcloud makes no jobs of local") as caught:
        plan.to_gcloud()
    assert "VertexAI" in caught.value.faults[0].fix


def read(config):
    """Both halves of a file."""
    with warnings.catch_warnings():
        warnings.simplefilter("ignore")
        spec = TrainingSpec.from_gcloud(config)
    return spec, VertexAI.from_gcloud(config, project="my-project", region="us-central1")


@pytest.mark.parametrize("pools", [[POOL], POOL])
def test_both_forms_of_pools_are_read(pools):
    spec, backend = read(yaml.safe_dump({"workerPoolSpecs": pools, "serviceAccount": "a@b.c"}))
    assert spec == TrainingSpec(
        command=["python3", "train.py", "--lr", "3e-4"], gpu="A100-80GB:2", machine_type="a2-ultragpu-2g",
        image="us-docker.pkg.dev/p/r/i", env={"SEED": "1"}, max_restarts=3, provisioning_model="standard",
    )  # fmt: skip
    settings = backend._settings
    assert (settings.service_account, settings.disk_type, settings.disk_gib) == ("a@b.c", "pd-ssd", 200)


def test_what_a_spec_leaves_to_the_backend_is_named():
    document = {"workerPoolSpecs": [{**POOL, "diskSpec": {}}], "serviceAccount": "a@b.c"}
    with pytest.warns(UserWarning, match=r"service_account: .* VertexAI.from_gcloud"):
        TrainingSpec.from_gcloud(document)
    del document["serviceAccount"]
    with warnings.catch_warnings():
        warnings.simplefilter("error")
        TrainingSpec.from_gcloud(document)


def test_what_is_no_files_text_is_refused_with_what_is(make, code, tmp_path):
    for given in (plan_of(make(), code).to_gcloud(), tmp_path / "config.yaml", "config.yaml", 3):
        with pytest.raises(SpecError, match=r"read_text\(\)"):
            TrainingSpec.from_gcloud(given)


def test_yaml_without_pyyaml_says_what_to_install(monkeypatch):
    monkeypatch.setitem(sys.modules, "yaml", None)
    with pytest.raises(SpecError, match=r"gputrain\[gcloud\]"):
        TrainingSpec.from_gcloud("workerPoolSpecs: []")
    assert read(json.dumps({"workerPoolSpecs": [POOL]}))[0].num_nodes == 1, "JSON needs none"


def test_chief_and_workers_are_nodes_and_scheduling_is_limits():
    document = {
        "worker_pool_specs": [
            {**POOL, "replica_count": 1}, {**POOL, "replicaCount": 3},
        ],
        "scheduling": {"timeout": "3600s", "strategy": "FLEX_START", "max_wait_duration": "600s", "disable_retries": True},
        "baseOutputDirectory": {"outputUriPrefix": "gs://my-bucket/out"},
    }  # fmt: skip
    document["worker_pool_specs"][0].pop("replicaCount", None)
    spec, _ = read(json.dumps(document))
    assert (spec.num_nodes, spec.max_restarts, spec.output_dir) == (4, 0, "gs://my-bucket/out")
    assert (spec.max_run_duration.total_seconds(), spec.max_wait_duration.total_seconds()) == (3600, 600)
    assert [model.value for model in spec.provisioning_model] == ["flex-start"]


def test_everything_that_a_spec_cannot_say_is_told_at_once():
    pool = {**POOL, "machineSpec": {**POOL["machineSpec"], "tpuTopology": "2x2"}}
    document = {
        "workerPoolSpecs": [pool],
        "enableDashboardAccess": True,
        "scheduling": {"strategy": "HOPE", "timeout": "1h"},
    }
    with pytest.raises(SpecError) as caught:
        TrainingSpec.from_gcloud(document)
    assert {fault.field for fault in caught.value.faults} == {
        "machineSpec.tpuTopology", "enableDashboardAccess", "scheduling.strategy", "scheduling.timeout",
    }  # fmt: skip


@each(
    "config",
    ["", "just words", "a: [", "{}", {"workerPoolSpecs": []}, {"workerPoolSpecs": {"0": POOL}},
     {"workerPoolSpecs": [{"pythonPackageSpec": {}}]}],
)  # fmt: skip
def test_a_file_without_pools_is_refused(config):
    with pytest.raises(SpecError):
        TrainingSpec.from_gcloud(config)


def test_an_image_that_starts_by_itself_must_say_what():
    pool = {**POOL, "containerSpec": {"imageUri": "us-docker.pkg.dev/p/r/i"}}
    with pytest.raises(SpecError, match="name what the image starts by itself"):
        TrainingSpec.from_gcloud({"workerPoolSpecs": [pool]})


def test_a_file_that_we_wrote_is_not_read_back_into_itself():
    pool = {**POOL, "containerSpec": {**POOL["containerSpec"], "command": ["python3", "-c", render.loader()]}}
    with pytest.raises(SpecError, match="keep the spec"):
        TrainingSpec.from_gcloud({"workerPoolSpecs": [pool]})


@each("part", ["scheduling", "baseOutputDirectory", "pscInterfaceConfig", "workerPoolSpecs"])
@each("value", [None, 1, True, "x", [1], {"a": 1}, {"timeout": "9" * 30 + "s"}])
def test_a_part_of_another_shape_is_refused(part, value):
    pool = {"containerSpec": {"imageUri": "debian", "command": ["true"], "env": []}}
    config = {"workerPoolSpecs": [pool], part: value}
    with pytest.raises(SpecError):
        TrainingSpec.from_gcloud(config)
    with pytest.raises(SpecError):
        TrainingSpec.from_gcloud({"workerPoolSpecs": [{**pool, "containerSpec": value}]})
