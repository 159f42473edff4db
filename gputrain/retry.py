"""Tries again what failed in passing. The only room that knows tenacity.

A policy is a value; clock, sleep and dice are parameters, so a test needs no patching and no waiting.
Only `TransientError` is tried again: whoever translates a provider's answers decides what is transient.
"""

from __future__ import annotations

import logging
import random
import time
from collections.abc import Callable
from typing import TYPE_CHECKING, TypeVar

import attrs

from gputrain.errors import TransientError

if TYPE_CHECKING:
    from tenacity import RetryCallState

T = TypeVar("T")
log = logging.getLogger("gputrain")


@attrs.frozen(kw_only=True)
class Policy:
    """How patiently a call is tried again: full jitter, doubling from ``first_s`` to ``most_s``.

    ``budget_s`` bounds the whole affair in seconds, the calls' own time included; 0 means one try.
    A provider's ``retry_after_s`` is obeyed, or ends the trying where it asks for more than is left. A limit
    that refills while there is time left is waited for.

    Source of the figures: Google's back-off requirements (1 s doubling to 32 s), read 2026-11-20.
    """

    first_s: float = 1.0
    most_s: float = 32.0
    budget_s: float = 300.0


READ = Policy(budget_s=300.0)
"""Calls that change nothing."""

WRITE = Policy(budget_s=120.0)
"""Calls that may be repeated: they carry a precondition or a request id."""

ONCE = Policy(budget_s=0.0)
"""One try."""


def retried(
    call: Callable[[], T],
    *,
    policy: Policy = READ,
    sleep: Callable[[float], None] = time.sleep,
    now: Callable[[], float] = time.monotonic,
    dice: Callable[[], float] = random.random,
) -> T:
    """What ``call`` returns, tried again while it raises `TransientError` and the budget lasts.

    Args:
        call: without arguments; must be safe to repeat.
        policy: how patiently.
        sleep: takes seconds.
        now: seconds of any clock that ``sleep`` moves.
        dice: a number from 0 to 1.

    Raises:
        TransientError: the last one, when the budget is spent. Any other error at once.

    >>> retried(lambda: 42)
    42
    """
    from tenacity import Retrying, retry_if_exception_type  # loaded with the first call that needs it

    started = now()

    def left_s(state: RetryCallState) -> float:
        # tenacity counts its own sleeps: with a sleep that moves no clock this still ends
        return policy.budget_s - max(now() - started, state.idle_for)

    def is_over(state: RetryCallState) -> bool:
        left = left_s(state)
        return left <= 0 or (_asked_s(state) or 0.0) > left

    def pause_s(state: RetryCallState) -> float:
        asked = _asked_s(state)
        refills = _refills_s(state)
        if asked is None and refills is not None and refills < left_s(state):
            asked = refills
        ceiling = min(policy.most_s, policy.first_s * 2.0 ** min(state.attempt_number - 1, 30))
        wanted = dice() * ceiling if asked is None else asked + dice() * policy.first_s
        return max(0.0, min(wanted, left_s(state)))

    again = Retrying(
        stop=is_over,
        wait=pause_s,
        retry=retry_if_exception_type(TransientError),
        sleep=sleep,
        before_sleep=_tell,
        reraise=True,
    )
    return again(call)


def _asked_s(state: RetryCallState) -> float | None:
    error = state.outcome.exception() if state.outcome else None
    return error.retry_after_s if isinstance(error, TransientError) else None


def _refills_s(state: RetryCallState) -> float | None:
    error = state.outcome.exception() if state.outcome else None
    return error.refills_in_s if isinstance(error, TransientError) else None


def _tell(state: RetryCallState) -> None:
    error = state.outcome.exception() if state.outcome else None
    pause = state.next_action.sleep if state.next_action else 0.0
    log.debug("try %d failed, the next in %.1f s: %s", state.attempt_number, pause, error)
