"""The driver of an experiment: each of its points has an end that is told, whenever it is stopped."""

import threading

import attrs
import pytest

from gputrain import CapacityError, RequestError, StoppedError, TransientError
from gputrain.catalog import ProvisioningModel
from gputrain.experiments import driver
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

    drives = Driver(submit, [1, 2], {0: living}, 2, lambda number, job: ended.append((number, job)))
    drives.begin()
    assert is_asked.wait(300)
    drives.drop_pending(RequestError("the experiment was cancelled"))
    drives.join()
    assert sorted(ended) == [(1, None), (2, None)]
    assert sorted(drives.errors) == [1, 2]
    assert not drives.pending
    drives.close()


@pytest.mark.parametrize(("patience_s", "tried"), [(300.0, 3), (0.0, 1)])
def test_a_submit_that_fails_in_passing_is_tried_again_though_no_other_point_lives(
    living, monkeypatch, patience_s, tried
):
    monkeypatch.setattr(driver, "AGAIN_S", 0.01)
    monkeypatch.setattr(driver, "BLIND_FOR_AT_MOST_S", patience_s)
    answers, is_over = [TransientError("no answer")] * 2, threading.Event()

    def submit(number, stop):
        asked.append(number)
        if len(asked) <= len(answers):
            raise answers[len(asked) - 1]
        is_over.set()
        return living

    asked = []
    drives = Driver(submit, [1], {}, 2, lambda *_: is_over.set())
    drives.begin()
    assert is_over.wait(300)
    drives.join()
    assert len(asked) == tried
    assert bool(drives.jobs) is not bool(drives.errors)
    drives.close()


def test_a_quota_that_its_own_jobs_use_leaves_them_their_places(trainer):
    best = trainer.plan("train.py", nproc_per_node=1).plan.best
    fact = attrs.evolve(best.fact, readings=(Reading(metric="GPUs", where="r", need=2, limit=8, usage=4),))
    rented = attrs.evolve(best, provisioning_model=ProvisioningModel.SPOT, fact=fact)
    assert [_room(None, rented)(living) for living in (0, 2)] == [2, 4]
    assert _room(3, rented)(2) == 3
