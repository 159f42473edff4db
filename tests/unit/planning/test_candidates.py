from datetime import timedelta

import attrs
import pytest

from gputrain import TrainingSpec, UnknownGpuError, catalog
from gputrain.backends.limits import LIMITS
from gputrain.catalog import ProvisioningModel, Service
from gputrain.planning import Offer, Supply, candidates
from tests.market import supply

COMPUTE = supply(Service.COMPUTE)
VERTEX = supply(Service.VERTEX)
OWN = Supply(
    backend="local",
    offers=(
        Offer(gpu=None, gpu_count=0, machine_type="this", provisioning_models=(), places=("here",)),
        Offer(
            gpu="L4", gpu_count=2, machine_type="this", provisioning_models=(), places=("here",), max_nodes=1
        ),
    ),
)


def wanted(*supplies, **fields):
    return candidates(TrainingSpec(script="t.py", **fields), supplies or (COMPUTE,))


def test_two_h100_on_compute_are_sold_only_as_spot_or_flex_start():
    found = wanted(gpu="H100:2")
    assert not found.candidates
    assert "'spot' or 'flex-start'" in found.refusals[0].why


@pytest.mark.parametrize(
    ("gpu", "counts"), [("A100-80GB:16", "1, 2, 4, 8"), ("T4:8", "1, 2, 4"), ("H100:3", "1, 2, 4, 8")]
)
def test_a_count_that_no_machine_carries_is_refused_with_those_that_exist(gpu, counts):
    found = wanted(gpu=gpu)
    assert not found.candidates
    assert found.refusals[0].fix == f"counts that exist: {counts}"


def test_the_order_of_gpus_is_kept_then_that_of_models_then_that_of_backends():
    found = wanted(COMPUTE, VERTEX, gpu=["A100-80GB:8", "L4:8"], provisioning_model=["spot", "standard"])
    order = list(
        dict.fromkeys((one.gpu, one.provisioning_model.value, one.backend) for one in found.candidates)
    )
    assert order == [
        (gpu, model, backend)
        for gpu in ("A100-80GB", "L4")
        for model in ("spot", "standard")
        for backend in ("compute", "vertex")
    ]


def test_max_cost_becomes_max_run_duration_at_the_dated_price():
    found = wanted(gpu="H100:8", num_nodes=2, provisioning_model="spot", max_cost=400, max_run_duration="12h")
    assert found.candidates
    for one in found.candidates:
        assert one.cost_at_most_usd <= 400.01
        assert one.max_run_duration <= timedelta(hours=12)
        longer = one.max_run_duration + timedelta(seconds=1)
        assert (
            one.max_run_duration == timedelta(hours=12)
            or one.price_usd_h * longer.total_seconds() / 3600 > 400
        )


def test_max_cost_is_never_kept_by_guessing_a_price():
    found = wanted(VERTEX, gpu="T4:1", max_cost=400)
    assert not found.candidates
    assert any("unknown, so max_cost cannot be kept" in refusal.why for refusal in found.refusals)


def test_where_no_whole_price_is_known_the_price_that_you_state_limits_the_time():
    found = wanted(VERTEX, gpu="T4:1", max_cost=10, price_per_hour=5, max_run_duration="8h").candidates
    assert {one.max_run_duration for one in found} == {timedelta(hours=2)}
    assert {(one.price.usd_h, one.price.source) for one in found} == {(5, "price_per_hour")}
    dated = wanted(gpu="L4:2", provisioning_model="standard", max_cost=10, price_per_hour=5).candidates
    assert "price_per_hour" not in {one.price.source for one in dated}


def test_a_budget_too_small_for_a_minute_is_refused():
    found = wanted(gpu="H100:8", max_cost=0.01)
    assert not found.candidates
    assert any("does not pay for a minute" in refusal.why for refusal in found.refusals)


def test_a_machine_type_that_is_named_excludes_the_others():
    found = wanted(gpu="H100:8", machine_type="a3-edgegpu-8g")
    assert {one.machine_type for one in found.candidates} == {"a3-edgegpu-8g"}


def test_reservation_bound_machines_need_a_reservation():
    assert not wanted(gpu="GB200:4").candidates
    found = wanted(gpu="GB200:4", reservation="mine")
    assert {one.provisioning_model for one in found.candidates} == {ProvisioningModel.RESERVATION_BOUND}


def test_a_machine_type_that_does_not_carry_the_gpu_is_refused_with_those_that_do():
    found = wanted(gpu="H100:8", machine_type="g2-standard-24")
    assert not found.candidates
    assert "a3-highgpu-8g" in found.refusals[0].fix


@pytest.mark.parametrize(("ranks", "told"), [(1, "1 CPU rank"), (2, "2 CPU ranks")])
def test_ranks_without_a_gpu_are_counted(ranks, told):
    one = next(one for one in wanted(OWN, nproc_per_node=ranks).candidates if one.gpu is None)
    assert (one.gpus, one.missing_nodes) == (told, 0)


def test_ranks_per_node_are_one_a_gpu_unless_said():
    assert wanted(OWN, gpu=2).candidates[0].nproc_per_node == 2
    assert wanted(OWN, gpu=2, nproc_per_node=1).candidates[0].nproc_per_node == 1
    assert wanted(OWN).candidates[0].nproc_per_node == 1


def test_ranks_share_a_gpu_only_where_that_was_asked_for():
    assert [one.gpu for one in wanted(OWN, nproc_per_node=4).candidates] == [None]
    assert wanted(OWN, gpu=2, nproc_per_node=4).candidates[0].nproc_per_node == 4


GOOGLE = attrs.evolve(COMPUTE, find_gpu=catalog.find, limits=LIMITS)
CLUSTER = Supply(
    backend="slurm",
    offers=(
        Offer(gpu="MI300X", gpu_count=8, machine_type="dgx", provisioning_models=(), places=("gpu-long",)),
    ),
)


def test_a_misspelt_gpu_names_the_nearest_where_no_backend_knows_it():
    with pytest.raises(UnknownGpuError, match=r"gpu: no GPU goes by 'H10'. Try: write") as caught:
        wanted(GOOGLE, attrs.evolve(VERTEX, find_gpu=catalog.find), gpu="H10:8")
    assert "H100" in caught.value.nearest


def test_a_consumer_card_is_sent_to_local():
    with pytest.raises(UnknownGpuError, match="not sold on Google Cloud") as caught:
        wanted(GOOGLE, gpu="RTX 4090:2")
    assert "Local" in str(caught.value)


@pytest.mark.parametrize(
    ("fields", "subject"),
    [
        ({"machine_type": "H100"}, "machine_type"),
        ({"labels": {"Team": "x"}}, "labels"),
        ({"labels": {"team": "X"}}, "labels"),
        ({"labels": {f"k{number}": "" for number in range(57)}}, "labels"),
        ({"secrets": {"TOKEN": "secret://vault/token"}}, "secrets"),
    ],
)
def test_what_only_google_asks_is_a_limit_of_its_backends(fields, subject):
    assert subject in {refusal.subject for refusal in wanted(GOOGLE, gpu="L4:1", **fields).refusals}
    assert subject not in {refusal.subject for refusal in wanted(CLUSTER, gpu="MI300X:8", **fields).refusals}
