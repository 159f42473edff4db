"""A job runs what its image's tag meant when it was submitted, also where the tag has moved since."""

import re

import pytest

from gputrain import Trainer
from gputrain.backends.compute import ComputeEngine
from gputrain.backends.vertex import VertexAI
from gputrain_emulator.registry import Registry
from tests.support.clouds import emulated, settings

IMAGE = "us-docker.pkg.dev/my-project/train/mine:latest"
PUSHED = (("linux/amd64",), ("linux/amd64", "linux/arm64"), ("linux/amd64",))
"""What is pushed under the tag, one after the other; the last is the first again."""


@pytest.fixture
def cloud():
    with emulated() as running:
        running.dispatcher.requests.keep_everything()
        yield running


def trainer(cloud, kind, **where):
    return Trainer(kind(**settings(cloud, regions=["us-central1"], **where)))


def digests_sent(cloud, creates, submit):
    """The digests by which the image was named in what was sent to make each job, in order."""
    found = []
    for number, platforms in enumerate(PUSHED):
        cloud.world.part(Registry).add(IMAGE, platforms)
        before = len(cloud.requests)
        submit(number)
        sent = b"".join(one.body for one in cloud.requests[before:] if one.method == creates)
        found.append(set(re.findall(r"train/mine@(sha256:[0-9a-f]{64})", sent.decode())))
    return found


@pytest.mark.parametrize(
    ("kind", "where", "creates"),
    [
        (VertexAI, {}, "aiplatform.customJobs.create"),
        (ComputeEngine, {"check_network": False}, "compute.instances.bulkInsert"),
    ],
    ids=["vertex", "compute"],
)
def test_two_submits_with_a_tag_moved_in_between_run_two_digests(cloud, tmp_path, kind, where, creates):
    script = tmp_path / "train.py"
    script.write_text("pass\n")
    one = trainer(cloud, kind, **where)

    def submit(number):
        one.submit(str(script), gpu="L4:1", num_nodes=2, image=IMAGE, name=f"job-{number}")

    first, second, third = digests_sent(cloud, creates, submit)
    assert all(len(digests) == 1 for digests in (first, second, third))
    assert first != second
    assert first == third


def test_a_restart_runs_what_the_tag_meant_when_the_job_was_submitted(cloud, tmp_path):
    script = tmp_path / "train.py"
    script.write_text("pass\n")
    spot = {"provisioning_model": "spot", "max_restarts": 2, "max_run_duration": "2h"}
    jobs = []

    def submit(number):
        if jobs:  # the second push falls into the life of the first job
            cloud.clock.advance(400)
            jobs[0].refresh()
            cloud.preempt(jobs[0].machines[0], to_stock=True)
            cloud.clock.advance(400)
            one = trainer(cloud, ComputeEngine, check_network=False)
            watched = one.attach(jobs[0].uri)
            watched.refresh()
            assert watched.supervise()
        else:
            one = trainer(cloud, ComputeEngine, check_network=False)
            jobs.append(one.submit(str(script), gpu="L4:1", image=IMAGE, **spot))

    first, second, third = digests_sent(cloud, "compute.instances.bulkInsert", submit)
    assert len(first) == 1
    assert first == second == third
