"""Changes of jobs, for listeners and futures: one thread for each platform looks at all its jobs.

A platform that answers slowly does not delay the jobs of another. The threads are daemons and hold no job:
to stop watching, or to end the process, stops nothing else.
"""

from __future__ import annotations

import logging
import threading
import time
from collections import deque
from collections.abc import Callable
from concurrent.futures import Future, InvalidStateError
from contextlib import suppress
from datetime import datetime
from functools import partial
from typing import TYPE_CHECKING, Any, Literal, Protocol

import attrs

from gputrain.display.table import TableDisplay
from gputrain.errors import JobLostError, StoppedError, TransientError
from gputrain.job.result import Result
from gputrain.lifecycle import Failure, State
from gputrain.times import plain
from gputrain.tracing import trace

if TYPE_CHECKING:
    from gputrain.job.job import Job

log = logging.getLogger("gputrain")

VERSION = 1
"""Of an event's document."""
STOP_WITHIN_S = 0.05
"""How soon a set event ends a wait."""
BLIND_FOR_AT_MOST_S = 300.0
"""How long every look may fail, one after the other, before `Job.wait` gives up."""
AGAIN_S = 30.0
"""How soon a job is inspected again after a refusal: somebody logs in, or grants what is missing."""
LONGEST_PAUSE_S = 0.3
"""A platform whose looks cost nothing is looked at at least that often."""
EACH_S = 0.008
"""How much each job adds to the time between two looks at its platform: a thousand add 8 s."""


@attrs.frozen(kw_only=True)
class JobEvent(TableDisplay):
    """One change of a job.

    The first that a listener gets is ``seen``: the present state. Then comes one for each change that a look
    found; what came and went between two looks is left out.
    """

    kind: Literal["seen", "state", "place"]
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

    @classmethod
    def of(cls, job: Job, last: JobEvent | None = None) -> JobEvent:
        """How a job stands, after the event before."""
        kind: Any = "seen" if last is None else "place" if job.place != last.place else "state"
        return cls(
            kind=kind, uri=job.uri, id=job.id, state=job.state, place=job.place, detail=job.detail,
            attempt=job.attempt, cost_usd=job.cost_usd, failure=job.failure, at=job.now(),
        )  # fmt: skip

    def to_dict(self) -> dict[str, Any]:
        """The event as JSON types, with a ``version``; times are ISO 8601."""
        return {"version": VERSION, **plain(self)}


Listener = Callable[[JobEvent], object]


def changes(job: Job, listener: Listener) -> Callable[[], None]:
    """Calls the listener with what has changed since the last call; what it raises is logged."""
    last: JobEvent | None = None

    def report() -> None:
        nonlocal last
        if last is None or (job.state, job.place, job.attempt) != (last.state, last.place, last.attempt):
            last = JobEvent.of(job, last)
            try:
                listener(last)
            except Exception:
                log.exception("a listener failed; the job is watched on")

    return report


def log_change(job: Job, before: State) -> None:
    """Log a change of state; the log record's ``gputrain`` holds the event as JSON types.

    The end is traced as one span, from when ranks first ran to when the job ended.
    """
    if log.isEnabledFor(logging.INFO):
        facts = {**JobEvent.of(job).to_dict(), "kind": "state", "before": before.value}
        log.info("%s is %s", job.id, job.state, extra={"gputrain": facts})
    if job.state.is_terminal:
        names = {"gputrain.job.uri": job.uri, "gputrain.job.state": job.state.value}
        trace("gputrain.job", job.started_at, job.ended_at, names, is_error=job.state is not State.SUCCEEDED)


class StopEvent(Protocol):
    """What ends a wait: a `threading.Event`."""

    def is_set(self) -> bool: ...


def is_stopped(stop: StopEvent, seconds: float) -> bool:
    """Wait so long, or until the event is set; whether it is. (Its own ``wait`` may outlive a Ctrl-C.)"""
    until = time.monotonic() + seconds
    while not stop.is_set():
        if (left := until - time.monotonic()) <= 0:
            return False
        time.sleep(min(left, STOP_WITHIN_S))
    return True


def pausing(stop: StopEvent) -> Callable[[float], None]:
    """A sleep that ends, with StoppedError, as soon as the event is set."""

    def pause(seconds: float) -> None:
        if is_stopped(stop, seconds):
            raise StoppedError("the waiting was stopped", fix="wait again whenever you like")

    return pause


def pause_s(poll_s: float, waited_s: float) -> float:
    """Seconds until the next look, a little more after a long wait.

    >>> pause_s(0.03, 1.0), pause_s(0.03, 3600.0), pause_s(1.5, 3600.0)
    (0.03, 0.3, 1.5)
    """
    return max(poll_s, min(LONGEST_PAUSE_S, waited_s / 50))


@attrs.define(eq=False)
class _Watch:
    job: Job
    report: Callable[[Exception | None], None]
    since: float
    seen_at: float
    due: float = 0.0
    is_blind: bool = False
    """Whether its last report was that the job cannot be seen."""
    is_stepping: bool = False
    """Whether the other thread takes a step for it."""


