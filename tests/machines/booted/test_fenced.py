"""A superseded attempt on a VM that boots with systemd and Google's agent."""

from tests.support.records import OTHER, OURS
from tests.unit.keeper.fenced import Job


def test_ranks_of_a_vm_that_boots_are_killed_and_save_nothing_once_another_attempt_trains(cloud, tmp_path):
    job = Job(cloud, tmp_path)
    job.write(OURS)
    job.boot("for long")
    job.until(job.has_begun)
    before = job.written()
    job.write(OTHER)
    ended = job.ended()
    assert (ended["phase"], ended["why"]) == ("ended", "superseded")
    assert job.written() == before
