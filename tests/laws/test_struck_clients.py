"""A client struck at any instant of a submit, wait or cancel: one job a key, and back from a Ctrl-C at once.

A few instants are drawn in every run, a thousand kills and a thousand Ctrl-C a backend with ``-m soak``.
"""

import random
import signal
import time

import pytest

import gputrain_emulator
from gputrain.backends.local import Local
from gputrain.gcp import Api
from gputrain.spec.entry import make_job_id, make_spec
from gputrain.trainer import Trainer
from tests.laws.struck_clients import Clients

BACK_WITHIN_S = 2.0
SAMPLE, ALL = 4, 1000
KINDS = ("local", "vertex", "compute")
SCRIPT = """
import fcntl, os, sys, time
ran = open(sys.argv[1] + os.environ["GPUTRAIN_JOB_ID"], "a")
try:
    fcntl.flock(ran, fcntl.LOCK_EX | fcntl.LOCK_NB)
except BlockingIOError:
    ran.write("beside another\\n")
ran.write("once\\n")
ran.flush()
time.sleep(0.3)
"""


class InTheCloud:
    """One emulated backend, and what of a key is in it."""

    def __init__(self, kind, folder):
        self.kind = kind
        self.cloud = gputrain_emulator.start(rate_limits=False)
        self.cloud.add_bucket("my-bucket")
        for metric in ("NVIDIA_L4_GPUS", "PREEMPTIBLE_NVIDIA_L4_GPUS", "GPUS_ALL_REGIONS"):
            self.cloud.quota(metric, 100_000)
        script = folder / "train.py"
        script.write_text("pass\n")
        self.script, self.spec = str(script), {"gpu": "L4:1"}
        self.clients = Clients(
            kind=kind, script=self.script, spec=self.spec, waits_s=0.5, url=self.cloud.endpoints.url,
            endpoints={api.value: getattr(self.cloud.endpoints, api.value, "") for api in Api},
            token=self.cloud.world.callers.issue(self.cloud.owner),
        )  # fmt: skip

    def live(self, key, acts, strikes=()):
        self.cloud.dispatcher.requests.clear()
        told = self.clients.live(key, acts, strikes)
        # What a client had sent when it died is dealt with before anybody comes after it.
        patience_s = 20.0 if told["sent"] == told["begun"] else 0.5
        until = time.monotonic() + patience_s
        while len(self.cloud.requests) < told["begun"] and time.monotonic() < until:
            time.sleep(0.005)
        return told

    def there(self, job_id):
        """What of a job lives now."""
        vms = [
            vm.resource["labels"]["gputrain-gang"]
            for vm in self.cloud.compute.vms.values()
            if vm.resource["labels"].get("gputrain-job") == job_id and vm.status != "STOPPING"
        ]
        jobs = [
            job.id
            for job in self.cloud.vertex.jobs.values()
            if job.document["displayName"] == job_id and job.life.ended is None and not _goes(job)
        ]
        return [*vms, *jobs]

    def rest(self):
        self.cloud.clock.advance(60.0)

    def close(self):
        self.clients.close()
        self.cloud.close()
        assert not self.cloud.dispatcher.failures


def _goes(job):
    """Whether it was withdrawn or cancelled, and is on its way out."""
    return job.life.state.name == "CANCELLING"


class Here:
    """This machine: its jobs are processes, and a script that runs twice at once says so."""

    kind = "local"

    def __init__(self, folder):
        self.folder, self.root = folder, folder / "jobs"
        script = folder / "train.py"
        script.write_text(SCRIPT)
        self.script, self.spec = str(script), {"args": [f"{folder}/"]}
        self.clients = Clients(
            kind="local", script=self.script, spec=self.spec, waits_s=20.0, root=str(self.root)
        )
        self.trainer = Trainer(Local(gpus=0, root=self.root))

    def live(self, key, acts, strikes=()):
        return self.clients.live(key, acts, strikes)

    def there(self, job_id):
        ran = self.folder / job_id
        assert not ran.exists() or "beside another" not in ran.read_text()
        return [
            job.ref.name
            for job in self.trainer.jobs()
            if job.ref.name == job_id and not job.state.is_terminal
        ]

    def rest(self):
        for job in self.trainer.jobs():
            job.wait(timeout=60, progress="none")

    def close(self):
        self.clients.close()