class Watcher:
    """Looks at the jobs of one platform, all that are due by the same few calls."""

    def __init__(self, platform: str) -> None:
        self.watches: dict[_Watch, None] = {}
        self._platform = platform
        self._lock, self._changed = threading.RLock(), threading.Event()
        self._steps: deque[_Watch] = deque()
        self._threads: dict[str, threading.Thread] = {}
        self._is_warned = False

    def watch(self, job: Job, report: Callable[[Exception | None], None]) -> Callable[[], object]:
        """As `watch`."""
        now = time.monotonic()
        one = _Watch(job, report, since=now, seen_at=now)
        with self._lock:
            self.watches[one] = None
            self._start("watches", self._look)
        self._changed.set()
        return partial(self._drop, one)

    def _start(self, what: str, run: Callable[[], None]) -> None:
        """Start a thread, unless it runs; it takes itself away when it ends."""
        if what not in self._threads or not self._threads[what].is_alive():  # a fork has none
            name = f"gputrain {what} {self._platform}"
            self._threads[what] = threading.Thread(target=run, name=name, daemon=True)
            self._threads[what].start()

    def _drop(self, one: _Watch) -> bool:
        """Look at it no more; whether it was looked at."""
        with self._lock:
            was_there = one in self.watches
            self.watches.pop(one, None)
        self._changed.set()
        return was_there

    def _look(self) -> None:
        while True:
            with self._lock:
                watches = list(self.watches)
                if not watches:
                    del self._threads["watches"]
                    return
            now, idle = time.monotonic(), [one for one in watches if not one.is_stepping]
            due = [one for one in idle if one.due <= now]
            if not due:
                next_due = min((one.due for one in idle), default=now + 1.0)
                self._changed.wait(max(0.001, next_due - now))
                self._changed.clear()
                continue
            if len(watches) > 1:  # they are looked at together from now on
                due = idle
            errors = due[0].job.refresh_many([one.job for one in due])
            for one, error in zip(due, errors, strict=True):
                self._seen(one, error, len(due))

    def _seen(self, one: _Watch, error: Exception | None, of: int) -> None:
        now = time.monotonic()
        one.due = now + pause_s(one.job.poll_s, now - one.since) + EACH_S * (of - 1)
        if error is None:
            self._is_warned = one.is_blind = False
            one.seen_at = now
            if one.job.has_step:  # another thread takes it: to launch a job again may take long
                with self._lock:
                    one.is_stepping = True
                    self._steps.append(one)
                    self._start("supervises", self._take_steps)
            elif one.job.state.is_terminal:
                self._end(one, None)
                return
            _report(one, None)
        elif isinstance(error, JobLostError):
            self._end(one, error)
        else:
            is_passing = isinstance(error, TransientError)
            again_s = (error.retry_after_s or 0.0) if isinstance(error, TransientError) else AGAIN_S
            one.due = max(one.due, now + again_s)
            if not is_passing or now - one.seen_at > BLIND_FOR_AT_MOST_S:
                one.seen_at = now
                if not one.is_blind and not self._is_warned:  # once, until it is seen again
                    log.warning("a job cannot be read, and may still run: %s", error)
                self._is_warned = one.is_blind = True
                _report(one, error)

    def _take_steps(self) -> None:
        while True:
            with self._lock:
                if not self._steps:
                    del self._threads["supervises"]
                    return
                one = self._steps.popleft()
            try:
                one.job.supervise()
            except Exception as error:  # noqa: BLE001  # the next look shows what came of it
                log.warning("a job could not be looked after: %s", error)
            if one.job.state.is_terminal:
                self._end(one, None)
            one.is_stepping = False
            self._changed.set()

    def _end(self, one: _Watch, error: JobLostError | None) -> None:
        if self._drop(one):
            _report(one, error)


def _report(one: _Watch, error: Exception | None) -> None:
    try:
        one.report(error)
    except BaseException:  # SystemExit, too: this thread watches for all others
        log.exception("a listener failed; the job is watched on")


WATCHERS: dict[str, Watcher] = {}
"""The process's own, by platform: many handles, one thread a platform."""


def watch(job: Job, report: Callable[[Exception | None], None]) -> Callable[[], object]:
    """Look at a job until it has ended; what is returned ends that earlier.

    Args:
        report: called after each look, with an error where the job could not be seen for long.
    """
    return WATCHERS.setdefault(job.platform, Watcher(job.platform)).watch(job, report)


class Watching:
    """A listener that is called with changes, until `close` or the end of a ``with``."""

    def __init__(self, job: Job, listener: Listener) -> None:
        report = changes(job, listener)
        self._drop = watch(job, lambda _error: report())

    def close(self) -> None:
        """Report nothing more."""
        self._drop()

    def __enter__(self) -> Watching:
        return self

    def __exit__(self, *_: object) -> None:
        self.close()


class JobFuture(Future[Result]):
    """A future of a job's result. Cancelling it ends this watching, and nothing else."""

    def __init__(self, job: Job, outcome: Callable[[], Result]) -> None:
        """``outcome`` returns the result of a job that has ended, or raises why there is none."""
        super().__init__()
        self._job, self._outcome = job, outcome
        self._drop: Callable[[], object] = lambda: None
        if job.state.is_terminal:
            self._report(None)
        else:
            self._drop = watch(job, self._report)

    def _report(self, error: Exception | None) -> None:
        if error is None and not self._job.state.is_terminal:
            return
        self._drop()
        with suppress(InvalidStateError):  # its owner has just cancelled it
            try:
                if error is not None:
                    raise error
                result = self._outcome()
            except Exception as why:  # noqa: BLE001  # the waiter gets any error
                self.set_exception(why)
            else:
                self.set_result(result)

    def cancel(self) -> bool:
        """Stop waiting for the job, which continues."""
        self._drop()
        is_cancelled = super().cancel()
        if is_cancelled:  # else those who wait for several futures would not notice
            with suppress(InvalidStateError, RuntimeError):
                self.set_running_or_notify_cancel()
        return is_cancelled
