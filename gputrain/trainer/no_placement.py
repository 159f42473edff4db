"""The error of a submit that found no place: what was tried, what was ruled out, what to do. Pure."""

from __future__ import annotations

from collections.abc import Iterator, Sequence

from gputrain.errors import CapacityError, GputrainError, NoPlacementError, QuotaExceededError, Scope
from gputrain.planning import Candidate, Failover, Outcome, few_places, is_open
from gputrain.planning.failover import StopReason
from gputrain.quota import deciding
from gputrain.trainer.plan import Plan

_MORE_PLACES = "allow more GPU kinds, provisioning models or regions"
_WAIT = "give max_wait_duration to wait for room"


def placement_error(plan: Plan, ladder: Failover, reason: StopReason) -> GputrainError:
    """What to raise: the one answer there was, where there was one, or the whole story."""
    attempts = ladder.attempts
    if reason is StopReason.REFUSED and attempts[-1].error is not None:
        return attempts[-1].error
    tries = attempts.tries
    if not tries:
        return _every_quota_short(plan, ladder.candidates)
    only = tries[0]
    if len(tries) == 1 and only.error is not None and (only.outcome is not Outcome.NO_ROOM or only.is_final):
        return only.error
    error = NoPlacementError(
        f"no place for {plan.spec.title} after {len(tries)} tries: {reason.value}",
        why="\n".join(_story(ladder)),
        fix="; or ".join(_fixes(plan, ladder)),
        plan=plan,
        attempts=attempts,
    )
    error.__cause__ = attempts[-1].error
    return error


def _story(ladder: Failover) -> Iterator[str]:
    yield "what was tried"
    table = str(ladder.attempts.summary).splitlines()[1:]
    yield from (f"    {line}" for line in table)
    groups: dict[str, list[Candidate]] = {}
    for one in ladder.untried:
        what = f"{one.gpus} by {one.backend}: {_why_not(one)}"
        groups.setdefault(what, []).append(one)
    for what, places in groups.items():
        yield f"    not tried: {few_places(places)} for {what}"


def _why_not(one: Candidate) -> str:
    if is_open(one):
        return "ruled out by an answer above, or time was up"
    reading = deciding(one.fact.readings)
    if reading is None:
        return one.fact.absent_why or "its quota is too small"
    return str(reading)


def _fixes(plan: Plan, ladder: Failover) -> Iterator[str]:
    """What to do, the surest first, each once."""
    errors = [one.error for one in ladder.attempts if one.error is not None]
    others = [one for one in errors if not isinstance(one, CapacityError)]
    yield from dict.fromkeys(one.fix for one in others if one.fix)
    if not errors or any(one.scope is not Scope.ACCOUNT for one in errors):  # else no place is better
        yield _MORE_PLACES
    if len(others) < len(errors):
        yield _WAIT if plan.spec.max_wait_duration is None else "wait longer: a higher max_wait_duration"


def _every_quota_short(plan: Plan, candidates: Sequence[Candidate]) -> GputrainError:
    """No place was tried, because each would refuse: the first one's quota, in figures."""
    readings = [found for one in candidates if (found := deciding(one.fact.readings)) is not None]
    if not readings:
        title = plan.spec.title
        return NoPlacementError(
            f"nowhere to try {title}: every place is ruled out", fix=_MORE_PLACES, plan=plan
        )
    first = readings[0]
    return QuotaExceededError(
        f"every quota is too small for {plan.spec.title}; nothing was tried",
        why="\n       ".join(dict.fromkeys(map(str, readings))),
        fix=f"{first.fix}, or {_MORE_PLACES}",
        metric=first.metric,
        limit=first.limit,
        usage=first.usage,
        need=first.need,
        where=first.where,
    )
