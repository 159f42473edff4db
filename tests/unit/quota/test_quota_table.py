"""`Trainer.quotas`: all backends in one table."""

import pytest

from gputrain import ComputeEngine, Trainer, VertexAI
from gputrain.errors import NoFitError, QuotaExceededError, SpecError
from tests.each import each
from tests.unit.quota.conftest import READS


@pytest.fixture
def reach(cloud):
    return {"endpoints": cloud.endpoints, "credentials": cloud.credentials, "now": cloud.clock.now}


@pytest.fixture
def trainer(cloud, reach):
    where = ["us-central1", "europe-west4"]
    vertex = VertexAI(cloud.project, regions=where, **reach)
    return Trainer([vertex, ComputeEngine(cloud.project, regions=where, bucket="gs://my-bucket", **reach)])


def test_four_calls_tell_everything_on_both_backends(cloud, trainer):
    found = trainer.quotas()
    assert {one.method for one in cloud.requests} == READS
    assert len(cloud.requests) == 4  # Cloud Quotas tells each service apart
    assert {one.service.value for one in found} == {"vertex", "compute"}
    assert {one.region for one in found} == {"us-central1", "europe-west4"}


def test_what_is_asked_for_is_what_is_shown(trainer):
    found = trainer.quotas(
        ["H100:8", "L4:4"], num_nodes=2, provisioning_model=["spot"], region="europe-west4"
    )
    assert {(one.gpu, one.gpus, one.provisioning_model.value) for one in found} == {
        ("H100", 16, "spot"),
        ("L4", 8, "spot"),
    }
    assert {one.region for one in found} == {"europe-west4"}


def test_the_table_names_limit_usage_need_and_verdict(cloud, trainer):
    cloud.quota("NVIDIA_L4_GPUS", 5, region="us-central1")
    text = str(trainer.quotas("L4:4", num_nodes=2, provisioning_model="standard", region="us-central1"))
    row = next(line for line in text.splitlines() if line.startswith("compute"))
    assert " ".join(row.split()).startswith("compute 8 x L4 standard us-central1 5 0 8 short NVIDIA_L4_GPUS")
    assert "regions.list" in row
    assert "read at" in text


def test_every_fault_of_the_arguments_is_told_at_once(trainer):
    with pytest.raises(SpecError) as caught:
        trainer.quotas("H1000:8", num_nodes=0, provisioning_model="cheap", region=7)
    told = [fault.field for fault in caught.value.faults]
    assert told == ["num_nodes", "provisioning_model", "region", "gpu"]
    assert "spot" in str(caught.value)


def test_a_count_that_no_machine_carries_is_refused(trainer):
    with pytest.raises(NoFitError):
        trainer.quotas("H100:3")


VERTEX = "aiplatform.googleapis.com/custom_model_training_"


@each(
    ("metric", "gpu", "model"),
    [
        ("preemptible_cpus", "T4:1", "spot"),
        ("cpus", "T4:1", "standard"),
        ("a3_cpus", "H100:8", "standard"),
        ("g2_cpus", "L4:1", "standard"),
    ],
)
def test_vertex_ai_counts_vcpus_by_machine_series_and_for_spot(cloud, reach, metric, gpu, model):
    cloud.quota(VERTEX + metric, 1)
    trainer = Trainer(VertexAI(cloud.project, "us-central1", bucket="gs://my-bucket", **reach))
    (row,) = trainer.quotas(gpu, provisioning_model=model)
    assert (row.verdict.value, row.deciding.metric) == ("short", VERTEX + metric)
    assert row.deciding.need > 1
    spec = {"gpu": gpu, "provisioning_model": model, "max_run_duration": "1h", "command": ["true"]}
    with pytest.raises(QuotaExceededError, match=row.deciding.quota_id):
        trainer.submit(**spec, image="my/image")


def test_vcpus_of_flex_start_are_shown_and_decide_nothing(cloud, trainer):
    cloud.quota(f"{VERTEX}preemptible_cpus", 1)
    (row, *_) = trainer.quotas("L4:1", provisioning_model="flex-start", region="us-central1")
    assert row.verdict.value == "fits"
    assert [one.is_gate for one in row.readings] == [True, False]


@each(
    ("gpu", "metric"),
    [("L4:1", "SSD_TOTAL_GB"), ("T4:1", "SSD_TOTAL_GB"), ("RTX-PRO-6000:1", "HDB_TOTAL_GB")],
)
def test_boot_disks_count_by_their_type_and_size(cloud, reach, gpu, metric):
    cloud.quota(metric, 500)
    compute = {"regions": ["us-central1"], "bucket": "gs://my-bucket", **reach}
    large, small = (
        ComputeEngine(cloud.project, **compute),
        ComputeEngine(cloud.project, disk_gib=100, **compute),
    )
    spec = {"num_nodes": 4, "provisioning_model": "spot"}
    assert {one.verdict.value for one in Trainer(small).quotas(gpu, **spec)} == {"fits"}
    (row,) = Trainer(large).quotas(gpu, **spec)
    assert (row.verdict.value, row.deciding.metric, row.deciding.need) == ("short", metric, 800)
    plan = str(Trainer(large).plan(command=["true"], gpu=gpu, **spec))
    assert f"short: {metric} in us-central1 is 500 with 0 in use, the job needs 800" in plan
    assert "fix: a smaller disk_gib=" in plan
    with pytest.raises(QuotaExceededError) as caught:
        Trainer(large).submit(command=["true"], gpu=gpu, max_run_duration="1h", **spec)
    assert "a smaller disk_gib=, or request more of" in caught.value.fix
    assert f"{metric.replace('_', '-')}-per-project-region" in caught.value.fix


def test_jobs_on_a_persistent_resource_count_against_nothing(cloud, reach):
    cloud.quota(f"{VERTEX}nvidia_l4_gpus", 0)
    backend = VertexAI(cloud.project, "us-central1", persistent_resource="mine", **reach)
    (row,) = Trainer(backend).quotas("L4:1", provisioning_model="standard")
    assert (row.verdict.value, row.readings) == ("fits", ())
    best = Trainer(backend).plan(command=["true"], image="my/image", gpu="L4:1", max_cost=1).best
    assert (best.price_usd_h, best.max_run_duration.days) == (0, 1)
    assert "persistent resource" in row.note
