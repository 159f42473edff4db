"""Watches a job to its end: looks, shows what is new, pauses."""

from __future__ import annotations

import time
from collections.abc import Callable, Iterator
from typing import Protocol

import attrs

from gputrain import view
from gputrain.backends.base import JobRef
from gputrain.errors import JobTimeoutError, TransientError
from gputrain.job.logs import Page
from gputrain.lifecycle import Observation, State

BLIND_FOR_AT_MOST_S = 300.0
"""How long every look may fail, one after the other, before `Job.wait` gives up."""


class Watched(Protocol):
    """What watching needs of a job."""

    ref: JobRef

    @property
    def uri(self) -> str: ...

    @property
    def state(self) -> State: ...

    def refresh(self) -> Observation: ...

    def supervise(self) -> bool: ...


@attrs.frozen
class JobWatch:
    """One way of watching a job."""

    job: Watched
    news: Callable[[], Iterator[Page]]
    """Log lines that nobody has watched yet, a page at a time."""
    snapshot: Callable[[], view.Snapshot]
    poll_s: Callable[[], float]
    sleep: Callable[[float], None]

    def to_the_end(self, shown: view.View, limit_s: float | None) -> State:
        """Wait for the end; the answer is the terminal state.

        Raises:
            JobTimeoutError: the limit passed first.
            TransientError: the job could not be looked at for `BLIND_FOR_AT_MOST_S`.
        """
        started = last_sight = time.monotonic()
        is_seen = not isinstance(shown, view.Quiet)
        while True:
            pause = self.poll_s()
            try:
                self.job.refresh()
                self.job.supervise()
                for lines in self.news() if is_seen else ():
                    shown.lines(lines)
                last_sight = time.monotonic()
            except TransientError as error:
                if time.monotonic() - last_sight > BLIND_FOR_AT_MOST_S:
                    raise
                pause = max(pause, error.retry_after_s or 0.0)
            if is_seen:
                shown.status(self.snapshot())
            if self.job.state.is_terminal:
                return self.job.state
            if limit_s is not None and time.monotonic() - started > limit_s:
                raise self._too_long(limit_s)
            self.sleep(pause if limit_s is None else min(pause, limit_s))

    def _too_long(self, limit_s: float) -> JobTimeoutError:
        uri = self.job.uri
        return JobTimeoutError(
            f"{self.job.ref.name} is still {self.job.state.value} after {limit_s:g} s; it goes on",
            fix=f"wait longer, or later: gputrain.attach({uri!r}).wait()",
            uri=uri,
        )
