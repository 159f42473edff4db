"""What happens to a job, for programs, logs and traces: small, typed, and the same as JSON for ever."""

from __future__ import annotations

import logging
from collections.abc import Callable
from datetime import datetime
from typing import TYPE_CHECKING, Any, Literal

import attrs

from gputrain.display.table import TableDisplay
from gputrain.lifecycle import Failure, State
from gputrain.times import plain
from gputrain.tracing import trace

if TYPE_CHECKING:
    from gputrain.job.facts import Facts

VERSION = 1
Kind = Literal["seen", "state", "place"]


@attrs.frozen(kw_only=True)
class JobEvent(TableDisplay):
    """One change of a job.

    The first that a listener gets is ``seen``: how the job stands. Then one follows each change that a look
    met; what came and went between two looks is not told.
    """

    kind: Kind
    """``state``: it stands otherwise, or has started again. ``place``: it has gone on elsewhere."""
    uri: str
    id: str
    state: State
    place: str
    detail: str
    attempt: int
    """0 until it was started again."""
    cost_usd: float | None
    """US dollars so far; None: unknown."""
    failure: Failure | None
    at: datetime
    """When it was seen, by this machine's clock."""

    def to_dict(self) -> dict[str, Any]:
        """The event as JSON types, with a ``version``; times are ISO 8601."""
        return {"version": VERSION, **plain(self)}


Listener = Callable[[JobEvent], object]

log = logging.getLogger("gputrain")


class Changes:
    """Tells one job's changes apart: an event where something is other than it was."""

    def __init__(self, job: Facts, now: Callable[[], datetime]) -> None:
        self._job = job
        self._now = now
        self._last: JobEvent | None = None

    def telling(self, listener: Listener) -> Callable[[], None]:
        """What tells a listener of what has changed since it was called last; what it raises is logged."""

        def tell() -> None:
            event = self.next()
            if event is None:
                return
            try:
                listener(event)
            except Exception:
                log.exception("a listener failed; the job is watched on")

        return tell

    def next(self) -> JobEvent | None:
        """What has changed since the last call; None: nothing."""
        job, last = self._job, self._last
        place = job.place
        kind: Kind = "seen" if last is None else "place" if place != last.place else "state"
        if last is not None and (job.state, place, job.attempt) == (last.state, last.place, last.attempt):
            return None
        self._last = JobEvent(
            kind=kind,
            uri=job.uri,
            id=job.id,
            state=job.state,
            place=place,
            detail=job.detail,
            attempt=job.attempt,
            cost_usd=job.cost_usd,
            failure=job.failure,
            at=self._now(),
        )
        return self._last


def tell(job: Facts, before: State) -> None:
    """Log that a job stands otherwise; the record's ``gputrain`` holds the event as JSON types.

    Its end is traced as one span, from when ranks first ran to when it ended.
    """
    if log.isEnabledFor(logging.INFO):
        event = Changes(job, job.now).next()
        told = {} if event is None else {**event.to_dict(), "kind": "state", "before": before.value}
        log.info("%s is %s", job.id, job.state, extra={"gputrain": told})
    if job.state.is_terminal:
        facts = {"gputrain.job.uri": job.uri, "gputrain.job.state": job.state.value}
        trace("gputrain.job", job.started_at, job.ended_at, facts, is_error=job.state is not State.SUCCEEDED)
