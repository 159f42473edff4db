"""Repeats calls that failed with a `TransientError`, by a policy; tenacity does the repeating.

Clock, sleep and dice are parameters, so a test needs no patching and no waiting.
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
    call_s: float = 60.0
    """How long a single try may take, to the last byte of its answer."""
    repeats_unclear: bool = True
    """Whether a call is repeated that may have been done: False for writes that would do it twice."""


READ = Policy()
"""Changes nothing, and much depends on it: an upload, a record, a list that decides."""

LOOK = Policy(budget_s=20.0, call_s=20.0)
"""Changes nothing; where it fails for longer, the watcher repeats it."""

SOON = Policy(first_s=0.3, most_s=1.0, budget_s=2.0, call_s=6.0)
"""Changes nothing, and somebody sits before it: a plan that is made offline should not wait for long."""

PATIENT = Policy(budget_s=4.0, call_s=10.0)
"""Changes nothing, and counts as unknown without an answer. An answer may be slow."""

GLANCE = Policy(budget_s=0.0, call_s=5.0)
"""Changes nothing, and the caller does without: one short try."""

WRITE = Policy(budget_s=120.0)
"""Changes something, and is safe to repeat: it carries a precondition, a request id or our name."""

CREATE = Policy(budget_s=100.0, repeats_unclear=False)
"""Changes something, and twice is twice: tried again only where it was refused for coming too fast."""

ONCE = Policy(budget_s=0.0)
"""Changes something, and may not be safe to repeat: one try."""

TOLD_S = 5.0
"""After how many seconds a person reads what keeps them waiting."""


def retried(
    call: Callable[[], T],
    *,
    policy: Policy = READ,
    unless: tuple[type[Exception], ...] = (),
    sleep: Callable[[float], None] = time.sleep,
    now: Callable[[], float] = time.monotonic,
    dice: Callable[[], float] = random.random,
    tell: Callable[[str], None] = log.debug,
) -> T:
    """What ``call`` returns, tried again while it raises `TransientError` and the budget lasts.

    Args:
        policy: how patiently; its ``call_s`` and ``repeats_unclear`` are for the caller.
        unless: those of the transient errors after which it is not safe to repeat.
        now: seconds of any clock that ``sleep`` moves.
        dice: a number from 0 to 1.
        tell: takes a line for people with each failure after the first `TOLD_S`.

    Raises:
        TransientError: the last one, when the budget is spent. Any other error at once.

    >>> retried(lambda: 42)
    42
    """
    from tenacity import Retrying, retry_if_exception

    began = now()

    def left_s(state: RetryCallState) -> float:
        return policy.budget_s - max(now() - began, state.idle_for)  # a test's sleep may move no clock

    def is_over(state: RetryCallState) -> bool:
        left = left_s(state)
        return left <= 0 or (_error(state).retry_after_s or 0.0) > left

    def pause_s(state: RetryCallState) -> float:
        error, left = _error(state), left_s(state)
        asked_s = error.retry_after_s
        if asked_s is None and error.refills_in_s is not None and error.refills_in_s < left:
            asked_s = error.refills_in_s
        ceiling_s = min(policy.most_s, policy.first_s * 2.0 ** min(state.attempt_number - 1, 30))
        wanted = dice() * ceiling_s if asked_s is None else asked_s + dice() * policy.first_s
        return max(0.0, min(wanted, left))

    def before_sleep(state: RetryCallState) -> None:
        left = left_s(state)
        log.debug("tried in vain, and %.1f s are left: %s", left, _error(state))
        if left < policy.budget_s - TOLD_S:
            tell(f"{_error(state).what}; it is tried again for {left:.0f} s at most")

    passing = retry_if_exception(lambda one: isinstance(one, TransientError) and not isinstance(one, unless))
    return Retrying(
        stop=is_over, wait=pause_s, retry=passing, sleep=sleep, before_sleep=before_sleep, reraise=True
    )(call)


def _error(state: RetryCallState) -> TransientError:
    error = state.outcome.exception() if state.outcome else None
    assert isinstance(error, TransientError)  # nothing else is tried again
    return error
