"""How a job ended: well, as a `Result`; badly, as the error that says why."""

from __future__ import annotations

import re
from collections.abc import Callable, Iterable, Mapping
from datetime import datetime, timedelta
from functools import cached_property
from typing import Any

import attrs

from gputrain import causes
from gputrain.backends.base import LogLine
from gputrain.display.table import Table, TableDisplay
from gputrain.errors import JobError, JobFailedError
from gputrain.jobstore import JobRef
from gputrain.lifecycle import Failure, State
from gputrain.metrics import Metrics
from gputrain.spec import format_duration


@attrs.frozen(kw_only=True, slots=False)
class Result(TableDisplay):
    """How a job succeeded; what its ranks reported is read when it is first needed."""

    uri: str
    state: State
    duration: timedelta | None
    cost_usd: float | None
    """US dollars at the dated price; None: unknown."""
    attempt: int
    """0 where it was never restarted."""
    read: Callable[[], tuple[Metrics, float | None]] = attrs.field(repr=False, eq=False)
    """Reads what the script reported, and how busy the GPUs were."""

    @cached_property
    def _reported(self) -> tuple[Metrics, float | None]:
        return self.read()

    @property
    def metrics(self) -> Metrics:
        """What the script reported."""
        return self._reported[0]

    @property
    def gpu_busy(self) -> float | None:
        """The share of the GPUs' time, while ranks ran, in which kernels ran: 0 to 1; None: no GPU was seen.

        One small kernel is enough to make a GPU busy.
        """
        return self._reported[1]

    @property
    def table(self) -> Table:
        """How it ended, how long it took and what it cost."""
        took = "unknown" if self.duration is None else format_duration(self.duration)
        cost = "unknown" if self.cost_usd is None else f"{self.cost_usd:,.2f}"
        rows = [("state", self.state), ("uri", self.uri), ("took", took), ("cost $", cost)]
        rows += [("restarts", str(self.attempt))] if self.attempt else []
        return Table(title="Result", columns=("", " "), rows=rows)

    def __reduce__(self) -> tuple[Any, ...]:
        fields = {one.name: getattr(self, one.name) for one in attrs.fields(Result) if one.eq}
        return _with_reports, (fields, self._reported)


def _with_reports(fields: Mapping[str, Any], reported: tuple[Metrics, float | None]) -> Result:
    return Result(**fields, read=lambda: reported)


_OF_STATE = {State.CANCELLED: causes.CANCELLED, State.EXPIRED: causes.TIME_LIMIT}
"""Where a platform reports a state only."""
SILENT = timedelta(minutes=10)
"""A job whose ranks wrote nothing for so long before its time was up has most likely hung."""
_LAST_LINES = timedelta(seconds=60)
"""What ranks write once they are asked to stop does not count."""


def silent_for(lines: Iterable[LogLine], ended_at: datetime | None) -> timedelta | None:
    """How long before its end a job's ranks wrote their last line of their own accord; None: unknown."""
    if ended_at is None:
        return None
    times = (line.time for line in lines if line.rank is not None and line.time is not None)
    last = max((time for time in times if time <= ended_at - _LAST_LINES), default=None)
    return None if last is None else ended_at - last


def ended(
    ref: JobRef, state: State, failure: Failure | None, detail: str, silence: timedelta | None = None
) -> JobError:
    """The error of a job that ended without success.

    Args:
        ref, state: of the job.
        failure: the first cause, where it was reported.
        detail: what its platform says.
        silence: how long before its end a rank wrote its last line; None: unknown.
    """
    kind = _OF_STATE.get(state, causes.UNKNOWN).kind
    failure = failure or Failure(kind=kind, message=detail)
    cause = causes.of(failure.kind)
    if state is State.FAILED:
        where = "" if failure.rank is None else f" on rank {failure.rank}"
        if failure.rank is None and failure.node_rank is not None:
            where = f" on node {failure.node_rank}"
        facts = attrs.asdict(failure, recurse=False)
        what, why = f"{ref.name} failed{where}: {cause.title}", _beyond(cause.title, facts.pop("message"))
        fix = f"{cause.fix}; the whole log: `gputrain logs {ref.uri}`"
        return JobFailedError(what, why=why, fix=fix, uri=ref.uri, **facts)
    why, fix = _beyond(cause.title, detail or failure.message), cause.fix
    if cause is causes.TIME_LIMIT and silence is not None and silence >= SILENT:
        why = f"{why}; no rank had written a line for {format_duration(silence)}"
        fix = f"look for what it hung in, before you pay for more: `gputrain logs {ref.uri} --tail 50`"
    what = f"{ref.name} ended as {state.value}" + ("" if cause is causes.CANCELLED else f": {cause.title}")
    return JobError(what, why=why, fix=fix, uri=ref.uri, kind=failure.kind)


def _beyond(title: str, text: str) -> str:
    """A text that stands behind a cause's title; nothing, where each of its words stands there already."""
    known, words = (re.findall(r"\w+", one.lower().replace("ll", "l")) for one in (title, text))
    return text if set(words) - set(known) else ""
