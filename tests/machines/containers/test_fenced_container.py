"""The container of a VM whose attempt is superseded: it ends with its ranks, which save nothing."""

import pytest

from tests.machines.containers.conftest import IMAGE
from tests.support.records import OTHER, OURS
from tests.unit.keeper.fenced import Job


@pytest.fixture
def job(cloud, tmp_path):
    return Job(cloud, tmp_path, IMAGE)


def test_ranks_in_a_container_are_killed_and_save_nothing_once_another_attempt_trains(job):
    job.write(OURS)
    job.boot("for long")
    job.until(job.has_begun)
    before = job.written()
    job.write(OTHER)
    ended = job.ended()
    assert (ended["phase"], ended["why"]) == ("ended", "superseded")
    assert job.written() == before
