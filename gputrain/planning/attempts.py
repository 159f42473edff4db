"""What was tried, and what was answered: the ledger that failover decides by and a person reads. Pure."""

from __future__ import annotations

import enum
from datetime import datetime

import attrs

from gputrain.display.table import Table, TableDisplay
from gputrain.errors import (
    AccessError,
    CapacityError,
    GputrainError,
    QuotaExceededError,
    Scope,
    TransientError,
)
from gputrain.planning.candidates import Candidate, few_places
from gputrain.quota import deciding, explained

KEPT = 1000
"""The latest attempts that a ledger keeps: 40 places that are tried for two weeks would be 80,000."""
LONGEST_ANSWER = 110


class Outcome(enum.Enum):
    """What came of an attempt."""

    ACCEPTED = "accepted"
    NO_ROOM = "no room"
    NO_QUOTA = "no quota"
    NO_ACCESS = "no access"
    NOT_HERE = "not here"
    """The request does not suit this place, but may suit another."""
    UNCLEAR = "no clear answer"
    """Whether the job was made is not known yet: the same place must answer before another is tried."""
    REFUSED = "refused"
    """The request itself is at fault, or the answer is unknown: no other place is tried."""
    PASSED_OVER = "not tried"
    """Its quota was read to be too small."""


_FINAL = frozenset({Outcome.NO_ACCESS, Outcome.NOT_HERE, Outcome.REFUSED})


@attrs.frozen(kw_only=True)
class Attempt(TableDisplay):
    """One candidate that was tried: when, and what was answered."""

    candidate: Candidate
    at: datetime
    outcome: Outcome
    answer: str
    """For people, in one line."""
    scope: Scope = Scope.CALL
    """How far a refusal reaches."""
    zones_available: tuple[str, ...] = ()
    """The zones that Google named instead."""
    limit: float | None = None
    """Of the quota that was too small; None: unknown."""
    error: GputrainError | None = attrs.field(default=None, eq=False, repr=False)
    """The whole refusal, Google's payload in its ``raw``."""

    def __str__(self) -> str:
        return " ".join(_row(self))

    @property
    def is_final(self) -> bool:
        """Whether waiting does not help: no access, say, or a quota of nothing."""
        is_lasting = isinstance(self.error, CapacityError) and self.error.is_lasting
        return is_lasting or self.outcome in _FINAL or (self.outcome is Outcome.NO_QUOTA and self.limit == 0)


def refused(candidate: Candidate, error: GputrainError, at: datetime) -> Attempt:
    """The attempt that ended in an error, read by its class, its scope and its facts.

    An exceeded quota also names what the plan had read of it.
    """
    error = explained(error, candidate.fact.readings)
    outcome = _outcome_of(error)
    return Attempt(
        candidate=candidate,
        at=at,
        outcome=outcome,
        answer=_answer(candidate, error, outcome),
        scope=error.scope,
        zones_available=getattr(error, "zones_available", ()),
        limit=getattr(error, "limit", None),
        error=error,
    )


def passed_over(candidate: Candidate, at: datetime) -> Attempt:
    """The note that a candidate was not tried, with the quota that is too small for it."""
    reading = deciding(candidate.fact.readings)
    why = "its quota is too small" if reading is None else str(reading)
    return Attempt(candidate=candidate, at=at, outcome=Outcome.PASSED_OVER, answer=f"not tried: {why}")


def _outcome_of(error: GputrainError) -> Outcome:
    if isinstance(error, CapacityError):
        return Outcome.NO_ROOM
    if isinstance(error, QuotaExceededError):
        return Outcome.NO_QUOTA
    if isinstance(error, AccessError) and not error.try_elsewhere:
        return Outcome.NO_ACCESS
    if isinstance(error, TransientError):
        return Outcome.UNCLEAR
    return Outcome.NOT_HERE if error.try_elsewhere else Outcome.REFUSED


def _answer(candidate: Candidate, error: GputrainError, outcome: Outcome) -> str:
    if isinstance(error, CapacityError) and not error.is_lasting:
        named = ", ".join(error.zones_available)
        return "no room" + (f"; there may be some in {named}" if named else "")
    if isinstance(error, QuotaExceededError):
        where = "all regions" if error.scope is Scope.PROJECT else error.where or candidate.region
        metric = error.metric.rpartition("/")[2] or "a quota"
        limit = "is too small" if error.limit is None else f"is {error.limit:g}"
        return f"{metric} {limit} in {where}; the job needs {candidate.gpus_needed:g} GPUs"
    text = " ".join((error.why or error.what).split())
    outcome = Outcome.NOT_HERE if outcome is Outcome.NO_ROOM else outcome  # for good, of this machine only
    return f"{outcome.value}: {text if len(text) <= LONGEST_ANSWER else text[: LONGEST_ANSWER - 3] + '...'}"


class Ledger(TableDisplay, tuple[Attempt, ...]):
    """Attempts, oldest first. It shows itself as a table."""

    __slots__ = ()

    @property
    def table(self) -> Table:
        """One row for each place that was tried, or passed over."""
        return Table(title="Attempts", columns=_COLUMNS, rows=map(_row, self), caption=self._span)

    @property
    def summary(self) -> Table:
        """As `table`, with all places and rounds of one answer in a row."""
        groups: dict[tuple[str, ...], list[Attempt]] = {}
        for one in self:
            answer = "no room" if one.outcome is Outcome.NO_ROOM else one.answer
            _, backend, _, gpus, model, _ = _row(one)
            groups.setdefault((backend, gpus, model, answer), []).append(one)
        rows = [
            (
                f"{min(one.at for one in alike):%H:%M}", f"{alike[-1].at:%H:%M}",
                str(len(Ledger(alike).tries) or ""), backend,
                few_places([one.candidate for one in alike]), gpus, model, answer,
            )
            for (backend, gpus, model, answer), alike in groups.items()
        ]  # fmt: skip
        columns = ("from", "to", "tries", *_COLUMNS[1:])
        return Table(title="Attempts", columns=columns, rows=rows, right=("tries",), caption=self._span)

    @property
    def tries(self) -> tuple[Attempt, ...]:
        """Those that were tried; the rest was passed over."""
        return tuple(one for one in self if one.outcome is not Outcome.PASSED_OVER)

    @property
    def _span(self) -> str:
        if not self:
            return "nothing was tried"
        tries, since = len(self.tries), min(one.at for one in self)
        return f"{tries} {'try' if tries == 1 else 'tries'} on {since:%Y-%m-%d}, times in UTC"


_COLUMNS = ("at", "backend", "place", "runs on", "model", "answer")


def _row(one: Attempt) -> tuple[str, ...]:
    where, model = one.candidate, one.candidate.provisioning_model
    return (
        f"{one.at:%H:%M:%S}",
        where.backend,
        where.place,
        where.gpus,
        model.value if model else "own",
        one.answer,
    )
