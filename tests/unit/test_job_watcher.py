"""The threads that look at jobs: whoever cannot be seen holds up nobody else, and is told of once."""

import contextlib
import os
import signal
import threading
import time

import attrs
import pytest

from gputrain import AuthError, PermissionDeniedError, State, TransientError
from gputrain.job import watcher
from tests.each import each

MANY = 60


@attrs.define(eq=False)
class Seen:
    """A job that is due at once after each look, which fails while there is a fault."""

    platform: str
    fault: Exception | None = None
    looks: int = 0
    state: State = State.RUNNING
    poll_s: float = 0.0
    gate: threading.Event = attrs.field(factory=threading.Event)

    def refresh(self):
        self.gate.wait()
        self.looks += 1
        if self.fault is not None:
            raise self.fault

    def supervise(self):
        return False


def until(true):
    end = time.monotonic() + 300
    while not true():
        assert time.monotonic() < end
        time.sleep(0.01)


@pytest.fixture
def watched(monkeypatch):
    """Watches a good job, and then many that fail, from one moment on; with how often each was told so."""
    monkeypatch.setattr(watcher, "LONGEST_PAUSE_S", 0.0)
    looking, drops = watcher.Watcher(), []

    def watch(fault, again_s):
        monkeypatch.setattr(watcher, "AGAIN_S", again_s)
        good, told = Seen("here"), [0] * MANY
        drops.append(looking.watch(good, lambda _error: None))

        def tell(number):
            return lambda error: told.__setitem__(number, told[number] + (error is not None))

        bad = [Seen("there", fault) for _ in range(MANY)]
        for number, one in enumerate(bad):
            drops.append(looking.watch(one, tell(number)))
        for one in (good, *bad):
            one.gate.set()  # all are listed before the first is looked at
        return looking, good, bad, told

    yield watch
    for drop in drops:
        drop()


@pytest.mark.parametrize("fault", [AuthError("the login has expired"), PermissionDeniedError("not yours")])
def test_however_many_are_refused_another_job_is_looked_at_in_turn(watched, fault):
    _, good, bad, told = watched(fault, again_s=0.0)
    until(lambda: good.looks >= 20 and all(told))
    assert sum(one.looks for one in bad) <= MANY + 2 * good.looks  # each once, and then one a round
    before = [one.looks for one in bad]
    until(lambda: all(one.looks > looks for one, looks in zip(bad, before)))  # nor do they hold up each other


@each("blind_for_s", [0.0, watcher.BLIND_FOR_AT_MOST_S])
@each("first", range(3))
def test_one_job_that_no_look_reaches_keeps_no_other_from_being_seen(monkeypatch, first, blind_for_s):
    monkeypatch.setattr(watcher, "BLIND_FOR_AT_MOST_S", blind_for_s)
    fault = TransientError("its object does not answer")
    jobs = [Seen("here", fault if number == first else None) for number in range(3)]
    looking = watcher.Watcher()
    drops = [looking.watch(one, lambda _error: None) for one in jobs]
    for one in jobs:
        one.gate.set()  # all are listed before the first is looked at
    until(lambda: all(one.looks >= 20 for one in jobs))
    for drop in drops:
        drop()


def test_after_an_outage_all_are_seen_but_the_one_that_fails_on(monkeypatch):
    monkeypatch.setattr(watcher, "BLIND_FOR_AT_MOST_S", 0.0)
    fault = TransientError("nothing answers")
    jobs = [Seen("here", fault) for _ in range(3)]
    looking = watcher.Watcher()
    drops = [looking.watch(one, lambda _error: None) for one in jobs]
    for one in jobs:
        one.gate.set()
    until(lambda: all(one.looks >= 5 for one in jobs))
    for one in jobs[1:]:
        one.fault = None
    before = [one.looks for one in jobs]
    until(lambda: all(one.looks >= looks + 20 for one, looks in zip(jobs, before)))
    for drop in drops:
        drop()


def test_an_expired_login_is_asked_once_for_all_and_warned_of_once(watched, caplog):
    looking, good, bad, told = watched(AuthError("the login has expired"), again_s=3600.0)
    until(lambda: good.looks >= 20 and all(told))
    assert sum(one.looks for one in bad) == 1
    assert caplog.text.count("cannot be looked at") == 1
    newcomer, heard = Seen("there"), []
    newcomer.gate.set()
    drop = looking.watch(newcomer, heard.append)  # of somebody who has logged in meanwhile
    until(lambda: heard)
    drop()
    assert heard[0] is None


def test_who_is_refused_for_long_is_warned_of_again_after_sight_only(watched, caplog):
    fault = PermissionDeniedError("not yours")
    _, _, bad, told = watched(fault, again_s=0.0)
    until(lambda: min(told) >= 3)
    assert caplog.text.count("cannot be looked at") == 1
    for one in bad:
        one.fault = None
    until(lambda: all(one.looks > MANY for one in bad))
    assert caplog.text.count("cannot be looked at") == 1
    bad[0].fault = fault
    until(lambda: caplog.text.count("cannot be looked at") == 2)


def test_a_platform_that_does_not_answer_keeps_no_other_from_being_seen():
    hung, good, looking = Seen("there"), Seen("here"), watcher.Watcher()
    good.gate.set()
    drops = [looking.watch(one, lambda _error: None) for one in (hung, good)]
    until(lambda: good.looks >= 20)
    assert not hung.looks
    hung.gate.set()
    until(lambda: hung.looks)
    for drop in drops:
        drop()


