"""A job that finds no machines in one region is made in the next, by whoever waits for it."""

import pytest

from gputrain.lifecycle import State
from tests.unit.vertex.runs import REGIONS


@pytest.fixture
def full(vertex):
    """The first region has no machines."""
    vertex.set_stock("g2-standard-24", 0, region="us-central1")


def wait(job, cloud, *, until, rounds=100):
    """What a waiting client does: look, take the next step where that is left to it, and let time pass."""
    for _ in range(rounds):
        job.refresh()
        job.supervise()
        if job.state is until:
            return
        cloud.clock.advance(30)
    raise AssertionError(job)


def places(made):
    return [job.region for job in made()]


def test_a_process_with_another_account_makes_nothing_and_says_with_which_it_would(
    full, submit, trainer, cloud, made, caplog
):
    job = submit(trainer(regions=REGIONS))
    other = trainer(regions=REGIONS, service_account="else@my-project.iam.gserviceaccount.com")
    cloud.clock.advance(1000)
    watched = other.attach(job.uri)
    watched.refresh()
    assert not watched.supervise()
    assert "service_account='train@my-project.iam.gserviceaccount.com'" in caplog.text
    assert places(made) == ["us-central1"]
    wait(job, cloud, until=State.SUCCEEDED)
