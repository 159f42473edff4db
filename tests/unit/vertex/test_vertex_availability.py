"""What Vertex AI tells of places before a job is made."""

import pytest

from gputrain.planning import candidates
from gputrain.quota import Verdict
from gputrain.spec import TrainingSpec
from tests.support.clouds import reserve

STEM = "aiplatform.googleapis.com/custom_model_training_"


def spec(code, **more):
    return TrainingSpec(script=code, **{"gpu": "L4:1", "machine_type": "g2-standard-4", **more})


def fact(backend, code, **more):
    """What is told of the first place."""
    wanted = candidates(spec(code, **more), [backend.supply]).candidates
    told = backend.availability(wanted)
    assert set(told) == set(wanted)
    return told[wanted[0]]


@pytest.mark.parametrize(
    ("model", "metric"),
    [
        ("standard", "nvidia_l4_gpus"),
        ("spot", "preemptible_nvidia_l4_gpus"),
        ("flex-start", "preemptible_nvidia_l4_gpus"),
    ],
)
def test_a_quota_that_is_short_is_known_before_anything_is_made(cloud, backend, code, model, metric):
    cloud.quota(f"{STEM}{metric}", 1)
    assert fact(backend, code, provisioning_model=model).verdict is Verdict.FITS
    assert fact(backend, code, provisioning_model=model, num_nodes=2).verdict is Verdict.SHORT
    assert [one.method for one in cloud.requests] == ["cloudquotas.quotaInfos.list"]


@pytest.mark.parametrize(
    ("kept", "why"),
    [
        ({"count": 1}, "1 of the 2 machines needed are free"),
        ({"machine": "g2-standard-8"}, "it holds g2-standard-8"),
        ({"zone": "us-east4-a"}, "is in us-east4-a"),
        ({"zone": "europe-west4-a"}, "is in europe-west4-a"),
    ],
)
def test_a_reservation_that_does_not_carry_the_job_rules_the_region_out(cloud, backend, code, kept, why):
    name = reserve(cloud, "mine", **kept)
    found = fact(backend, code, reservation=name, num_nodes=2, provisioning_model="standard")
    assert why in found.absent_why
