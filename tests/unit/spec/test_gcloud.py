"""Jobs written for gcloud or for aiplatform.CustomJob, read as specs and settings."""

import json
import sys
import warnings
from pathlib import Path

import pytest
import yaml

from gputrain import SpecError, TrainingSpec
from gputrain.backends.vertex import VertexAI
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
PLAIN = {"containerSpec": {"imageUri": "debian", "command": ["true"]}}
SNAKE = {
    "machine_spec": {"machine_type": "a2-ultragpu-2g", "accelerator_type": "NVIDIA_A100_80GB",
                     "accelerator_count": 2},
    "replica_count": 1, "disk_spec": {"boot_disk_type": "pd-ssd", "boot_disk_size_gb": 200},
    "container_spec": {"image_uri": "us-docker.pkg.dev/p/r/i", "command": ["python3", "train.py"],
                       "args": ["--lr", "3e-4"], "env": [{"name": "SEED", "value": "1"}]},
}  # fmt: skip


def read(config):
    """Both halves of a file."""
    with warnings.catch_warnings():
        warnings.simplefilter("ignore")
        spec = TrainingSpec.from_gcloud(config)
        return spec, VertexAI.from_gcloud(config, project="my-project", region="us-central1")


def faults_of(config):
    with pytest.raises(SpecError) as caught:
        TrainingSpec.from_gcloud(config)
    return {fault.field: str(fault) for fault in caught.value.faults}


@each(
    "config",
    [
        {"workerPoolSpecs": [POOL]},
        {"workerPoolSpecs": POOL},
        {"worker_pool_specs": [SNAKE]},
        [POOL, {}],
        [SNAKE],
        POOL,
        yaml.safe_dump({"workerPoolSpecs": [POOL], "scheduling": None}),
        json.dumps({"jobSpec": {"workerPoolSpecs": [POOL]}}),
        {"jobSpec": {"workerPoolSpecs": [POOL]}, "name": "projects/1/x", "state": "JOB_STATE_FAILED",
         "createTime": "2026-05-01T00:00:00Z", "error": {"code": 3}},
    ],
)  # fmt: skip
def test_both_forms_of_pools_are_read(config):
    spec, backend = read(config)
    assert spec == TrainingSpec(
        entrypoint=["python3", "train.py"], args=["--lr", "3e-4"], gpu="A100-80GB:2", env={"SEED": "1"},
        machine_type="a2-ultragpu-2g", image="us-docker.pkg.dev/p/r/i", max_restarts=3,
        provisioning_model="standard",
    )  # fmt: skip
    assert (backend._settings.disk_type, backend._settings.disk_gib) == ("pd-ssd", 200)


@each(
    ("container", "entrypoint", "args"),
    [({}, (), ()), ({"args": ["--epochs=5"]}, (), ("--epochs=5",)), ({"command": ["train"]}, ("train",), ())],
)
def test_an_image_keeps_its_own_entry_point(container, entrypoint, args):
    spec = read([{**POOL, "containerSpec": {"imageUri": "us-docker.pkg.dev/p/r/i", **container}}])[0]
    assert (spec.runs_image, spec.entrypoint, spec.args) == (True, entrypoint, args)
    assert spec == TrainingSpec.from_dict(spec.to_dict()) == spec.replace(name=None)


def test_a_file_is_read_by_its_path(tmp_path):
    file = tmp_path / "config.yaml"
    file.write_text(yaml.safe_dump({"workerPoolSpecs": [PLAIN]}))
    assert TrainingSpec.from_gcloud(file) == TrainingSpec.from_gcloud(str(file)) == read([PLAIN])[0]
    assert "No such file" in faults_of(tmp_path / "no.yaml")["config"]


def test_the_arguments_of_a_custom_job_are_read():
    spec, backend = read(
        {"display_name": "BERT base", "worker_pool_specs": [SNAKE], "base_output_dir": "gs://b-1/out",
         "labels": {"my_team": "nlp"}, "staging_bucket": "gs://b-1", "service_account": "a@b.c"}
    )  # fmt: skip
    assert (spec.name, spec.output_dir, spec.labels) == ("bert-base", "gs://b-1/out", {"my_team": "nlp"})
    assert backend._settings.service_account == "a@b.c"
    assert backend._settings.bucket.name == "b-1"


