"""What is due for a job that cannot stay where it was asked for, and when. Pure."""

from __future__ import annotations

import math

import attrs

from gputrain import causes
from gputrain.backends.base import Request
from gputrain.causes import Blame
from gputrain.errors import Scope
from gputrain.lifecycle import Observation, State
from gputrain.planning import Candidate, Outcome
from gputrain.planning.ladder import FIRST_REST, LONGEST_REST
from gputrain.records import Record


@attrs.frozen(kw_only=True)
class Next:
    """What to do about a job that cannot stay where it was asked for."""

    record: Record
    """As it is once the latest ask is answered."""
    attempt: int
    told: str
    """For the ledger, of the place that it leaves."""
    is_late: bool = False
    """It was taken, and found no machines."""
    shared: tuple[Candidate, Request] | None = None
    """Nobody knows what came of the latest ask, and this is that ask again."""


LATE = {Outcome.NO_ROOM.value: Outcome.NO_ROOM, Outcome.NO_QUOTA.value: Outcome.NO_QUOTA}
"""Answers of places that had taken a job, and found no machines."""


def is_late(seen: Observation) -> bool:
    """Whether a place that had taken the job says after all that it has no machines or quota for it."""
    if seen.failure is None or seen.state is not State.FAILED or seen.started_at is not None:
        return False
    return causes.of(seen.failure.kind).fault in (Blame.CAPACITY, Blame.QUOTA)


def has_left(seen: Observation, record: Record) -> bool:
    """Whether what was seen is of an ask that others have left: they have asked again since."""
    return bool(seen.ask) and seen.ask != record.latest.nonce


def is_placeless(seen: Observation) -> bool:
    """Whether what was seen may be no end: `is_late`, or it was withdrawn before it ran."""
    is_withdrawn = seen.state is State.CANCELLED and seen.started_at is None and bool(seen.ask)
    return is_withdrawn or is_late(seen)


def late(record: Record, seen: Observation) -> Next:
    """What to do about one whose place says so."""
    assert seen.failure is not None
    is_quota = causes.of(seen.failure.kind).fault is Blame.QUOTA
    outcome = Outcome.NO_QUOTA if is_quota else Outcome.NO_ROOM
    said = "its quota is too small after all" if is_quota else "no room after all"
    answered = record.answered(outcome.value, Scope.REGION.value)
    answered = attrs.evolve(answered, waiting_since=record.waiting_since or record.latest.at)
    return Next(record=answered, attempt=record.attempt, told=said, is_late=True)


def end_of_wait(record: Record, since: float, *, has_run: bool) -> str:
    """Why a job that no place had room for waits no longer; empty where it does."""
    longest = record.training_spec.max_wait_duration
    if longest is None:
        return "" if has_run else causes.STOCKOUT_REGION.kind
    return causes.WAIT_LIMIT.kind if record.now - since > longest.total_seconds() else ""


def rest_s(record: Record) -> float:
    """Seconds between two rounds for a job without room: as long as it has waited, in the ladder's bounds.

    By the record's clock, so that however many watch it, one of them asks.
    """
    waited_s = record.written_at - record.waiting_since if record.waiting_since else 0.0
    longest = None if record.unread else record.training_spec.max_wait_duration
    left_s = math.inf if longest is None else longest.total_seconds() - waited_s
    rest_s = min(max(FIRST_REST.total_seconds(), waited_s), LONGEST_REST.total_seconds())
    return max(1.0, min(rest_s, left_s))
