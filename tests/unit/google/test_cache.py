"""Many threads, few calls: single flight, freshness, an end to what is kept; and questions side by side."""

import threading
import time
from concurrent.futures import ThreadPoolExecutor

import pytest

from gputrain.errors import AuthError
from gputrain.google.cache import Cache

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
        if isinstance(answer, BaseException):
            raise answer
        return answer

    return ask


def test_an_answer_is_good_for_its_time(clock):
    cache, calls = Cache(fresh_s=10, now=clock.now), []
    for pause_s, asked in ((0, 1), (0, 1), (9, 1), (1, 2)):
        clock.time += pause_s
        assert cache.get("a", counted(1, calls)) == 1
        assert len(calls) == asked


def test_threads_that_ask_at_the_same_time_share_one_call():
    calls, together = [], threading.Barrier(32)
    cache = Cache(fresh_s=10)

    def ask(_):
        together.wait(PATIENCE_S)
        return cache.get("a", lambda: calls.append(1) or time.sleep(0.05) or "told")

    with ThreadPoolExecutor(32) as pool:
        assert set(pool.map(ask, range(32))) == {"told"}
    assert len(calls) == 1


@pytest.mark.parametrize("fresh_s", [10, len])
def test_a_failure_is_raised_and_asked_anew(fresh_s):
    cache, calls = Cache(fresh_s=fresh_s), []
    for _ in range(2):
        with pytest.raises(AuthError):
            cache.get("a", counted(AuthError("no"), calls))
    assert len(calls) == 2