@pytest.mark.check
def test_to_wait_for_an_answer_is_no_work_that_is_rested_from():
    jobs, looking = [Seen("here"), Seen("here")], watcher.Watcher()
    drops = [looking.watch(one, lambda _error: None) for one in jobs]
    time.sleep(2.0)  # so long the first look takes
    opened = time.monotonic()
    for one in jobs:
        one.gate.set()
    until(lambda: all(one.looks >= 3 for one in jobs))
    assert time.monotonic() - opened < 5.0  # a rest of four times the waiting would take 8 s
    for drop in drops:
        drop()


@pytest.mark.parametrize("has_room", [True, False])
def test_a_job_that_goes_on_elsewhere_is_looked_at_there(monkeypatch, has_room):
    looking, moved, stays = watcher.Watcher(), Seen("here"), Seen("here")
    moved.gate.set()
    drops = [looking.watch(one, lambda _error: None) for one in (moved, stays)]
    until(lambda: moved.looks)
    if not has_room:
        monkeypatch.setattr(watcher, "begin", no_room)
    moved.platform = "there"
    stays.gate.set()
    before = moved.looks
    until(lambda: moved.looks > before + 20)
    assert ("there" in {one.name for one in looking._platforms.values() if one.watches}) == has_room
    stays.gate.clear()  # does not answer any more
    before = moved.looks
    if has_room:
        until(lambda: moved.looks > before + 20)
    stays.gate.set()
    for drop in drops:
        drop()
    until(lambda: not any(one.watches for one in looking._platforms.values()))


def no_room(_thread):
    raise RuntimeError("can't start new thread")


def test_who_finds_no_room_for_a_thread_leaves_nothing_behind(monkeypatch):
    looking, job, told = watcher.Watcher(), Seen("here"), []
    job.gate.set()
    with monkeypatch.context() as patch:
        patch.setattr(watcher, "begin", no_room)
        with pytest.raises(RuntimeError):
            looking.watch(job, told.append)
    drop = looking.watch(Seen("here", state=State.SUCCEEDED, gate=job.gate), told.append)
    until(lambda: told)
    drop()
    assert not job.looks


@attrs.define(eq=False)
class Interrupted(Seen):
    """A job that is to be started again, where that takes as long as its gate is shut."""

    state: State = State.INTERRUPTED
    restarts: int = 0

    def refresh(self):
        self.looks += 1

    def supervise(self):
        self.restarts += 1
        self.gate.wait()
        return False


def test_a_restart_that_takes_long_keeps_none_of_another_platform_waiting():
    hung, good, looking = Interrupted("there"), Interrupted("here"), watcher.Watcher()
    drops = [looking.watch(hung, lambda _error: None)]
    until(lambda: hung.restarts)
    good.gate.set()
    drops.append(looking.watch(good, lambda _error: None))
    until(lambda: good.restarts >= 3)
    assert hung.restarts == 1
    hung.gate.set()
    for drop in drops:
        drop()


def test_who_comes_after_the_last_one_waits_for_as_long_as_the_platform_asked():
    looking, jobs = watcher.Watcher(), []
    for _ in range(3):
        jobs.append(Seen("there", TransientError("too many calls", retry_after_s=3600.0)))
        jobs[-1].gate.set()
        drop = looking.watch(jobs[-1], lambda _error: None)
        until(lambda: jobs[0].looks)
        time.sleep(0.05)
        drop()
        until(lambda: not any(one.thread for one in looking._platforms.values()))
    assert [one.looks for one in jobs] == [1, 0, 0]


def test_a_finalizer_that_ends_a_watching_in_the_midst_of_a_round_ends_no_other():
    looking, kept, drops = watcher.Watcher(), Seen("here"), []
    kept.gate.set()
    others = [Seen("here", poll_s=3600.0) for _ in range(MANY)]
    for one in others:
        one.gate.set()
        drops.append(looking.watch(one, lambda _error: None))
    drops.append(looking.watch(kept, lambda _error: None))
    until(lambda: kept.looks)

    class Due(float):
        """Drops a watching as it is compared: a finalizer may run at any step."""

        def __le__(self, other):
            if drops[0] is not None:
                drop, drops[0] = drops[0], None
                drop()
            return super().__le__(other)

    with looking._lock:
        for one in looking._platforms["here"].watches.values():
            one.due = Due(one.due)
    before = kept.looks
    until(lambda: drops[0] is None and kept.looks > before + 5)
    for drop in drops[1:]:
        drop()


@pytest.mark.skipif(not hasattr(os, "fork"), reason="there are no forks here")
@pytest.mark.filterwarnings("ignore::DeprecationWarning")
def test_a_child_that_a_listener_forks_watches_nothing(tmp_path):
    looking, job, children, parent = watcher.Watcher(), Seen("here", poll_s=0.01), [], os.getpid()
    job.gate.set()

    def tell(_error):
        if os.getpid() != parent:
            with (tmp_path / "told").open("a") as file:
                file.write("x")
        elif not children:
            child = os.fork()
            if child:
                children.append(child)

    drop = looking.watch(job, tell)
    until(lambda: children and job.looks > 20)
    drop()
    time.sleep(0.5)
    for child in children:
        with contextlib.suppress(ProcessLookupError):
            os.kill(child, signal.SIGKILL)
        os.waitpid(child, 0)
    assert not (tmp_path / "told").exists()
