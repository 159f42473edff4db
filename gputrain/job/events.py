"""Changes of a job, for programs, logs and traces."""

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
    from gputrain.job.job import Job

VERSION = 1
Kind = Literal["seen", "state", "place"]
log = logging.getLogger("gputrain")


@attrs.frozen(kw_only=True)
class JobEvent(TableDisplay):
    """One change of a job.

    The first that a listener gets is ``seen``: the present state. Then comes one for each change that a look
    found; what came and went between two looks is left out.
    """

    kind: Kind
    """``state``: it changed, or the job was started again. ``place``: it continues elsewhere."""
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


class Changes:
    """Finds what has changed of one job since the last call."""

    def __init__(self, job: Job) -> None:
        self._job = job
        self._last: JobEvent | None = None

    def telling(self, listener: Listener) -> Callable[[], None]:
        """Calls a listener with what has changed since the last call; what it raises is logged."""

        def tell() -> None:
            event = self.next()
            if event is not None:
                try:
                    listener(event)
                except Exception:
                    log.exception("a listener failed; the job is watched on")

        return tell

    def next(self) -> JobEvent | None:
        """What has changed since the last call; None: nothing."""
        job, last, place = self._job, self._last, self._job.place
        if last is not None and (job.state, place, job.attempt) == (last.state, last.place, last.attempt):
            return None
        self._last = JobEvent(
            kind="seen" if last is None else "place" if place != last.place else "state",
            uri=job.uri,
            id=job.id,
            state=job.state,
            place=place,
            detail=job.detail,
            attempt=job.attempt,
            cost_usd=job.cost_usd,
            failure=job.failure,
            at=job.now(),
        )
        return self._last


def log_change(job: Job, before: State) -> None:
    """Log a change of state; the log record's ``gputrain`` holds the event as JSON types.

    The end is traced as one span, from when ranks first ran to when the job ended.
    """
    if log.isEnabledFor(logging.INFO):
        event = Changes(job).next()
        facts = {} if event is None else {**event.to_dict(), "kind": "state", "before": before.value}
        log.info("%s is %s", job.id, job.state, extra={"gputrain": facts})
    if job.state.is_terminal:
        names = {"gputrain.job.uri": job.uri, "gputrain.job.state": job.state.value}
        trace("gputrain.job", job.started_at, job.ended_at, names, is_error=job.state is not State.SUCCEEDED)
