"""What several threads share outlives a Ctrl-C at any step of one of them: the next one has its answer."""

import contextlib
import threading
import time
from functools import partial

import pytest

from gputrain.errors import RequestError
from gputrain.experiments.driver import Driver
from gputrain.gcp.shared import Shared
from gputrain.job.watcher import Watcher
from gputrain.lifecycle import State
from gputrain.threads import AT_ONCE, Bell, side_by_side
from tests.struck import Struck, ends

PATIENCE_S = 10.0
IN_A_FINALIZER = pytest.mark.filterwarnings("ignore::pytest.PytestUnraisableExceptionWarning")
"""What is struck there is told nobody."""


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

    def again():
        before = len(ends_of)
        driver.again([0])
        while len(ends_of) == before:
            time.sleep(0.001)

    return again


def reading():
    return lambda: side_by_side(str, range(3))


@IN_A_FINALIZER
@pytest.mark.parametrize("made", [sharing, asking, watching, dropping, driving, reading])
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
    ended = []

    def ask(number):
        time.sleep(0.02 * number)
        ended.append(number)
        if number:
            raise ValueError(number)

    with pytest.raises(ValueError, match="1"):
        side_by_side(ask, range(4))
    assert ended == [0, 1, 2, 3]


def test_a_bell_is_heard_once_whether_it_rang_before_or_rings_meanwhile():
    bell = Bell()
    assert not bell.wait(0.0)
    bell.ring()
    bell.ring()
    assert [bell.wait(0.0), bell.wait(0.0)] == [True, False]
    threading.Timer(0.01, bell.ring).start()
    assert bell.wait()
