"""What several threads share: each has its answer, in order, also beside forks and handlers of signals."""

import os
import signal
import subprocess
import sys
import threading
import time

import pytest

from gputrain import threads
from gputrain.errors import RequestError
from gputrain.experiments.driver import Driver
from gputrain.gcp.shared import Shared
from gputrain.job.watcher import Watcher
from gputrain.lifecycle import State
from gputrain.threads import AT_ONCE, Bell, new_lock, side_by_side
from tests.struck import ends

PATIENCE_S = 10.0


class EndsAtOnce:
    """A job that has ended by its first look."""

    state = State.RUNNING
    platform = "here"
    poll_s = 0.001

    def refresh(self):
        self.state = State.SUCCEEDED

    def supervise(self):
        return False


def test_answers_come_in_the_order_of_the_questions_and_no_more_at_once_than_was_said():
    out, most, lock = set(), [], threading.Lock()

    def ask(number):
        with lock:
            out.add(number)
            most.append(len(out))
        time.sleep(0.01 * (number % 3))
        with lock:
            out.discard(number)
        return number

    assert side_by_side(ask, range(50)) == list(range(50))
    assert 1 < max(most) <= AT_ONCE
    most.clear()
    assert side_by_side(ask, range(9), 2) == list(range(9))
    assert max(most) == 2


@pytest.mark.parametrize("asked", [(), (1,), (1, 2)])
def test_few_questions_are_answered_as_many_are(asked):
    assert side_by_side(str, asked) == [str(one) for one in asked]


def test_the_first_error_is_raised_once_all_have_ended():
    ended, others = [], threading.Semaphore(0)

    def ask(number):
        if number == 1:
            for _ in (0, 2, 3):
                others.acquire()
        ended.append(number)
        others.release()
        if number:
            raise ValueError(number)

    with pytest.raises(ValueError, match="1"):
        side_by_side(ask, range(4))
    assert sorted(ended) == [0, 1, 2, 3]


def test_a_bell_is_heard_once_whether_it_rang_before_or_rings_meanwhile():
    bell = Bell()
    assert not bell.wait(0.0)
    bell.ring()
    bell.ring()
    assert [bell.wait(0.0), bell.wait(0.0)] == [True, False]
    threading.Timer(0.01, bell.ring).start()
    assert bell.wait()


def test_where_there_is_no_room_for_a_thread_all_are_asked_all_the_same():
    code = """
import resource, threading
from gputrain.threads import side_by_side
resource.setrlimit(resource.RLIMIT_AS, (1 << 29, 1 << 29))
threading.stack_size(1 << 29)
print(side_by_side(lambda n: n, range(20)) == list(range(20)))
"""
    done = subprocess.run([sys.executable, "-c", code], capture_output=True, text=True)
    assert (done.stdout, done.stderr) == ("True\n", "")


class DropsAnother(EndsAtOnce):
    """A job whose every look ends another watching, as a finalizer may in the midst of anything."""

    def __init__(self, drop):
        self._drop = drop

    @property
    def poll_s(self):
        self._drop()
        return 0.001


def test_what_ends_a_watching_in_the_midst_of_another_is_not_waited_for():
    watcher, told = Watcher(), []
    other = watcher.watch(EndsAtOnce(), lambda _error: None)
    assert ends(lambda: watcher.watch(DropsAnother(other), told.append))
    until = time.monotonic() + PATIENCE_S
    while not told and time.monotonic() < until:
        time.sleep(0.001)
    assert told == [None]


def test_who_handles_a_signal_may_ask_what_is_being_asked():
    shared = Shared(fresh_s=0.0)
    assert ends(lambda: shared.get("a", lambda: shared.get("a", lambda: 1) + 1))
    assert shared.get("b", lambda: shared.get("b", lambda: 1) + 1) == 2


def test_who_handles_a_signal_may_take_any_lock_that_is_held():
    lock = new_lock()

    def handled():
        with lock, lock:
            pass

    assert ends(handled)


@pytest.mark.skipif(not hasattr(os, "fork"), reason="there are no forks here")
@pytest.mark.filterwarnings("ignore::DeprecationWarning")
def test_a_process_that_is_forked_while_others_ask_can_ask():
    shared, lock, goes_on = Shared(fresh_s=60.0), new_lock(), threading.Event()

    def hold():
        with lock:
            shared.get("a", goes_on.wait)

    holder = threading.Thread(target=hold)
    holder.start()
    while not any(one.is_out for one in shared._flights.values()):
        time.sleep(0.001)
    child = os.fork()
    if child == 0:
        with lock:
            os._exit(shared.get("a", lambda: 7))
    try:
        assert ends(lambda: os.waitid(os.P_PID, child, os.WEXITED | os.WNOWAIT))
    finally:
        os.kill(child, signal.SIGKILL)
        status = os.waitpid(child, 0)[1]
        goes_on.set()
        holder.join()
    assert os.waitstatus_to_exitcode(status) == 7


def strike(_signal, _frame):
    raise KeyboardInterrupt


@pytest.mark.skipif(not hasattr(signal, "setitimer"), reason="there are no timers here")
def test_who_is_struck_as_he_waits_for_the_last_point_waits_for_it_the_next_time():
    ends_of, goes_on = [], threading.Event()

    def submit(_number, _stop):
        goes_on.wait()
        raise RequestError("there is no such point", fix="ask for another")

    driver = Driver(submit, [0], {}, 1, lambda number, job: ends_of.append((number, job)))
    driver.begin()
    before = signal.signal(signal.SIGALRM, strike)
    try:
        signal.setitimer(signal.ITIMER_REAL, 0.1)
        with pytest.raises(KeyboardInterrupt):
            driver.join()
    finally:
        signal.signal(signal.SIGALRM, before)
    threading.Timer(0.2, goes_on.set).start()
    driver.join()
    assert ends_of == [(0, None)]


@pytest.mark.skipif(not hasattr(os, "fork"), reason="there are no forks here")
@pytest.mark.filterwarnings("ignore::DeprecationWarning")
def test_who_forks_as_he_asks_goes_on_in_both():
    shared = Shared(fresh_s=60.0)
    parent, child = os.getpid(), None
    try:
        child = shared.get("a", os.fork)
    finally:
        if os.getpid() != parent:
            os._exit(7 if child == 0 and shared.get("b", lambda: True) else 1)
    assert os.waitstatus_to_exitcode(os.waitpid(child, 0)[1]) == 7


def test_locks_that_are_gone_are_forgotten_and_those_that_live_are_open_in_a_fork():
    kept = [threads.new_lock() for _ in range(10)]
    for _ in range(20 * threads.FEW):
        passing = [threads.new_lock() for _ in range(3)]
        kept.append(passing[0])
        del kept[10 : -threads.FEW // 2]
    assert len(threads._EveryLock.locks) < 8 * threads.FEW
    is_held, may_end = threading.Event(), threading.Event()

    def hold():
        with kept[0], kept[-1]:
            is_held.set()
            may_end.wait(60)

    holder = threading.Thread(target=hold)
    holder.start()
    assert is_held.wait(60)
    child = os.fork()
    if not child:
        os._exit(0 if all(one.acquire(blocking=False) for one in kept) else 1)
    may_end.set()
    holder.join()
    assert os.waitpid(child, 0)[1] == 0
