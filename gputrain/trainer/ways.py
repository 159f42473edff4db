"""Between the candidates of a plan and the rows of a record. Pure."""

from __future__ import annotations

from collections.abc import Iterable, Sequence
from datetime import datetime, timedelta, timezone

from gputrain.errors import Scope
from gputrain.planning import Attempt, Candidate, Outcome
from gputrain.records import Ask, Record, Way

FULL_FOR_S = 1800.0
"""How long a place that took a job and then had no machines is passed over by that job."""

_REFUSALS = {one.value: one for one in (Outcome.NO_ROOM, Outcome.NO_QUOTA, Outcome.NOT_HERE)}


def way_of(candidate: Candidate) -> Way:
    """The row that a record keeps of a candidate."""
    model = candidate.provisioning_model
    return Way(
        backend=candidate.backend,
        place=candidate.place,
        region=candidate.region,
        gpu=candidate.gpu or "",
        gpu_count=str(candidate.gpu_count),
        machine_type=candidate.machine_type,
        model=model.value if model else "",
    )


def in_order(found: Iterable[Candidate], ways: Sequence[Way]) -> tuple[Candidate, ...]:
    """Candidates in the order of a record's ladder; those that it does not know come last, as they were."""
    turns = {way: number for number, way in enumerate(ways)}
    return tuple(sorted(found, key=lambda one: turns.get(way_of(one), len(turns))))


def candidate_of(ask: Ask, found: Iterable[Candidate]) -> Candidate | None:
    """The candidate that an ask was for, if it is among these."""
    return next((one for one in found if way_of(one) == ask.way), None)


def lately_refused(
    record: Record, found: Sequence[Candidate], *, within_s: float = FULL_FOR_S
) -> tuple[Attempt, ...]:
    """What places of the present attempt that were asked so lately have answered, by the board's clock."""
    attempts = []
    for ask in record.asks:
        outcome, one = _REFUSALS.get(ask.answer), candidate_of(ask, found)
        is_fresh = ask.attempt == record.attempt and record.now - ask.at < within_s
        if outcome is not None and one is not None and is_fresh:
            at = datetime.fromtimestamp(0, timezone.utc) + timedelta(seconds=ask.at)
            attempts.append(
                Attempt(candidate=one, at=at, outcome=outcome, answer=ask.answer, scope=_scope(ask.scope))
            )
    return tuple(attempts)


def _scope(text: str) -> Scope:
    try:
        return Scope(text)
    except ValueError:
        return Scope.CALL
