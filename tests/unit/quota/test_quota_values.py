"""What readings of quotas mean for a job."""

import pickle

from gputrain.errors import QuotaExceededError
from gputrain.quota import (
    QuotaReading,
    Verdict,
    explained,
)
from tests.each import each


def reading(need=8, limit=None, usage=None, *, metric="NVIDIA_L4_GPUS", where="us-central1", **more):
    return QuotaReading(metric=metric, where=where, need=need, limit=limit, usage=usage, **more)


@each(
    ("limit", "usage", "verdict"),
    [
        (8, 0, Verdict.FITS),
        (8, 1, Verdict.SHORT),
        (8, None, Verdict.FITS),
        (7, None, Verdict.SHORT),
        (0, 0, Verdict.SHORT),
        (float("inf"), 4096, Verdict.FITS),
        (None, None, Verdict.UNKNOWN),
        (None, 4096, Verdict.UNKNOWN),
    ],
)
def test_a_reading_fits_when_limit_less_usage_covers_the_need(limit, usage, verdict):
    assert reading(8, limit, usage).verdict is verdict


METRIC = "aiplatform.googleapis.com/custom_model_training_nvidia_l4_gpus"
FAMILY = "GPUS-PER-GPU-FAMILY-per-project-region"


@each(
    ("metric", "facts"),
    [
        ("NVIDIA_L4_GPUS", {"metric": "NVIDIA_L4_GPUS"}),
        ("NVIDIA_L4_GPUS", {"metric": "compute.googleapis.com/nvidia_l4_gpus"}),
        (f"{FAMILY} (NVIDIA_H100)", {"metric": "GPUS_PER_GPU_FAMILY"}),
        (
            f"{FAMILY} (NVIDIA_H100)",
            {"metric": "compute.googleapis.com/gpus_per_gpu_family", "limit_name": FAMILY},
        ),
        (METRIC, {"metric": METRIC}),
        (METRIC, {"metric": "x", "metrics": ("x", METRIC)}),
    ],
)
def test_an_error_learns_what_was_read_of_the_same_quota(metric, facts):
    same = [reading(16, None, 12, metric=metric), reading(16, 24, None, metric=metric)]
    told = explained(QuotaExceededError("too small", **facts), [reading(9, 1, 1, metric="CPUS"), *same])
    assert (told.need, told.usage, told.limit, told.where) == (16, 12, 24, "us-central1")
    assert pickle.loads(pickle.dumps(told)).need == 16
