"""What a job's handle asks of whoever may start the job again, at another place or at the same."""

from __future__ import annotations

from typing import Protocol

import attrs

from gputrain.backends.base import Backend, JobRef
from gputrain.lifecycle import Observation
from gputrain.planning import Candidate, Ledger
from gputrain.records import Record


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


@attrs.frozen(kw_only=True)
class Step:
    """What came of going on."""

    placed: Placement | None
    """None: nothing has room now, or it may not."""
    attempts: Ledger
    """The whole ledger, with every place that was asked."""


class Going(Protocol):
    """The ways that are left to one job. A look asks `way_on` at most; the rest is for those who act."""

    def way_on(self, seen: Observation) -> str:
        """What comes next for a job that found no machines after all; empty where that is its end."""
        ...

    def go_on(self, seen: Observation, told: Ledger) -> Step:
        """Ask for it again, where that may be and something has room."""
        ...

    def tidy(self, ref: JobRef, backend: Backend, seen: Observation) -> None:
        """End what is left of it that cannot go on."""
        ...

    def cancel(self, ref: JobRef, backend: Backend) -> None:
        """End it, and have nobody start it again."""
        ...

    def record(self) -> Record | None:
        """What was asked for the job; None where nobody here keeps it, or may read it."""
        ...


class Stays:
    """For a handle that was made with nobody who could start the job again."""

    def way_on(self, seen: Observation) -> str:  # noqa: ARG002  # as of `Going`
        """Nothing."""
        return ""

    def go_on(self, seen: Observation, told: Ledger) -> Step:  # noqa: ARG002  # as of `Going`
        """Nowhere."""
        return Step(placed=None, attempts=told)

    def tidy(self, ref: JobRef, backend: Backend, seen: Observation) -> None:
        """Nothing is done."""

    def cancel(self, ref: JobRef, backend: Backend) -> None:
        """The backend ends it."""
        backend.cancel(ref)

    def record(self) -> Record | None:
        """None."""
        return None
