"""Threads that ask at once share one call, and a failure is not kept."""

import threading
import time
from concurrent.futures import ThreadPoolExecutor

import pytest

from gputrain.errors import AuthError
from gputrain.google.cache import Cache


def test_threads_that_ask_at_the_same_time_share_one_call():
    calls, together = [], threading.Barrier(32)
    cache = Cache(fresh_s=10)

    def ask(_):
        together.wait(10)
        return cache.get("a", lambda: calls.append(1) or time.sleep(0.05) or "told")

    with ThreadPoolExecutor(32) as pool:
        assert set(pool.map(ask, range(32))) == {"told"}
    assert len(calls) == 1


def test_a_failure_is_raised_and_asked_anew():
    cache, calls = Cache(fresh_s=10), []

    def ask():
        calls.append(1)
        raise AuthError("no")

    for _ in range(2):
        with pytest.raises(AuthError):
            cache.get("a", ask)
    assert len(calls) == 2