def test_what_a_spec_leaves_to_the_backend_is_named():
    with pytest.warns(UserWarning, match=r"service_account: .* VertexAI.from_gcloud"):
        TrainingSpec.from_gcloud({"workerPoolSpecs": [PLAIN], "serviceAccount": "a@b.c"})
    with warnings.catch_warnings():
        warnings.simplefilter("error")
        TrainingSpec.from_gcloud({"workerPoolSpecs": [PLAIN]})


def test_yaml_without_pyyaml_says_what_to_install(monkeypatch):
    monkeypatch.setitem(sys.modules, "yaml", None)
    assert "pip install pyyaml" in faults_of("workerPoolSpecs: []")["config"]
    assert read(json.dumps({"workerPoolSpecs": [POOL]}))[0].num_nodes == 1, "JSON needs none"


def test_chief_and_workers_are_nodes_and_scheduling_is_limits():
    pool = {**POOL, "replicaCount": None}
    document = {
        "worker_pool_specs": [{**pool, "replica_count": 1}, {**pool, "replica_count": 3}],
        "scheduling": {"timeout": "3600s", "strategy": "FLEX_START", "max_wait_duration": "600s",
                       "disable_retries": True, "restartJobOnWorkerRestart": True},
        "baseOutputDirectory": {"outputUriPrefix": "gs://my-bucket/out"},
    }  # fmt: skip
    spec, _ = read(json.dumps(document))
    assert (spec.num_nodes, spec.max_restarts, spec.output_dir) == (4, 0, "gs://my-bucket/out")
    assert (spec.max_run_duration.total_seconds(), spec.max_wait_duration.total_seconds()) == (3600, 600)
    assert [model.value for model in spec.provisioning_model] == ["flex-start"]


@each(
    ("affinity", "reservation"),
    [
        ({"reservationAffinityType": "NO_RESERVATION"}, None),  # as our jobs without one
        ({"reservationAffinityType": "ANY_RESERVATION"}, "any"),
        ({"reservationAffinityType": "SPECIFIC_RESERVATION", "key": "compute.googleapis.com/reservation-name",
          "values": ["projects/p/zones/z/reservations/r"]}, "projects/p/zones/z/reservations/r"),
    ],
)  # fmt: skip
def test_reservations_are_kept(affinity, reservation):
    pool = {**POOL, "machineSpec": {**POOL["machineSpec"], "reservationAffinity": affinity}}
    assert read([pool])[0].reservation == reservation


def test_everything_that_a_spec_cannot_say_is_told_at_once():
    machine = {**POOL["machineSpec"], "tpuTopology": "2x2", "acceleratorTyp": "x"}
    document = {
        "workerPoolSpecs": [{**POOL, "machineSpec": machine, "lustreMounts": [{"mountPoint": "/mnt"}]}],
        "enableDashboardAccess": True,
        "scheduling": {"strategy": "HOPE", "timeout": "1h"},
    }
    faults = faults_of(document)
    assert set(faults) == {
        "workerPoolSpecs[0].machineSpec.tpuTopology", "workerPoolSpecs[0].machineSpec.acceleratorTyp",
        "workerPoolSpecs[0].lustreMounts", "enableDashboardAccess", "scheduling.strategy",
        "scheduling.timeout",
    }  # fmt: skip
    assert "did you mean acceleratorType?" in faults["workerPoolSpecs[0].machineSpec.acceleratorTyp"]


@each(
    ("container", "told"),
    [
        ({"command": "python train.py"}, "Try: command: [python, train.py]"),
        ({"command": ["python3", "-c", "import gputrain"]}, "written by gputrain"),
    ],
)
def test_a_container_that_cannot_be_started_is_refused_with_what_to_write(container, told):
    pool = {**POOL, "containerSpec": {"imageUri": "us-docker.pkg.dev/p/r/i", **container}}
    assert told in faults_of([pool])["workerPoolSpecs[0].containerSpec.command"]


def test_pools_that_differ_say_in_what():
    other = {**POOL, "containerSpec": {**POOL["containerSpec"], "args": ["--lr", "1"]}}
    assert "differs from the first pool in args" in faults_of([POOL, other])["workerPoolSpecs[1]"]


@each(
    "config",
    ["", "just words", "a: [", "{}", 3, None, Path("nothing.yaml"), {"workerPoolSpecs": []},
     {"workerPoolSpecs": {"0": POOL}}, {"workerPoolSpecs": [{"pythonPackageSpec": {}}]}],
)  # fmt: skip
def test_a_file_without_pools_is_refused(config):
    with pytest.raises(SpecError):
        TrainingSpec.from_gcloud(config)
