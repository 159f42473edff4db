"""Jobs that nobody can look at for a while live on, cost money, and keep their places."""

import pathlib
import threading
import time

import pytest

from gputrain import AuthError, CapacityError, JobLostError, Local, State, Trainer, TransientError
from gputrain.experiments import driver
from gputrain.job import watcher

HELD = """
import os, sys, time
while not os.path.exists(os.path.join(os.path.dirname(os.path.abspath(__file__)), "go")):
    time.sleep(0.05)
"""


class Unreachable(Local):
    """This machine, while the way to it is broken now and then, and room for one job while it refuses."""

    fault = refusal = None
    asked = 0

    def __init__(self, **settings):
        super().__init__(**settings)
        self.gate = threading.Event()
        self.gate.set()

    def create(self, request):
        self.asked += 1
        self.gate.wait()
        if self.refusal is not None and self.asked > 1:
            raise self.refusal
        return super().create(request)

    def observe(self, ref):
        if self.fault is not None:
            raise self.fault
        return super().observe(ref)


@pytest.fixture
def place(monkeypatch):
    monkeypatch.setattr(watcher, "BLIND_FOR_AT_MOST_S", 0.2)
    monkeypatch.setattr(watcher, "AGAIN_S", 0.2)
    return Unreachable(gpus=0)


@pytest.fixture
def held(tmp_path):
    (tmp_path / "held.py").write_text(HELD)
    return str(tmp_path / "held.py")


def until(true):
    end = time.monotonic() + 300
    while not true():
        assert time.monotonic() < end
        time.sleep(0.02)


@pytest.mark.parametrize("fault", [TransientError("no network"), AuthError("the login has expired")])
def test_points_that_cannot_be_looked_at_keep_their_places(place, held, fault):
    scan = Trainer(place).map(held, [{"x": x} for x in range(4)], name="blind", max_parallel=2)
    until(lambda: len(scan.jobs) == 2)
    place.fault = fault
    with pytest.raises(type(fault)):  # the waiting ends, and no job came out of it as if it had ended
        list(scan.as_completed(timeout="5m"))
    with pytest.raises(type(fault)):
        scan.wait(timeout="5m", progress="none")
    assert len(scan.jobs) == 2
    assert not scan.is_over
    place.fault = None
    pathlib.Path(held).with_name("go").touch()
    assert [job.state for job in scan.as_completed(timeout="5m")] == [State.SUCCEEDED] * 4


def test_a_point_whose_job_is_lost_has_ended(place, held):
    scan = Trainer(place).map(held, [{"x": 1}], name="lost")
    until(lambda: scan.jobs)
    place.fault = JobLostError("nothing is left of it")
    scan.wait(timeout="5m", progress="none")
    assert scan.is_over
    place.fault = None
    scan.cancel()


@pytest.mark.parametrize("fault", [TransientError("no network"), AuthError("the login has expired")])
def test_a_listener_is_told_of_the_end_that_came_after_an_outage(place, held, fault, caplog):
    trainer, ends = Trainer(place), []
    job = trainer.submit(held)
    with job.watch(lambda event: ends.append(event.state)):
        place.fault = fault
        until(lambda: "cannot be looked at" in caplog.text)
        pathlib.Path(held).with_name("go").touch()
        place.fault = None
        until(lambda: ends and ends[-1].is_terminal)
    assert ends[-1] is State.SUCCEEDED


def test_who_closed_the_telling_of_all_jobs_hears_of_none_that_comes(place, held):
    trainer, told = Trainer(place), []
    closed = trainer.watch(lambda event: told.append(event.id))
    closed.close()
    pathlib.Path(held).with_name("go").touch()
    heard = []
    trainer.submit(held, on_change=lambda event: heard.append(event.state))
    until(lambda: heard and heard[-1].is_terminal)
    assert told == []


@pytest.mark.parametrize("refusal", [CapacityError("no room"), TransientError("no network")])
def test_a_wait_tells_why_also_while_a_point_finds_no_room(place, held, refusal, monkeypatch):
    monkeypatch.setattr(driver, "AGAIN_S", 0.1)
    place.refusal = refusal
    scan = Trainer(place).map(held, [{"x": x} for x in range(3)], name="full", max_parallel=3)
    until(lambda: place.asked > 2)
    place.fault = AuthError("the login has expired")
    with pytest.raises(AuthError):
        scan.wait(timeout="5m", progress="none")
    assert len(scan.jobs) == 1
    place.fault = place.refusal = None
    pathlib.Path(held).with_name("go").touch()
    assert [job.state for job in scan.as_completed(timeout="5m")] == [State.SUCCEEDED] * 3


def test_a_wait_tells_why_also_while_a_submit_takes_long(place, held, monkeypatch):
    monkeypatch.setattr(driver, "AGAIN_S", 0.1)
    points = [{"x": x} for x in range(2)]
    first = Trainer(place).map(held, points[:1], name="slow")
    until(lambda: first.jobs and first.jobs[0].state is State.RUNNING)
    first.close()
    place.gate.clear()
    scan = Trainer(place).map(held, points, name="slow", max_parallel=2)
    until(lambda: place.asked == 2)
    place.fault = AuthError("the login has expired")
    with pytest.raises(AuthError):
        scan.wait(timeout="5m", progress="none")
    place.fault = None
    place.gate.set()
    pathlib.Path(held).with_name("go").touch()
    assert [job.state for job in scan.as_completed(timeout="5m")] == [State.SUCCEEDED] * 2


def is_watched(job):
    return any(
        one.job == job
        for platform in list(watcher.WATCHER._platforms.values())
        for one in list(platform.watches.values())
    )


def test_a_job_that_is_made_while_the_experiment_is_closed_is_not_watched(place, held):
    place.gate.clear()
    scan = Trainer(place).map(held, [{"x": 1}], name="closed")
    until(lambda: place.asked)
    scan.close()
    place.gate.set()
    scan._driver.join()
    (job,) = scan.jobs
    assert not is_watched(job)
    job.cancel()
    job.wait(timeout="5m")


def test_a_job_that_is_made_while_the_experiment_is_cancelled_is_watched_to_its_end(place, held):
    place.gate.clear()
    scan = Trainer(place).map(held, [{"x": x} for x in range(2)], name="cancelled", max_parallel=1)
    until(lambda: place.asked)
    ends = threading.Thread(target=scan.cancel)
    ends.start()
    until(lambda: scan._driver.stop.is_set())
    place.gate.set()
    ends.join()
    assert len(list(scan.as_completed(timeout="5m"))) == 1
