"""`Trainer.quotas`: all backends in one table."""

import json

import pytest

from gputrain import ComputeEngine, Local, Trainer, VertexAI
from gputrain.errors import NoFitError, RequestError, SpecError
from tests.unit.quota.conftest import READS


@pytest.fixture
def trainer(cloud):
    reach = {"endpoints": cloud.endpoints, "credentials": cloud.credentials, "now": cloud.clock.now}
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


def test_models_that_share_a_quota_share_a_row(trainer):
    rows = trainer.quotas("L4:4", region="us-central1").table.rows
    assert sorted((row[0], row[2]) for row in rows) == [
        ("compute", "spot, flex-start"),
        ("compute", "standard"),
        ("vertex", "spot, flex-start"),
        ("vertex", "standard"),
    ]


def test_it_shows_itself_in_a_notebook_and_as_json(trainer):
    found = trainer.quotas("H100:8")
    assert "<table>" in found._repr_mimebundle_()["text/html"]
    read = json.loads(json.dumps(found.to_dicts()))
    assert len(read) == len(found)
    assert read[0]["verdict"] == "fits"
    assert {reading["metric"] for one in read for reading in one["readings"]} >= {"GPUS_ALL_REGIONS"}


def test_no_limit_at_all_is_minus_one_in_json(cloud, trainer):
    cloud.quota("PREEMPTIBLE_NVIDIA_H200_GPUS", float("inf"))
    found = trainer.quotas("H200:8", provisioning_model="spot").to_dicts()
    read = [reading for one in found for reading in one["readings"] if "H200" in reading["metric"]]
    assert -1 in [reading["limit"] for reading in read]


def test_this_machine_has_no_quotas(tmp_path):
    with pytest.raises(RequestError, match="local has no quotas"):
        Trainer(Local()).quotas()


def test_every_fault_of_the_arguments_is_told_at_once(trainer):
    with pytest.raises(SpecError) as caught:
        trainer.quotas("H1000:8", num_nodes=0, provisioning_model="cheap", region=7)
    told = [fault.field for fault in caught.value.faults]
    assert told == ["num_nodes", "provisioning_model", "region", "gpu"]
    assert "spot" in str(caught.value)


def test_a_zone_is_told_from_a_region_before_anything_is_read(trainer):
    with pytest.raises(SpecError, match="region='us-central1'; a zone has a letter more"):
        trainer.quotas("L4:1", region="us-central1-a")


@pytest.mark.parametrize("gpu", ["8", 8, "H100:x", ""])
def test_a_gpu_must_be_named(trainer, gpu):
    with pytest.raises(SpecError):
        trainer.quotas(gpu)


def test_a_count_that_no_machine_carries_is_refused(trainer):
    with pytest.raises(NoFitError):
        trainer.quotas("H100:3")
