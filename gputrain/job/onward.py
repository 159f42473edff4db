"""A job that a platform took and then found no machines or no quota for: it goes on by its plan."""

from __future__ import annotations

from datetime import datetime
from typing import Protocol

import attrs

from gputrain import causes
from gputrain.backends.base import Backend, JobRef
from gputrain.causes import Fault
from gputrain.errors import AccessError, NoPlacementError, RequestError, Scope
from gputrain.lifecycle import Observation, State
from gputrain.planning import Attempt, Candidate, Ledger, Outcome

_OUTCOMES = {Fault.CAPACITY: Outcome.NO_ROOM, Fault.QUOTA: Outcome.NO_QUOTA}
"""By whose fault it was that no rank ran."""

NOWHERE = (NoPlacementError, AccessError, RequestError)
"""What a climb raises that found no other place."""


class Placement(Protocol):
    """Where a job came to be, and how."""

    @property
    def ref(self) -> JobRef: ...

    @property
    def backend(self) -> Backend: ...

    @property
    def candidate(self) -> Candidate | None: ...

    @property
    def attempts(self) -> Ledger: ...


class Ways(Protocol):
    """The rest of a plan."""

    def are_left(self, attempts: Ledger) -> bool:
        """Whether some place may still be asked."""
        ...

    def go_on(self, attempts: Ledger) -> Placement:
        """Ask the places that are left. Raises one of `NOWHERE` where none takes the job."""
        ...


def late_refusal(
    seen: Observation, candidate: Candidate | None, attempts: Ledger, ways: Ways | None, at: datetime
) -> Attempt | None:
    """What a place that had taken the job says after all; None: no such thing, or no way is left."""
    fault = None if seen.failure is None else causes.of(seen.failure.kind).fault
    outcome = None if fault is None else _OUTCOMES.get(fault)
    is_late = seen.state is State.FAILED and seen.started_at is None
    if outcome is None or not is_late or candidate is None or ways is None:
        return None
    said = "no room" if outcome is Outcome.NO_ROOM else "its quota is too small"
    answer = f"{said} after all"
    late = Attempt(candidate=candidate, at=at, outcome=outcome, answer=answer, scope=Scope.REGION)
    return late if ways.are_left(Ledger((*attempts, late))) else None


def going_on(seen: Observation, late: Attempt) -> Observation:
    """The observation of such a job while the rest of its plan is left to try."""
    detail = f"{late.candidate.place}: {late.answer}; the next place of the plan is asked"
    return attrs.evolve(seen, state=State.INTERRUPTED, detail=detail, failure=None, ended_at=None)
