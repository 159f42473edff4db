"""A client killed at any step of a submit leaves exactly one job to whoever comes with the same key."""

import random
import signal

import pytest

import gputrain_emulator
from gputrain.backends.vertex import VertexAI
from gputrain.trainer import attach
from gputrain_emulator.storage import Storage
from gputrain_emulator.vertex import Vertex
from tests.laws.crashing_clients import MOMENTS, Clients

SEEDS = 300


@pytest.fixture(scope="module")
def cloud():
    with gputrain_emulator.start(rate_limits=False) as running:
        running.world.part(Storage).add_bucket("my-bucket", location="us-central1")
        yield running


@pytest.fixture(scope="module")
def clients(cloud, tmp_path_factory):
    script = tmp_path_factory.mktemp("code") / "train.py"
    script.write_text("pass\n")
    made = Clients(cloud, script)
    yield made
    made.close()


@pytest.fixture(scope="module")
def steps(clients):
    """How many requests a submit makes that finds nothing: the code, too, is new."""
    answer = clients.submit("counted")
    assert answer["status"] == 0
    return int(answer["said"].split()[1])


def killed(cloud, clients, key, step, moment):
    """A client that is killed; what it had sent is dealt with when this returns."""
    cloud.dispatcher.requests.clear()
    answer = clients.submit(key, step=step, moment=moment)
    if answer["status"] == 0:
        return  # with nothing left to do it made fewer requests
    assert answer["status"] == -signal.SIGKILL
    sent = step - (moment == MOMENTS[0])
    assert cloud.clock.wait_for(lambda: len(cloud.requests) >= sent, 20), cloud.requests


def one_job_is_left(cloud, clients, key):
    """A fresh process gets the one job by its key, another by its name; there is no other, and it runs."""
    answer = clients.submit(key)
    assert answer["status"] == 0
    uri = answer["said"].split()[0]
    backend = VertexAI(
        "my-project", "us-central1", bucket="gs://my-bucket", endpoints=cloud.endpoints,
        credentials=cloud.credentials, sleep=cloud.clock.advance, now=cloud.clock.now,
    )  # fmt: skip
    job = attach(uri, backend=backend)
    names = [one.document["displayName"] for one in cloud.world.part(Vertex).jobs.values()]
    assert names.count(job.ref.name) == 1
    cloud.clock.advance(1000)
    assert job.refresh().state.value == "succeeded"
    assert not cloud.dispatcher.failures


@pytest.mark.parametrize("moment", MOMENTS)
def test_a_client_killed_at_each_request_leaves_one_job(cloud, clients, steps, moment):
    for step in range(1, steps + 1):
        key = f"{step} {moment}"
        killed(cloud, clients, key, step, moment)
        one_job_is_left(cloud, clients, key)


def crash_and_come_again(cloud, clients, steps, seed):
    """One to three clients of one key, each killed somewhere."""
    dice = random.Random(seed)
    key = f"seed {seed}"
    for _ in range(dice.randint(1, 3)):
        killed(cloud, clients, key, dice.randint(1, steps), dice.choice(MOMENTS))
        cloud.clock.advance(dice.choice([0, 1, 100]))
    one_job_is_left(cloud, clients, key)


@pytest.mark.parametrize("seed", range(8))
def test_clients_killed_one_after_the_other_leave_one_job(cloud, clients, steps, seed):
    crash_and_come_again(cloud, clients, steps, seed)


@pytest.mark.soak
@pytest.mark.parametrize("seed", range(SEEDS))
def test_clients_killed_at_any_moment_leave_one_job(cloud, clients, steps, seed):
    crash_and_come_again(cloud, clients, steps, 1000 + seed)
