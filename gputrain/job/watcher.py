"""One thread for each platform, which looks at every job that is watched or awaited.

::

    future = job.future(); await job; job.watch(callback)      a thousand of them: one thread, shared looks

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
from typing import TYPE_CHECKING, Protocol

import attrs

from gputrain.errors import JobLostError, StoppedError, TransientError
from gputrain.job.events import Changes, Listener
from gputrain.job.result import Result

if TYPE_CHECKING:
    from gputrain.job.job import Job

log = logging.getLogger("gputrain")

STOP_WITHIN_S = 0.05
"""How soon a set event ends a wait."""
BLIND_FOR_AT_MOST_S = 300.0
"""How long every look may fail, one after the other, before `Job.wait` gives up."""
AGAIN_S = 30.0
"""How soon a job is inspected again after a refusal: somebody logs in, or grants what is missing."""
LONGEST_PAUSE_S = 0.3
"""A platform whose looks cost nothing is looked at at least that often."""
MOST_BUSY = 0.2
"""The share of a core that looking at a platform may take, however many of its jobs are watched."""
EACH_S = 0.01
"""How much each job adds to the time between two looks at its platform: a thousand add 10 s."""


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


@attrs.define(eq=False)
class _Platform:
    """The jobs of one platform, the thread that looks at them, and one that takes steps for them."""

    name: str
    changed: threading.Event = attrs.field(factory=threading.Event)
    watches: dict[_Watch, None] = attrs.field(factory=dict)
    steps: deque[_Watch] = attrs.field(factory=deque)
    looker: threading.Thread | None = None
    stepper: threading.Thread | None = None
    is_warned: bool = False


class Watcher:
    """Looks at the jobs of each platform, all that are due by the same few calls."""

    def __init__(self) -> None:
        self._lock = threading.RLock()
        self._platforms: dict[str, _Platform] = {}

    def watch(self, job: Job, report: Callable[[Exception | None], None]) -> Callable[[], object]:
        """Look at a job until it has ended; what is returned ends that earlier.

        Args:
            report: called after each look, with an error where the job could not be seen for long.
        """
        now = time.monotonic()
        one = _Watch(job, report, since=now, seen_at=now)
        with self._lock:
            platform = self._platforms.setdefault(job.platform, _Platform(job.platform))
            platform.watches[one] = None
            if platform.looker is None or not platform.looker.is_alive():
                platform.looker = _begin(self._look, platform, "watches")
        platform.changed.set()
        return lambda: self._drop(platform, one)

    def _drop(self, platform: _Platform, one: _Watch) -> bool:
        """Look at it no more; whether it was looked at."""
        with self._lock:
            was_there = one in platform.watches
            platform.watches.pop(one, None)
        platform.changed.set()
        return was_there

    def _look(self, platform: _Platform) -> None:
        while True:
            with self._lock:
                now = time.monotonic()
                watches = list(platform.watches)
                if not watches:
                    platform.looker = None
                    self._platforms.pop(platform.name, None)
                    return
            idle = [one for one in watches if not one.is_stepping]
            due = [one for one in idle if one.due <= now]
            if not due:
                next_due = min((one.due for one in idle), default=now + 1.0)
                platform.changed.wait(max(0.001, next_due - now))
                platform.changed.clear()
                continue
            if len(watches) > 1:  # they are looked at together from now on
                due = idle
            busy_s = time.thread_time()  # to wait for an answer keeps no core busy
            jobs = [one.job for one in due]
            for one, error in zip(due, jobs[0].refresh_many(jobs), strict=True):
                self._seen(platform, one, error, len(due))
            time.sleep((time.thread_time() - busy_s) * (1 / MOST_BUSY - 1) if len(due) > 1 else 0.0)

    def _seen(self, platform: _Platform, one: _Watch, error: Exception | None, of: int) -> None:
        now = time.monotonic()
        one.due = now + pause_s(one.job.poll_s, now - one.since) + EACH_S * (of - 1)
        if error is None:
            platform.is_warned = one.is_blind = False
            one.seen_at = now
            if one.job.has_step:
                self._step(platform, one)
            elif one.job.state.is_terminal:
                self._end(platform, one, None)
                return
            _report(one, None)
        elif isinstance(error, JobLostError):
            self._end(platform, one, error)
        else:
            is_passing = isinstance(error, TransientError)
            again_s = (error.retry_after_s or 0.0) if isinstance(error, TransientError) else AGAIN_S
            one.due = max(one.due, now + again_s)
            if not is_passing or now - one.seen_at > BLIND_FOR_AT_MOST_S:
                one.seen_at = now
                if not one.is_blind and not platform.is_warned:  # once, until it is seen again
                    log.warning("a job cannot be read, and may still run: %s", error)
                platform.is_warned = one.is_blind = True
                _report(one, error)

    def _step(self, platform: _Platform, one: _Watch) -> None:
        """Have the other thread take a step for a job: to launch it again may take long."""
        with self._lock:
            one.is_stepping = True
            platform.steps.append(one)
            if platform.stepper is None or not platform.stepper.is_alive():
                platform.stepper = _begin(self._take_steps, platform, "supervises")

    def _take_steps(self, platform: _Platform) -> None:
        while True:
            with self._lock:
                if not platform.steps:
                    platform.stepper = None
                    return
                one = platform.steps.popleft()
            try:
                one.job.supervise()
            except Exception as error:  # noqa: BLE001  # the next look shows what came of it
                log.warning("a job could not be looked after: %s", error)
            if one.job.state.is_terminal:
                self._end(platform, one, None)
            one.is_stepping = False
            platform.changed.set()

    def _end(self, platform: _Platform, one: _Watch, error: JobLostError | None) -> None:
        if self._drop(platform, one):
            _report(one, error)


def _begin(run: Callable[[_Platform], None], platform: _Platform, what: str) -> threading.Thread:
    name = f"gputrain {what} {platform.name}"
    thread = threading.Thread(target=run, args=(platform,), name=name, daemon=True)
    thread.start()
    return thread


def _report(one: _Watch, error: Exception | None) -> None:
    try:
        one.report(error)
    except BaseException:  # SystemExit, too: this thread watches for all others
        log.exception("a listener failed; the job is watched on")


WATCHER = Watcher()
"""The process's own: many handles, one thread a platform."""


