"""Vertex AI's management fee is in its prices: 15 % of the on-demand price, unless you say another share."""

import time
from datetime import timedelta

import pytest

import gputrain
from gputrain import NoFitError, Trainer, TrainingSpec

SPEC = TrainingSpec(command=["nvidia-smi"], gpu="L4:1")
ON_DEMAND = gputrain.catalog.price("g2-standard-12", "us-central1").usd_h


def best(backend, **fields):
    return Trainer(backend).plan(SPEC.replace(machine_type="g2-standard-12", **fields)).best


def test_with_it_the_price_is_whole_and_the_limit_is_time(make):
    found = best(make(management_fee=0.2), max_cost=2 * 1.2 * ON_DEMAND)
    assert found.price.is_whole
    assert found.price.usd_h == pytest.approx(1.2 * ON_DEMAND)
    assert "management fee of 0.2" in found.price.source
    assert found.max_run_duration in (timedelta(hours=2), timedelta(hours=2, seconds=-1))


@pytest.mark.parametrize("fee", [None, 0.2])
def test_what_is_attached_to_n1_has_no_whole_price_all_the_same(make, fee):
    plan = Trainer(make(management_fee=fee)).plan(SPEC, gpu="T4:1", max_cost=5)
    with pytest.raises(NoFitError, match="the N1 machine itself") as caught:
        plan.best  # noqa: B018
    assert "management_fee=" not in str(caught.value)  # no fee that is said would mend it


def test_an_experiment_keeps_its_limit_on_vertex_ai(make, vertex, code):
    vertex.set_limit("custom_model_training_nvidia_l4_gpus", 10, region="us-central1")
    points, most = gputrain.grid(n=range(2)), 2 * 1.2 * ON_DEMAND
    scan = Trainer(make(management_fee=0.2)).map(
        f"{code}/train.py", points, name="scan", gpu="L4:1", machine_type="g2-standard-12", max_cost=most
    )
    while len(scan.jobs) < 2:
        time.sleep(0.05)
    scan.close()
    assert (len(scan.jobs), scan.errors) == (2, ())
    limits = [one.document["jobSpec"]["scheduling"]["timeout"] for one in vertex.jobs.values()]
    assert len(limits) == 2
    assert all(3590 <= float(one.rstrip("s")) <= 3600 for one in limits)
