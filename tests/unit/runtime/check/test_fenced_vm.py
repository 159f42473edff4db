"""VMs whose job has a record: each boots the real startup script, and its supervisor obeys the record."""

import pytest

from tests.contract.clouds import live_cloud
from tests.support.records import OTHER, OURS
from tests.unit.runtime.fenced import ATTEMPT, Job


@pytest.fixture
def job(tmp_path):
    with live_cloud() as cloud:
        yield Job(cloud, tmp_path)


def test_the_current_attempt_trains(job):
    job.write(OURS)
    job.boot()
    ended = job.ended()
    assert (ended["phase"], ended["why"], ended["exit_code"]) == ("ended", "", 0)
    assert job.has_begun()


def test_a_superseded_attempt_leaves_at_boot_and_tells_only_that(job):
    job.write(OTHER)
    job.boot()
    ended = job.ended()
    assert (ended["phase"], ended["why"]) == ("ended", "superseded")
    assert list(job.objects()) == [f"jobs/bert/{ATTEMPT}/status-0.json"]


def test_ranks_of_an_attempt_that_is_superseded_are_killed_and_save_nothing(job):
    job.is_superseded_while_it_trains()


def test_ranks_of_a_cancelled_job_save_before_the_vm_leaves(job):
    job.write(OURS)
    job.boot("for long")
    job.until(job.has_begun)
    job.write(OURS.cancel())
    ended = job.ended()
    assert (ended["phase"], ended["why"], ended["exit_code"]) == ("ended", "cancelled", 75)
    assert job.objects()["jobs/bert/checkpoints/saved"] == b"whole"
