"""The threads that look at jobs: one look for all, and whoever cannot be seen holds up nobody else."""

import threading

import attrs
import pytest

from gputrain import AuthError, PermissionDeniedError, State, TransientError
from gputrain.job import watcher
from tests.each import each
from tests.patience import until


@attrs.define(eq=False)
class Seen:
    """A job that is due at once after each look, which fails while there is a fault."""

    platform: str
    fault: Exception | None = None
    looks: int = 0
    state: State = State.RUNNING
    poll_s: float = 0.0
    has_step: bool = False
    gate: threading.Event | None = None
    """What a look waits for."""

    @staticmethod
    def refresh_many(jobs):
        for one in jobs:
            if one.gate is not None:
                one.gate.wait()
            one.looks += 1
        return [one.fault for one in jobs]

    def supervise(self):
        return False


@pytest.fixture
def watch(monkeypatch):
    """Watches jobs; gives what each was told."""
    monkeypatch.setattr(watcher, "LONGEST_PAUSE_S", 0.0)
    monkeypatch.setattr(watcher, "EACH_S", 0.0)
    monkeypatch.setattr(watcher, "WATCHERS", {})
    drops = []

    def start(*jobs):
        told = [[] for _ in jobs]
        drops.extend(watcher.watch(one, heard.append) for one, heard in zip(jobs, told))
        return told

    yield start
    for drop in drops:
        drop()


@each("fault", [AuthError("the login has expired"), PermissionDeniedError("no"), TransientError("silent")])
def test_a_job_that_cannot_be_seen_keeps_no_other_from_being_seen(watch, monkeypatch, fault):
    monkeypatch.setattr(watcher, "AGAIN_S", 0.0)
    monkeypatch.setattr(watcher, "BLIND_FOR_AT_MOST_S", 0.0)
    bad, *good = (Seen("here", fault), Seen("here"), Seen("here"))
    told = watch(bad, *good)
    until(lambda: all(one.looks >= 20 for one in good) and told[0])
    assert set(told[0]) == {fault}
    assert set(told[1]) == {None}


def test_an_outage_is_told_after_a_while_only_and_warned_of_once(watch, caplog):
    jobs = [Seen("here", TransientError("nothing answers")) for _ in range(3)]
    told = watch(*jobs)
    until(lambda: all(one.looks >= 20 for one in jobs))
    assert told == [[], [], []]
    assert watcher.BLIND_FOR_AT_MOST_S > 60
    for one in jobs:
        one.fault = PermissionDeniedError("not yours")
    until(lambda: all(told))
    assert caplog.text.count("cannot be read") == 1


def test_a_platform_that_does_not_answer_keeps_no_other_from_being_seen(watch):
    gate = threading.Event()
    hung, good = Seen("there", gate=gate), Seen("here")
    watch(hung, good)
    until(lambda: good.looks >= 20)
    assert not hung.looks
    gate.set()
    until(lambda: hung.looks)
