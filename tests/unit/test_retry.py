"""Passing failures are tried again within a budget, on any clock."""

import pytest

from gputrain.errors import TransientError
from gputrain.retry import Policy, retried


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


def test_the_budget_ends_the_trying_with_the_last_error():
    clock = Clock()
    with pytest.raises(TransientError):
        retried(failing(1000), policy=Policy(budget_s=20), **clock.kit())
    assert sum(clock.slept) == 20


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


def test_a_limit_that_refills_in_time_is_waited_for():
    clock = Clock()
    assert retried(failing(2, TransientError("spent", refills_in_s=40.0)), **clock.kit()) == "done"
    assert clock.slept == [41.0, 41.0]
