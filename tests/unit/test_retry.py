"""Passing failures are tried again within a budget, on any clock."""

import re
import threading
from pathlib import Path

import pytest

from gputrain import retry
from gputrain.errors import PermissionDeniedError, TransientError
from gputrain.retry import ONCE, Policy, retried


class Clock:
    """Seconds that only sleeping moves."""

    def __init__(self):
        self.now = 1000.0
        self.slept = []

    def sleep(self, seconds):
        self.slept.append(seconds)
        self.now += seconds

    def kit(self):
        return {"sleep": self.sleep, "now": lambda: self.now, "dice": lambda: 1.0}


def failing(times, error=None):
    left = [times]

    def call():
        if left[0]:
            left[0] -= 1
            raise error or TransientError("try again")
        return "done"

    return call


def test_a_passing_failure_is_tried_again():
    clock = Clock()
    assert retried(failing(3), **clock.kit()) == "done"
    assert clock.slept == [1.0, 2.0, 4.0]


def test_pauses_double_up_to_the_ceiling():
    clock = Clock()
    retried(failing(7), policy=Policy(most_s=8.0, budget_s=1000), **clock.kit())
    assert clock.slept == [1, 2, 4, 8, 8, 8, 8]


def test_other_errors_come_out_at_once():
    clock = Clock()
    with pytest.raises(PermissionDeniedError):
        retried(failing(1, PermissionDeniedError("no")), **clock.kit())
    assert clock.slept == []


def test_the_budget_ends_the_trying_with_the_last_error():
    clock = Clock()
    with pytest.raises(TransientError):
        retried(failing(1000), policy=Policy(budget_s=20), **clock.kit())
    assert sum(clock.slept) == 20


def test_a_sleep_that_moves_no_clock_still_ends():
    tries = []

    def call():
        tries.append(1)
        raise TransientError("again")

    with pytest.raises(TransientError):
        retried(call, policy=Policy(budget_s=60), sleep=lambda _: None, now=lambda: 0.0, dice=lambda: 1.0)
    assert len(tries) < 10


def test_time_spent_in_the_calls_counts():
    clock = Clock()

    def slow():
        clock.now += 15
        raise TransientError("again")

    with pytest.raises(TransientError):
        retried(slow, policy=Policy(budget_s=20), **clock.kit())
    assert sum(clock.slept) <= 5


def test_the_provider_says_how_long_to_wait():
    clock = Clock()
    retried(failing(1, TransientError("busy", retry_after_s=7.0)), **clock.kit())
    assert clock.slept == [8.0]  # 7 asked for and a second of jitter, so that waiters do not return as one


def test_a_wait_longer_than_the_budget_is_not_begun():
    clock = Clock()
    with pytest.raises(TransientError):
        retried(
            failing(1, TransientError("busy", retry_after_s=90)), policy=Policy(budget_s=60), **clock.kit()
        )
    assert clock.slept == []


def test_once_is_one_try():
    clock = Clock()
    with pytest.raises(TransientError):
        retried(failing(1), policy=ONCE, **clock.kit())
    assert clock.slept == []


def test_threads_do_not_disturb_each_other():
    results = []

    def work(number):
        clock = Clock()
        retried(failing(number), policy=Policy(budget_s=1e9), **clock.kit())
        results.append((number, len(clock.slept)))

    threads = [threading.Thread(target=work, args=(n,)) for n in range(16)]
    for thread in threads:
        thread.start()
    for thread in threads:
        thread.join()
    assert sorted(results) == [(n, n) for n in range(16)]


def test_a_limit_that_refills_in_time_is_waited_for():
    clock = Clock()
    assert retried(failing(2, TransientError("spent", refills_in_s=40.0)), **clock.kit()) == "done"
    assert clock.slept == [41.0, 41.0]


def test_a_limit_that_refills_too_late_is_tried_as_any_other_failure():
    clock = Clock()
    spent = TransientError("spent", refills_in_s=40.0)
    assert retried(failing(2, spent), policy=Policy(budget_s=20.0), **clock.kit()) == "done"
    assert clock.slept == [1.0, 2.0]


def test_what_is_repeated_stands_in_one_table():
    package = Path(retry.__file__).parent
    makers = {path.name for path in package.rglob("*.py") if re.search(r"\bPolicy\(", path.read_text())}
    assert makers == {"retry.py"}
