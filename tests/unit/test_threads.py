"""What several threads share outlives a Ctrl-C at any step of one of them: the next one has its answer."""

import contextlib
import os
import signal
import subprocess
import sys
import threading
import time
from functools import partial

import pytest

from gputrain import threads
from gputrain.errors import RequestError
from gputrain.experiments.driver import Driver
from gputrain.gcp.shared import Kept, Shared
from gputrain.job.watcher import Watcher
from gputrain.lifecycle import State
from gputrain.threads import AT_ONCE, Bell, aside, await_end, begin, new_lock, side_by_side
from tests.each import each
from tests.struck import LOOKS, Struck, ends

PATIENCE_S = 10.0
IN_A_FINALIZER = pytest.mark.filterwarnings(
    "ignore::pytest.PytestUnraisableExceptionWarning", "ignore::pytest.PytestUnhandledThreadExceptionWarning"
)
"""What is struck there, or in leaving what strikes, is told nobody."""


class EndsAtOnce:
    """A job that has ended by its first look."""

    state = State.RUNNING
    platform = "here"
    poll_s = 0.001

    def refresh(self):
        self.state = State.SUCCEEDED

    def supervise(self):
        return False


def sharing():
    shared = Shared(fresh_s=0.0)
    return lambda: shared.get("a", time.monotonic)


def asking():
    shared = Shared(fresh_s=0.0, wait_s=PATIENCE_S)

    def ask():
        found = shared.ask({"a": time.monotonic, "b": time.monotonic})
        assert {one.error for one in found.values()} == {None}

    return ask


def watching():
    watcher = Watcher()

    def watch():
        told = []
        watcher.watch(EndsAtOnce(), told.append)
        while not told:
            time.sleep(0.001)

    return watch


def dropping():
    watch, watcher = watching(), Watcher()

    def drop():
        watcher.watch(EndsAtOnce(), lambda _error: None)()
        watch()

    return drop


def driving():
    ends_of = []
    no = RequestError("there is no such point", fix="ask for another")

    def submit(_number, _stop):
        raise no

    driver = Driver(submit, [0], {}, 1, lambda number, job: ends_of.append((number, job)))
    driver.begin()

    def again():
        before = len(ends_of)
        driver.again([0])
        while len(ends_of) == before:
            time.sleep(0.001)

    return again


def reading():
    return lambda: side_by_side(str, range(3))


@IN_A_FINALIZER
@each("made", [sharing, asking, watching, dropping, driving, reading])
def test_a_ctrl_c_at_any_step_bars_nobody_later(made):
    act = made()
    act()
    with Struck() as whole:
        act()

    def struck(step):
        with contextlib.suppress(KeyboardInterrupt), Struck(step):
            act()

    assert len(whole.files) > 10
    for step in range(1, len(whole.files) + 1):
        assert ends(partial(struck, step)), step
        assert ends(act), step


@IN_A_FINALIZER
def test_a_ctrl_c_while_others_are_asked_is_told_as_nothing_else():
    with Struck() as whole:
        side_by_side(str, range(3))
    for step in range(1, len(whole.files)):
        with contextlib.suppress(KeyboardInterrupt), Struck(step):
            assert side_by_side(str, range(3)) == ["0", "1", "2"]


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


class Points:
    """A driver whose points fail, one after the other, and how many of them were out at once."""

    def __init__(self):
        self.out, self.most = [], 0
        self.driver = Driver(self._submit, [], {}, 1, lambda *_: None)
        self.driver.begin()

    def _submit(self, number, _stop):
        self.out.append(number)
        self.most = max(self.most, len(self.out))
        time.sleep(0.002)
        self.out.remove(number)
        raise RequestError("there is no such point", fix="ask for another")

    def has(self, number):
        until = time.monotonic() + PATIENCE_S
        while number not in self.driver.errors and time.monotonic() < until:
            time.sleep(0.001)
        return number in self.driver.errors


@IN_A_FINALIZER
def test_a_driver_whose_start_was_struck_submits_one_point_at_a_time():
    first = Points()
    with Struck() as whole:
        first.driver.again([0, 1, 2])
    for step in range(1, len(whole.files) + 1):
        points = Points()
        with contextlib.suppress(KeyboardInterrupt), Struck(step):
            points.driver.again([0, 1, 2])
        points.driver.again([3])
        assert points.has(3), step
        assert points.most == 1, step


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


class Handled:
    """Calls something at the n-th step of what it is around, as the handler of a signal is called."""

    def __init__(self, at, act):
        self.steps, self._at, self._act = 0, at, act

    def __enter__(self):
        sys.setprofile(self._step)
        return self

    def __exit__(self, *_):
        sys.setprofile(None)

    def _step(self, _frame, event, _argument):
        if event in LOOKS:
            self.steps += 1
            if self.steps == self._at:
                self._act()


def filled():
    kept = Kept(most=2)
    for key in "abc":
        kept.put(key, key)
    return kept


def sharing_two():
    shared = Shared(fresh_s=60.0, most=2)
    for key in "ab":
        shared.get(key, lambda: 0)
    return shared


@each("handled", ["get", "put", "drop", "items"])
@each("asked", ["get", "put", "items"])
def test_what_is_kept_may_be_asked_for_by_who_handles_a_signal_at_any_step(asked, handled):
    arguments = {"get": ("b",), "put": ("d", "d"), "drop": ("b",), "items": ()}
    at_step(filled, lambda kept, name: getattr(kept, name)(*arguments[name]), asked, handled)


@pytest.mark.parametrize("handled", ["get", "forget"])
def test_what_is_shared_may_be_asked_for_by_who_handles_a_signal_at_any_step(handled):
    arguments = {"get": ("c", lambda: 0), "forget": ()}
    at_step(sharing_two, lambda shared, name: getattr(shared, name)(*arguments[name]), "get", handled)


def at_step(made, act, asked, handled):
    one = made()
    with Handled(0, None) as whole:
        act(one, asked)
    for step in range(1, whole.steps + 1):
        one = made()
        with Handled(step, lambda one=one: act(one, handled)):
            act(one, asked)


@pytest.mark.check
@IN_A_FINALIZER
def test_a_thread_whose_start_was_struck_is_not_waited_for():
    with Struck() as whole:
        begin(aside(int, "counts"))
    for step in range(1, len(whole.files)):
        thread = aside(int, "counts")
        with contextlib.suppress(KeyboardInterrupt), Struck(step):
            begin(thread)
        assert ends(partial(await_end, thread))


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


def test_locks_that_are_gone_leave_no_words_of_python_to_be_struck_and_take_no_room():
    for _ in range(100):
        new_lock()
    before = len(threads._EveryLock.locks)
    with Struck() as whole:
        for _ in range(10_000):
            new_lock()
    assert len(threads._EveryLock.locks) - before < 100
    assert not [one for one in whole.files if "weakref" in one]  # it would swallow a Ctrl-C


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
