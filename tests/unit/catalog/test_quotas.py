from gputrain import catalog
from gputrain.catalog import ProvisioningModel, Service
from tests.each import each

STANDARD, SPOT, FLEX, RESERVED = ProvisioningModel
FAMILY = "GPUS-PER-GPU-FAMILY-per-project-region"


@each(
    ("gpu", "metric", "quota_id", "family", "spot_metric", "spot_id"),
    [
        ("T4", "NVIDIA_T4_GPUS", "NVIDIA-T4-GPUS-per-project-region", None,
         "PREEMPTIBLE_NVIDIA_T4_GPUS", "PREEMPTIBLE-NVIDIA-T4-GPUS-per-project-region"),
        ("A100-80GB", "NVIDIA_A100_80GB_GPUS", "NVIDIA-A100-80GB-GPUS-per-project-region", None,
         "PREEMPTIBLE_NVIDIA_A100_80GB_GPUS", "PREEMPTIBLE-NVIDIA-A100-80GB-GPUS-per-project-region"),
        ("H100", None, FAMILY, "NVIDIA_H100",
         "PREEMPTIBLE_NVIDIA_H100_GPUS", "PREEMPTIBLE-NVIDIA-H100-GPUS-per-project-region"),
        ("H100-MEGA", None, FAMILY, "NVIDIA_H100_MEGA",
         None, "PREEMPTIBLE-NVIDIA-H100-MEGA-GPUS-per-project-region"),
        ("H200", None, FAMILY, "NVIDIA_H200", None, "PREEMPTIBLE-NVIDIA-H200-GPUS-per-project-region"),
    ],
)  # fmt: skip
def test_spot_and_flex_start_count_against_other_quotas_than_on_demand(
    gpu, metric, quota_id, family, spot_metric, spot_id
):
    quota = catalog.quota(gpu)
    assert (quota.metric, quota.quota_id, quota.gpu_family) == (metric, quota_id, family)
    assert quota.api == "compute.googleapis.com"
    for model in (SPOT, FLEX):
        quota = catalog.quota(gpu, model)
        assert (quota.metric, quota.quota_id, quota.gpu_family) == (spot_metric, spot_id, None)


@each(
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
    spot = catalog.quota(gpu, "spot", service="vertex")
    assert spot.metric == f"aiplatform.googleapis.com/custom_model_training_preemptible_nvidia_{stem}_gpus"
    assert spot.quota_id == f"CustomModelTrainingPreemptible{id_stem}GPUsPerProjectPerRegion"
    assert spot.api == "aiplatform.googleapis.com"
