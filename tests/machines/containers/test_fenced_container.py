"""The container of a VM whose attempt is superseded: it ends with its ranks, which save nothing."""

import pytest

from tests.machines.containers.conftest import IMAGE
from tests.unit.keeper.fenced import Job


@pytest.fixture
def job(cloud, tmp_path):
    return Job(cloud, tmp_path, IMAGE)


def test_ranks_in_a_container_are_killed_and_save_nothing_once_another_attempt_trains(job):
    job.is_superseded_while_it_trains()