@pytest.fixture(scope="module", params=KINDS)
def world(request, tmp_path_factory):
    folder = tmp_path_factory.mktemp(request.param)
    made = Here(folder) if request.param == "local" else InTheCloud(request.param, folder)
    yield made
    made.close()


@pytest.fixture(scope="module")
def calls(world):
    """How many calls the longest life takes that is not struck; the first one loads what all need."""
    told = [world.live("counted", ["cancel"]) for _ in range(2)]
    assert [one["status"] for one in told] == [0, 0], told
    return world.live("counted once more", ["cancel"])["calls"]


def seeds(first):
    """A few for every run, and all that the soak has, by the hundred."""
    some = [pytest.param((first + number,), id=str(number)) for number in range(SAMPLE)]
    hundreds = range(first + SAMPLE, first + ALL, 100)
    more = [range(one, min(one + 100, first + ALL)) for one in hundreds]
    limit = (pytest.mark.soak, pytest.mark.timeout(3000))
    return [*some, *(pytest.param(one, marks=limit, id=f"{one[0]}-{one[-1]}") for one in more)]


def one_job_is_left(world, key, *, is_cancelled):
    """A fresh process gets the key's one job; after a cancel there is none, and none comes."""
    job_id = make_job_id(make_spec(None, {"script": world.script, **world.spec}), key)
    told = world.live(key, ["cancel"] if is_cancelled else [])
    assert told["status"] == 0, told
    assert told["said"].startswith("gputrain://"), told
    assert "Error" not in told["said"], told
    there = world.there(job_id)
    assert len(there) <= 1, there
    world.rest()
    assert len(world.there(job_id)) <= (0 if is_cancelled or world.kind == "local" else 1)


@pytest.mark.parametrize("seeds", seeds(10_000))
def test_a_client_that_is_killed_leaves_one_job(world, calls, seeds):
    for seed in seeds:
        kill(world, calls, seed)


def kill(world, calls, seed):
    """One to three clients of a key, each killed at some instant, and one that comes after them."""
    dice = random.Random(f"killed {seed}")
    key, cancels = f"killed {seed}", False
    for _ in range(dice.choice((1, 1, 2, 3))):
        acts = dice.choice((["wait"], ["cancel"], []))
        told = world.live(key, acts, [("SIGKILL", dice.randint(1, calls))])
        assert told["status"] in (0, -signal.SIGKILL), told
        assert "Error" not in told["said"], told
        cancels = cancels or "cancel" in acts
    one_job_is_left(world, key, is_cancelled=cancels)


@pytest.mark.parametrize("seeds", seeds(20_000))
def test_a_client_is_back_from_a_ctrl_c_at_once(world, calls, seeds):
    for seed in seeds:
        press(world, calls, seed)


def press(world, calls, seed):
    """A client that is interrupted once or twice, and one that comes after it."""
    dice = random.Random(f"pressed {seed}")
    key, acts = f"pressed {seed}", dice.choice((["wait"], ["cancel"], []))
    first = dice.randint(1, calls)
    presses = [("SIGINT", first), ("SIGINT", first + dice.choice((50, 500, 5000)) * dice.randint(1, 10))]
    told = world.live(key, acts, presses[: dice.choice((1, 2, 2))])
    assert told["status"] == 0, told
    assert told["waited_ms"] <= BACK_WITHIN_S * 1000, told
    assert "Error" not in told["said"], told
    one_job_is_left(world, key, is_cancelled="cancel" in acts)
