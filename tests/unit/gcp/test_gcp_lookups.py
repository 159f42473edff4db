"""Questions asked side by side: once a minute, never waited for too long, shared by threads."""

import threading
import time

import pytest

from gputrain.errors import AuthError, TransientError
from gputrain.gcp.lookups import KEEP_FAILURE_S, KEEP_S, MOST_KEPT, Lookups

PATIENCE_S = 10.0


class Clock:
    """Seconds that a test moves."""

    def __init__(self):
        self.time = 1_000_000.0

    def now(self):
        return self.time


@pytest.fixture
def clock():
    return Clock()


def counted(answer, calls):
    def ask():
        calls.append(answer)
        if isinstance(answer, Exception):
            raise answer
        return answer

    return ask


def test_an_answer_is_kept_for_a_minute(clock):
    lookups, calls = Lookups(now=clock.now), []
    for pause_s, asked in ((0, 1), (KEEP_S - 1, 1), (2, 2)):
        clock.time += pause_s
        assert lookups.ask({"a": counted(1, calls)})["a"].value == 1
        assert len(calls) == asked


def test_a_failure_is_an_answer_of_its_own_and_kept_for_less(clock):
    lookups, calls = Lookups(now=clock.now), []
    error = AuthError("no")
    for pause_s, asked in ((0, 1), (KEEP_FAILURE_S - 1, 1), (2, 2)):
        clock.time += pause_s
        found = lookups.ask({"a": counted(error, calls)})["a"]
        assert (found.value, found.error) == (None, error)
        assert len(calls) == asked


def test_a_clock_that_went_back_keeps_nothing(clock):
    lookups, calls = Lookups(now=clock.now), []
    lookups.ask({"a": counted(1, calls)})
    clock.time -= 3600
    lookups.ask({"a": counted(1, calls)})
    assert len(calls) == 2


def test_all_questions_are_out_at_the_same_time():
    together = threading.Barrier(5)
    found = Lookups().ask({str(one): lambda: together.wait(PATIENCE_S) for one in range(5)})
    assert sorted(one.value for one in found.values()) == [0, 1, 2, 3, 4]


def test_what_is_not_answered_in_time_is_late_at_once_for_the_next_and_kept_when_it_comes():
    release = threading.Event()
    lookups = Lookups(wait_s=0.1)

    def ask():
        release.wait(PATIENCE_S)
        return "late"

    first = lookups.ask({"a": ask})["a"]
    assert isinstance(first.error, TransientError)
    before = time.monotonic()
    again = lookups.ask({"a": ask})["a"]
    assert isinstance(again.error, TransientError)
    assert time.monotonic() - before < 0.1
    release.set()
    until = time.monotonic() + PATIENCE_S
    while lookups.ask({"a": ask})["a"].value != "late":
        assert time.monotonic() < until


def test_a_mistake_in_a_question_is_raised_and_not_kept():
    lookups, calls = Lookups(), []
    for _ in range(2):
        with pytest.raises(KeyError):
            lookups.ask({"a": counted(KeyError("a mistake"), calls)})
    assert len(calls) == 2


def test_what_is_forgotten_is_asked_anew():
    lookups, calls = Lookups(), []
    for _ in range(2):
        lookups.ask({"a": counted(1, calls)})
        lookups.forget()
    assert len(calls) == 2


def test_old_answers_are_thrown_away(clock):
    lookups = Lookups(now=clock.now)
    for number in range(MOST_KEPT + 10):
        lookups.ask({str(number): lambda: 1})
    assert len(lookups._flights) == MOST_KEPT + 10  # all of them are fresh
    clock.time += KEEP_S
    lookups.ask({"new": lambda: 1})
    assert list(lookups._flights) == ["new"]