class Watching:
    """A listener that is called with changes, until `close` or the end of a ``with``."""

    def __init__(self, drop: Callable[[], object]) -> None:
        self._drop = drop

    @classmethod
    def of(cls, job: Job, changes: Changes, listener: Listener) -> Watching:
        """Call a listener with one job's changes, until it ends."""
        tell = changes.telling(listener)
        return cls(WATCHER.watch(job, lambda _error: tell()))

    def close(self) -> None:
        """Report nothing more."""
        self._drop()

    def __enter__(self) -> Watching:
        return self

    def __exit__(self, *_: object) -> None:
        self.close()


class JobFuture(Future[Result]):
    """A future of a job's result. Cancelling it ends this watching, and nothing else."""

    def __init__(self) -> None:
        super().__init__()
        self._drop: Callable[[], object] = lambda: None

    @classmethod
    def of(cls, job: Job, outcome: Callable[[], Result]) -> JobFuture:
        """The future; ``outcome`` returns the result of a job that has ended, or raises why there is none."""
        future = cls()

        def report(error: Exception | None) -> None:
            if error is None and not job.state.is_terminal:
                return
            future._drop()
            with suppress(InvalidStateError):  # its owner has just cancelled it
                try:
                    if error is not None:
                        raise error
                    future.set_result(outcome())
                except InvalidStateError:
                    raise
                except Exception as why:  # noqa: BLE001  # the waiter gets it, whatever it is
                    future.set_exception(why)

        if job.state.is_terminal:
            report(None)
        else:
            future._drop = WATCHER.watch(job, report)
        return future

    def cancel(self) -> bool:
        """Stop waiting for the job, which continues."""
        self._drop()
        is_cancelled = super().cancel()
        if is_cancelled:  # else those who wait for several futures would not notice
            with suppress(InvalidStateError, RuntimeError):
                self.set_running_or_notify_cancel()
        return is_cancelled
