"""A client killed with SIGKILL at any step leaves one gang or none, and nothing that bills for ever.

A few lives are drawn in every run, three hundred with ``-m soak``.
"""

import collections
import itertools
import os
import random
import signal
import threading
import time

import pytest

import gputrain_emulator
from gputrain.backends.base import JobRef
from gputrain.backends.compute import ComputeEngine
from gputrain.errors import CapacityError
from gputrain.lifecycle import State
from gputrain.spec import TrainingSpec
from gputrain_emulator import faults
from tests.laws.mortal_clients import Clients
from tests.road import Road

LIMIT_S = 3600
AFTER_THE_LIMIT_S = 900
STEPS = 16
"""Calls of a submit, and a few more."""
ZONE, MACHINE = "us-central1-a", "g2-standard-4"
SAMPLE = 5
SEEDS = [
    pytest.param(seed, marks=() if seed < SAMPLE else pytest.mark.soak, id=str(seed)) for seed in range(300)
]


@pytest.fixture(scope="module")
def clients():
    running = Clients()
    yield running
    running.close()


@pytest.fixture
def cloud():
    with gputrain_emulator.start() as running:
        running.add_bucket("my-bucket")
        for metric in ("NVIDIA_L4_GPUS", "PREEMPTIBLE_NVIDIA_L4_GPUS", "GPUS_ALL_REGIONS"):
            running.quota(metric, 1000)
        yield running
        assert not running.dispatcher.failures


@pytest.fixture
def script(tmp_path):
    (tmp_path / "train.py").write_text("pass\n")
    return str(tmp_path / "train.py")


class Death:
    """When a client dies: before its n-th call, when that is answered, or at any moment; as drawn."""

    def __init__(self, dice, steps):
        self.how = dice.choice(("before", "answered", "moment"))
        self.step = dice.randrange(steps)
        self.moment_s = dice.uniform(0, 0.02 * steps)

    def meet(self, cloud, clients, **order):
        """Run a client to its death, or to its end if that comes first; whether it was killed."""
        known, victim = threading.Event(), []
        answered = itertools.count()

        def kill(document):
            if self.how == "answered" and next(answered) == self.step and known.wait(60):
                os.kill(victim[0], signal.SIGKILL)  # done, and its answer is not yet sent
            return document

        fault = cloud.fail("*", faults.Reshape(change=kill), times=None)
        order |= {"url": cloud.endpoints.url, "token": cloud.world.callers.issue(cloud.owner)}
        pid = clients.start(calls=self.step if self.how == "before" else -1, **order)
        victim.append(pid)
        known.set()
        if self.how == "moment":
            time.sleep(self.moment_s)  # the moment is what is drawn; nothing waits for it
            os.kill(pid, signal.SIGKILL)
        was_killed = clients.end()
        fault.cancel()
        return was_killed


def reach(cloud):
    clock = {"sleep": cloud.clock.advance, "now": cloud.clock.now}
    return {"endpoints": cloud.endpoints, "credentials": cloud.credentials, **clock}


def backend_in(cloud):
    """A fresh process's backend: it remembers nothing."""
    return ComputeEngine("my-project", regions=["us-central1"], bucket="gs://my-bucket", **reach(cloud))


def vms(cloud):
    return sorted(vm.name for vm in cloud.compute.vms.values())


@pytest.mark.parametrize("seed", SEEDS)
def test_a_client_killed_at_any_step_of_a_submit_leaves_one_gang_or_none(cloud, clients, script, seed):
    dice = random.Random(seed)
    count, is_full = dice.choice((1, 2, 8)), dice.random() < 0.25
    if is_full:
        cloud.stock(ZONE, MACHINE, count - 1)
    spec = {"script": script, "gpu": "L4:1", "num_nodes": count, "max_run_duration": f"{LIMIT_S}s"}
    Death(dice, STEPS).meet(cloud, clients, spec=spec, job_id="law-1", watches=False)

    cloud.clock.advance(120)
    assert len(vms(cloud)) in (0, count)
    road = Road(backend_in(cloud))
    if is_full:
        with pytest.raises(CapacityError):
            road.submit(TrainingSpec(**spec), job_id="law-1")
        assert vms(cloud) == []
        assert backend_in(cloud).find() == ()
        cloud.stock(ZONE, MACHINE, None)
        before = len(cloud.ledger.events("create", "/instances/"))
    else:
        before = 0
    ref = road.submit(TrainingSpec(**spec), job_id="law-1")
    assert vms(cloud) == sorted(f"law-1-0-{rank}" for rank in range(count))
    assert len(cloud.ledger.events("create", "/instances/")) - before == count
    named = JobRef.parse(ref.uri)
    attached = ComputeEngine.for_ref(named, **reach(cloud))
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
        "script": script, "gpu": "L4:1", "num_nodes": count, "max_run_duration": f"{LIMIT_S}s",
        "provisioning_model": "spot", "max_restarts": 2,
    }  # fmt: skip
    Death(dice, dice.choice((STEPS, 100, 300))).meet(cloud, clients, spec=spec, job_id="law-1", watches=True)

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
