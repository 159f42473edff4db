import pytest

from gputrain import catalog
from gputrain.catalog import Confidence, ProvisioningModel, Service
from tests.each import each

STANDARD, SPOT = ProvisioningModel.STANDARD, ProvisioningModel.SPOT
FLEX, RESERVED = ProvisioningModel.FLEX_START, ProvisioningModel.RESERVATION_BOUND


@each(
    ("gpu", "metric", "quota_id", "family"),
    [
        ("T4", "NVIDIA_T4_GPUS", "NVIDIA-T4-GPUS-per-project-region", None),
        ("A100", "NVIDIA_A100_GPUS", "NVIDIA-A100-GPUS-per-project-region", None),
        ("A100-80GB", "NVIDIA_A100_80GB_GPUS", "NVIDIA-A100-80GB-GPUS-per-project-region", None),
        ("H100", None, "GPUS-PER-GPU-FAMILY-per-project-region", "NVIDIA_H100"),
        ("H100-MEGA", None, "GPUS-PER-GPU-FAMILY-per-project-region", "NVIDIA_H100_MEGA"),
        ("RTX-PRO-6000", None, "GPUS-PER-GPU-FAMILY-per-project-region", "NVIDIA_RTX_PRO_6000"),
    ],
)
def test_on_demand_quotas_of_compute_engine(gpu, metric, quota_id, family):
    quota = catalog.quota(gpu)
    assert (quota.metric, quota.quota_id, quota.gpu_family) == (metric, quota_id, family)
    assert quota.api == "compute.googleapis.com"


@pytest.mark.parametrize(
    ("gpu", "metric", "quota_id"),
    [
        ("L4", "PREEMPTIBLE_NVIDIA_L4_GPUS", "PREEMPTIBLE-NVIDIA-L4-GPUS-per-project-region"),
        ("H100", "PREEMPTIBLE_NVIDIA_H100_GPUS", "PREEMPTIBLE-NVIDIA-H100-GPUS-per-project-region"),
        ("H100-MEGA", None, "PREEMPTIBLE-NVIDIA-H100-MEGA-GPUS-per-project-region"),
        ("H200", None, "PREEMPTIBLE-NVIDIA-H200-GPUS-per-project-region"),
    ],
)
def test_spot_and_flex_start_count_against_the_preemptible_quotas(gpu, metric, quota_id):
    for model in (SPOT, FLEX):
        quota = catalog.quota(gpu, model)
        assert (quota.metric, quota.quota_id, quota.gpu_family) == (metric, quota_id, None)


@pytest.mark.parametrize(
    ("gpu", "stem", "id_stem"),
    [
        ("H100", "h100", "H100"),
        ("H100-MEGA", "h100_mega", "H100MEGA"),
        ("A100-80GB", "a100_80gb", "A10080GB"),
    ],
)
def test_vertex_has_quotas_of_its_own(gpu, stem, id_stem):
    standard = catalog.quota(gpu, service=Service.VERTEX)
    assert standard.metric == f"aiplatform.googleapis.com/custom_model_training_nvidia_{stem}_gpus"
    assert standard.quota_id == f"CustomModelTraining{id_stem}GPUsPerProjectPerRegion"
    spot = catalog.quota(gpu, SPOT, service=Service.VERTEX)
    assert spot.metric == f"aiplatform.googleapis.com/custom_model_training_preemptible_nvidia_{stem}_gpus"
    assert spot.quota_id == f"CustomModelTrainingPreemptible{id_stem}GPUsPerProjectPerRegion"
    assert spot.api == "aiplatform.googleapis.com"


def test_words_serve_as_well_as_enums():
    assert catalog.quota("h100", "spot", service="vertex") == catalog.quota(
        "H100", SPOT, service=Service.VERTEX
    )


def test_there_is_no_on_demand_metric_for_h100():
    names = {
        quota.metric
        for gpu in catalog.gpus()
        for model in ProvisioningModel
        if (quota := catalog.quota(gpu, model))
    }
    assert "NVIDIA_H100_GPUS" not in names


@pytest.mark.parametrize("service", list(Service))
def test_no_quota_is_known_for_machines_of_a_reservation(service):
    assert catalog.quota("H100", RESERVED, service=service) is None


def test_what_is_sold_by_reservation_only_has_no_preemptible_quota():
    assert catalog.quota("GB200", SPOT) is None
    assert catalog.quota("GB300", service=Service.VERTEX) is None


def test_an_inferred_name_says_that_it_is():
    quota = catalog.quota("B200", service=Service.VERTEX)
    assert quota.confidence is Confidence.LOW
    assert "inferred" in quota.note


def test_a_quota_names_itself():
    assert catalog.quota("H100").name == "GPUS-PER-GPU-FAMILY-per-project-region (NVIDIA_H100)"
    assert catalog.quota("T4").name == "NVIDIA_T4_GPUS"
    assert catalog.ALL_REGIONS.name == "GPUS_ALL_REGIONS"
