"""The driver of an experiment: each of its points has an end that is told, whenever it is stopped."""

import threading

import attrs
import pytest

from gputrain import CapacityError, RequestError, StoppedError
from gputrain.catalog import ProvisioningModel
from gputrain.experiments.begin import _room
from gputrain.experiments.driver import Driver
from gputrain.quota import Reading


@pytest.fixture
def living(trainer, tmp_path):
    (tmp_path / "sleeps.py").write_text("import time; time.sleep(600)")
    job = trainer.submit(str(tmp_path / "sleeps.py"))
    yield job
    job.cancel()


@pytest.mark.parametrize(
    "answer", [CapacityError("no room"), StoppedError("asked elsewhere", uri="gputrain://local/x")]
)
def test_a_point_that_finds_no_room_as_all_is_given_up_ends_with_the_others(living, answer):
    ended, is_asked = [], threading.Event()

    def submit(number, stop):
        is_asked.set()
        assert stop.wait(300)
        raise answer

    driver = Driver(submit, [1, 2], {0: living}, 2, lambda number, job: ended.append((number, job)))
    assert is_asked.wait(300)
    driver.drop_pending(RequestError("the experiment was cancelled"))
    driver.join()
    assert sorted(ended) == [(1, None), (2, None)]
    assert sorted(driver.errors) == [1, 2]
    assert not driver.pending
    driver.close()


def test_a_quota_that_its_own_jobs_use_leaves_them_their_places(trainer):
    best = trainer.plan("train.py", nproc_per_node=1).plan.best
    fact = attrs.evolve(best.fact, readings=(Reading(metric="GPUs", where="r", need=2, limit=8, usage=4),))
    rented = attrs.evolve(best, provisioning_model=ProvisioningModel.SPOT, fact=fact)
    assert [_room(None, rented)(living) for living in (0, 2)] == [2, 4]
    assert _room(3, rented)(2) == 3
