"""A client killed with SIGKILL at any step leaves one gang or none, and nothing that bills for ever.

A few lives are drawn in every run, three hundred with ``-m soak``.
"""

import collections
import random
import signal

import pytest

from gputrain.backends.base import JobRef
from gputrain.backends.compute import ComputeEngine
from gputrain.errors import NoPlacementError
from gputrain.lifecycle import State
from gputrain.trainer import Trainer
from tests.laws.struck_clients import CALL, MOMENTS, Clients
from tests.laws.struck_worlds import new_cloud, reach, settle

LIMIT_S = 3600
AFTER_THE_LIMIT_S = 900
STEPS = 16
"""Requests of a submit, and a few more."""
CALLS_A_STEP = 1500
ZONES, MACHINE = [f"us-central1-{letter}" for letter in "abcf"], "g2-standard-4"
SAMPLE = 5
SEEDS = [
    pytest.param(seed, marks=() if seed < SAMPLE else pytest.mark.soak, id=str(seed)) for seed in range(300)
]


@pytest.fixture(scope="module")
def clients():
    running = Clients(kind="compute", waits_s=10 * LIMIT_S, settings={"poll_s": 60.0})
    yield running
    running.close()


@pytest.fixture
def cloud():
    with new_cloud() as running:
        yield running
        assert not running.dispatcher.failures


@pytest.fixture
def script(tmp_path):
    (tmp_path / "train.py").write_text("pass\n")
    return str(tmp_path / "train.py")


def slain(cloud, clients, dice, acts, *, steps, **order):
    """A client that is killed at a moment that is drawn, unless it comes to its end before."""
    moment = dice.choice((CALL, *MOMENTS))
    at = dice.randint(1, steps * (CALLS_A_STEP if moment == CALL else 1))
    told = clients.live("law", acts, [("SIGKILL", moment, at)], **order, **reach(cloud))
    assert told["status"] in (0, -signal.SIGKILL), told
    settle(cloud, told)


def around(cloud):
    clock = {"sleep": cloud.clock.advance, "now": cloud.clock.now}
    return {"endpoints": cloud.endpoints, "credentials": cloud.credentials, **clock}


def backend_in(cloud):
    """A fresh process's backend: it remembers nothing."""
    return ComputeEngine("my-project", regions=["us-central1"], bucket="gs://my-bucket", **around(cloud))


def vms(cloud):
    return sorted(vm.name for vm in cloud.compute.vms.values())


@pytest.mark.parametrize("seed", SEEDS)
def test_a_client_killed_at_any_step_of_a_submit_leaves_one_gang_or_none(cloud, clients, script, seed):
    dice = random.Random(seed)
    count, is_full = dice.choice((1, 2, 8)), dice.random() < 0.25
    if is_full:
        for zone in ZONES:
            cloud.stock(zone, MACHINE, count - 1)
    spec = {"gpu": "L4:1", "num_nodes": count, "max_run_duration": f"{LIMIT_S}s", "machine_type": MACHINE}
    slain(cloud, clients, dice, [], steps=STEPS, script=script, spec=spec)

    cloud.clock.advance(120)
    assert len(vms(cloud)) in (0, count)
    trainer = Trainer(backend_in(cloud), sleep=cloud.clock.advance)
    if is_full:
        with pytest.raises(NoPlacementError):
            trainer.submit(script, **spec, idempotency_key="law")
        assert vms(cloud) == []
        # Where what the killed one sent may come yet, its record stays, so that it does nothing.
        assert {one.state for one in trainer.jobs()} <= {State.CANCELLED}
        for zone in ZONES:
            cloud.stock(zone, MACHINE, None)
        before = len(cloud.ledger.events("create", "/instances/"))
    else:
        before = 0
    job = trainer.submit(script, **spec, idempotency_key="law")
    assert vms(cloud) == sorted(f"{job.ref.name}-0-{rank}" for rank in range(count))
    assert len(cloud.ledger.events("create", "/instances/")) - before == count
    named = JobRef.parse(job.uri)
    attached = ComputeEngine.for_ref(named, **around(cloud))
    assert attached.observe(named).state is State.PROVISIONING
    attached.cancel(named)
    cloud.clock.advance(300)
    assert attached.observe(named).state is State.CANCELLED
    assert vms(cloud) == []
    assert not cloud.compute.resources["disks"]


@pytest.mark.parametrize("seed", SEEDS)
def test_a_client_killed_for_ever_leaves_nothing_that_bills_after_the_limit(cloud, clients, script, seed):
    dice = random.Random(1000 + seed)
    count = dice.choice((1, 2, 8))
    for _ in range(dice.randrange(4)):
        cloud.clock.after(dice.uniform(0, LIMIT_S), lambda: _reclaim_one(cloud, dice))
    spec = {
        "gpu": "L4:1", "num_nodes": count, "max_run_duration": f"{LIMIT_S}s",
        "provisioning_model": "spot", "max_restarts": 2,
    }  # fmt: skip
    steps = dice.choice((STEPS, 100, 300))
    slain(cloud, clients, dice, ["wait"], steps=steps, script=script, spec=spec)

    cloud.clock.advance(LIMIT_S + AFTER_THE_LIMIT_S)
    assert vms(cloud) == []
    assert not cloud.compute.resources["disks"]
    assert all(meter.until is not None for meter in cloud.ledger.meters)
    ran_s = collections.Counter()
    for meter in cloud.ledger.meters:
        ran_s[meter.resource.rpartition("-")[2]] += meter.until - meter.since
    assert all(seconds <= LIMIT_S + AFTER_THE_LIMIT_S for seconds in ran_s.values()), ran_s


def _reclaim_one(cloud, dice):
    running = [vm.name for vm in cloud.compute.vms.values() if vm.status == "RUNNING"]
    if running:
        cloud.preempt(dice.choice(sorted(running)), to_stock=True)
