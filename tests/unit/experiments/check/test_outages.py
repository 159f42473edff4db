"""Jobs that nobody can look at for a while live on, cost money, and keep their places."""

import pathlib
import time

import pytest

from gputrain import AuthError, Local, State, Trainer, TransientError
from gputrain.job import watcher

HELD = """
import os, sys, time
while not os.path.exists(os.path.join(os.path.dirname(os.path.abspath(__file__)), "go")):
    time.sleep(0.05)
"""


class Unreachable(Local):
    """This machine, which cannot be asked now and then."""

    fault = None


@pytest.fixture
def place(monkeypatch):
    monkeypatch.setattr(watcher, "BLIND_FOR_AT_MOST_S", 0.2)
    monkeypatch.setattr(watcher, "AGAIN_S", 0.2)
    here, inspect_many = Unreachable(gpus=0), Local.inspect_many

    def failing(self, records):
        if here.fault is not None:
            raise here.fault
        return inspect_many(self, records)

    monkeypatch.setattr(Local, "inspect_many", failing)
    return here


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
