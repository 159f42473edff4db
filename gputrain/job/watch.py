"""Watches a job to its end: looks, shows what is new, pauses.

Below it a job's end as a future, and its changes told to a listener, by the thread that all handles share.
"""

from __future__ import annotations

import threading
import time
from collections.abc import Callable, Iterator
from concurrent.futures import Future, InvalidStateError
from contextlib import suppress
from types import TracebackType
from typing import Protocol

import attrs

from gputrain import view
from gputrain.backends.base import JobRef
from gputrain.errors import JobTimeoutError, StoppedError, TransientError
from gputrain.job.events import Changes, Listener
from gputrain.job.reading import Page
from gputrain.job.result import Result
from gputrain.job.watcher import BLIND_FOR_AT_MOST_S, WATCHER, StopEvent, Watchable, pause_s
from gputrain.lifecycle import State

STOP_WITHIN_S = 0.05
"""How soon a waiting ends that is told to stop."""


def pausing(stop: StopEvent) -> Callable[[float], None]:
    """A sleep that ends, with StoppedError, as soon as the event is set."""

    def pause(seconds: float) -> None:
        if stop.wait(seconds):
            raise StoppedError("the waiting was stopped", fix="wait again whenever you like")

    return pause


class Watched(Watchable, Protocol):
    """What watching needs of a job."""

    ref: JobRef

    @property
    def uri(self) -> str: ...


@attrs.frozen
class JobWatch:
    """One way of watching a job."""

    job: Watched
    news: Callable[[], Iterator[Page]]
    """Log lines that nobody has watched yet, a page at a time."""
    snapshot: Callable[[], view.Snapshot]
    sleep: Callable[[float], None]
    looked: Callable[[], None] | None = None
    """Called after each look."""

    def to_the_end(self, shown: view.View, limit_s: float | None) -> State:
        """Wait for the end; the answer is the terminal state.

        Raises:
            JobTimeoutError: the limit passed first.
            TransientError: the job could not be looked at for `BLIND_FOR_AT_MOST_S`.
        """
        started = last_sight = time.monotonic()
        is_seen = not isinstance(shown, view.Quiet)
        while True:
            pause = pause_s(self.job.poll_s, time.monotonic() - started)
            try:
                self.job.refresh()
                if self.looked is not None:
                    self.looked()
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

    def aside(self, stop: StopEvent, limit_s: float | None) -> State:
        """As `to_the_end` in silence, with the looks in the thread that all share.

        Raises:
            StoppedError: the event was set first.
        """
        started, over = time.monotonic(), threading.Event()
        errors: list[Exception] = []

        def tell(error: Exception | None) -> None:
            if error is not None:
                errors.append(error)
            elif self.looked is not None:
                self.looked()
            if error is not None or self.job.state.is_terminal:
                over.set()

        drop = WATCHER.watch(self.job, tell)
        try:
            while not over.wait(STOP_WITHIN_S):
                if stop.is_set():
                    self.sleep(0.0)
                if limit_s is not None and time.monotonic() - started > limit_s:
                    raise self._too_long(limit_s)
        finally:
            drop()
        if errors:
            raise errors[0]
        return self.job.state

    def _too_long(self, limit_s: float) -> JobTimeoutError:
        uri = self.job.uri
        return JobTimeoutError(
            f"{self.job.ref.name} is still {self.job.state.value} after {limit_s:g} s; it goes on",
            fix=f"wait longer, or later: gputrain.attach({uri!r}).wait()",
            uri=uri,
        )


class JobFuture(Future[Result]):
    """One caller's future of a job's result: cancelling it ends this caller's watching, and nothing else."""

    def __init__(self) -> None:
        super().__init__()
        self._drop: Callable[[], None] = lambda: None

    @classmethod
    def of(cls, job: Watchable, outcome: Callable[[], Result]) -> JobFuture:
        """The future; ``outcome`` gives the result of a job that has ended, or raises why there is none."""
        future = cls()

        def tell(error: Exception | None) -> None:
            if error is None and not job.state.is_terminal:
                return
            with suppress(InvalidStateError):  # its owner has just cancelled it
                try:
                    if error is not None:
                        raise error
                    future.set_result(outcome())
                except InvalidStateError:
                    raise
                except Exception as why:  # noqa: BLE001  # whatever it is, whoever waits is told
                    future.set_exception(why)

        if job.state.is_terminal:
            tell(None)
        else:
            future._drop = WATCHER.watch(job, tell)
        return future

    def cancel(self) -> bool:
        """StopEvent waiting for the job, which goes on."""
        self._drop()
        is_cancelled = super().cancel()
        if is_cancelled:  # else those who wait for several futures would never hear of it
            with suppress(InvalidStateError, RuntimeError):
                self.set_running_or_notify_cancel()
        return is_cancelled


class Watching:
    """A listener that is told of changes; `close`, or the end of a ``with``, ends the telling."""

    def __init__(self, drop: Callable[[], None]) -> None:
        self._drop = drop

    @classmethod
    def of(cls, job: Watchable, changes: Changes, listener: Listener) -> Watching:
        """Tell a listener of one job's changes, until it ends."""

        tell = changes.telling(listener)
        return cls(WATCHER.watch(job, lambda _error: tell()))

    def close(self) -> None:
        """Tell nothing more."""
        self._drop()

    def __enter__(self) -> Watching:
        return self

    def __exit__(
        self, kind: type[BaseException] | None, error: BaseException | None, trace: TracebackType | None
    ) -> None:
        self.close()
