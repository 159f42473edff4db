"""A superseded attempt on a VM that boots with systemd and Google's agent."""

from tests.unit.keeper.fenced import Job


def test_ranks_of_a_vm_that_boots_are_killed_and_save_nothing_once_another_attempt_trains(cloud, tmp_path):
    job = Job(cloud, tmp_path)
    job.is_superseded_while_it_trains()
