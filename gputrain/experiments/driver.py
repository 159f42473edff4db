"""Submits the points of an experiment, as many at a time as it may have, in one thread of its own."""

from __future__ import annotations

import logging
import math
import os
import threading
import time
from collections import deque
from collections.abc import Callable, Sequence

import attrs

from gputrain.errors import (
    CapacityError,
    GputrainError,
    JobLostError,
    NoPlacementError,
    QuotaExceededError,
    StoppedError,
    TransientError,
)
from gputrain.experiments.book import is_cancelled
from gputrain.job import Job
from gputrain.job.stopping import StopEvent
from gputrain.job.watcher import BLIND_FOR_AT_MOST_S, WATCHER
from gputrain.records import Board
from gputrain.threads import Aside, Bell, aside, await_end, begin, new_lock

log = logging.getLogger("gputrain")

FULL = (CapacityError, NoPlacementError, QuotaExceededError, TransientError)
"""What says that there is no room now: while other points run, a point waits for one of them to end; where
none does, what passes is waited for as long as `Job.wait` would."""
AGAIN_S = 30.0
"""How long a point that found no room waits at the most, when nothing has ended meanwhile."""
DOUBT_S, APART_S = 5.0, 1.0
"""How often it is looked for what came of a point that another process asked for, which may have died; and
seconds between two such looks, however many points there are."""

Submit = Callable[[int, StopEvent], Job]
"""Submits the point of that number."""
Room = Callable[[int], int]
"""How many jobs at a time, where so many live already."""


class _Stop:
    """Whether the submitting is to end: an event that nobody waits for, and that needs no lock."""

    def __init__(self) -> None:
        self._is_set = False

    def is_set(self) -> bool:
        return self._is_set

    def set(self) -> None:
        self._is_set = True


@attrs.define(eq=False)
class _Living:
    """A job that has a place among those that run, until it has ended."""

    job: Job
    drop: Callable[[], object] = lambda: None
    blind: tuple[float, Exception] | None = None
    """When it was told last that the job cannot be looked at, and why."""


class Driver:
    """One experiment's points on their way to jobs.

    Args:
        submit: makes the job of a point, or finds it: exactly once, whoever else does. StoppedError with a
            uri: another process has asked for it, and nobody knows yet what came of that.
        pending: the numbers of the points to submit, in their order.
        there: jobs that are listed already, by the number of their point; of one that is pending too, nobody
            knows whether its submit was finished.
        most: jobs at a time.
        ended: called with the number of each point whose end is known, and its job, if it has one.
    """

    def __init__(
        self,
        submit: Submit,
        pending: Sequence[int],
        there: dict[int, Job],
        most: int,
        ended: Callable[[int, Job | None], None],
    ) -> None:
        self.jobs = dict(there)
        self.errors: dict[int, GputrainError] = {}
        self.stop = _Stop()
        self._submit = submit
        self._most = most
        self._ended = ended
        self._lock = new_lock()  # whoever handles a signal may close it anywhere
        self._changed = Bell()
        self._pending = deque(pending)
        self._doubtful: deque[tuple[float, int]] = deque()
        """Points in doubt, each with when it is looked at again."""
        self._living: dict[int, _Living] = {}
        self._is_full = False
        """Whether the last point that was tried found no room, and nothing has ended since."""
        self._failing_since = math.inf
        """Since when submits fail in passing, one after the other."""
        self._tried_at = float("-inf")
        """When the last point was tried: a submit may rest for hours until there is room."""
        self._is_closed = False
        self._process = os.getpid()
        self._thread: Aside | None = None

    def begin(self) -> None:
        """Watch the jobs that are there, and submit the others."""
        unsure = set(self._pending)
        for number, job in list(self.jobs.items()):
            if number not in unsure:
                self._watch(number, job)
        self._start()

    def _start(self) -> None:
        with self._lock:
            if self._has_more and (self._thread is None or not self._thread.is_alive()):
                self._thread = aside(self._run, "gputrain submits points")
                begin(self._thread)

    def again(self, numbers: Sequence[int]) -> None:
        """Submit these points anew, after all that are pending."""
        with self._lock:
            for number in numbers:
                self.jobs.pop(number, None)
                self.errors.pop(number, None)
                self._living.pop(number, None)  # its end may be known, and not told yet
            self._pending.extend(numbers)
        self._changed.ring()
        self._start()

    @property
    def pending(self) -> Sequence[int]:
        """Points that nobody has submitted yet."""
        return (*(number for _, number in self._doubtful), *self._pending)

    @property
    def _has_more(self) -> bool:
        return bool(self._pending or self._doubtful)

    @property
    def rests_why(self) -> str:
        """Why nobody submits or watches its points here any more; empty while somebody does."""
        if self._process != os.getpid():
            return "it belongs to the process that this one was forked from"
        return "it was closed here" if self._is_closed else ""

    def close(self) -> None:
        """Submit nothing more, and stop watching; the jobs go on."""
        self.stop.set()
        with self._lock:
            self._is_closed = True
            living = list(self._living.values())
        self._changed.ring()
        for one in living:
            one.drop()

    def join(self) -> None:
        """Wait until the point that is being submitted has its job, or has none."""
        thread = self._thread
        if thread is not None:
            await_end(thread)

    def drop_pending(self, why: GputrainError) -> None:
        """Give up the points that are not submitted."""
        self.stop.set()
        with self._lock:
            left, self._pending, self._doubtful = self.pending, deque(), deque()
        self._changed.ring()
        for number in left:
            self._fail(number, why)

    def _run(self) -> None:  # noqa: C901
        while not self.stop.is_set():
            with self._lock:
                if self._thread is not threading.current_thread():  # another is, as its start was struck
                    return
                if not self._has_more or self.stop.is_set():
                    self._thread = None
                    return
                if (pause_s := self._pause_s()) == 0:
                    number = self._next()
                    self._tried_at = time.monotonic()
            if pause_s != 0:
                self._changed.wait(pause_s)
                continue
            try:
                job = self._submit(number, self.stop)
            except StoppedError as error:
                if not (error.uri and self._put_off(number)):  # the others need not wait for whoever asked
                    self._fail(number, error)
            except FULL as error:
                if not self._wait_for_room(number, error):
                    self._fail(number, error)
            except GputrainError as error:  # this point's own; the others go on
                self._fail(number, error)
            except Exception as error:  # noqa: BLE001  # a mistake: told as this point's end, or nobody hears of it
                self._fail(number, GputrainError(f"it could not be submitted: {error!r}"))
            else:
                self._is_full, self._failing_since = False, math.inf
                self.jobs[number] = job
                self._watch(number, job)

    def _pause_s(self) -> float | None:
        """Seconds until a point can be tried; None: until something changes."""
        if len(self._living) >= self._most:
            return None
        return 0 if self._pending else max(0.0, self._doubtful[0][0] - time.monotonic())

    def _next(self) -> int:
        if self._doubtful and self._doubtful[0][0] <= time.monotonic():
            return self._doubtful.popleft()[1]
        return self._pending.popleft()

    def _put_off(self, number: int) -> bool:
        with self._lock:
            if self.stop.is_set():  # all were given up: what is put back now, nobody would tell the end of
                return False
            last = self._doubtful[-1][0] if self._doubtful else 0.0
            self._doubtful.append((max(time.monotonic() + DOUBT_S, last + APART_S), number))
            return True

    def _wait_for_room(self, number: int, error: GputrainError) -> bool:
        with self._lock:
            alive, now = len(self._living), time.monotonic()
            is_passing = isinstance(error, TransientError)  # the job may be there, and nobody could see it
            self._failing_since = min(self._failing_since, now) if is_passing else math.inf
            may_pass = is_passing and now - self._failing_since < BLIND_FOR_AT_MOST_S
            if not (alive or may_pass) or self.stop.is_set():
                return False
            self._pending.appendleft(number)
            self._is_full = True
        log.info("no room for another point: %s", error.what)
        until = now + AGAIN_S
        while len(self._living) >= alive and not self.stop.is_set() and time.monotonic() < until:
            self._changed.wait(until - time.monotonic())
        return True

    def _watch(self, number: int, job: Job) -> None:
        one = _Living(job)
        with self._lock:
            self._living[number] = one
        if job.state.is_terminal:
            self._over(number, one)
        else:
            one.drop = WATCHER.watch(job, lambda error: self._looked(number, one, error))
            if self._is_closed:  # meanwhile, by who did not see this job
                one.drop()

    def _looked(self, number: int, one: _Living, error: Exception | None) -> None:
        if one.job.state.is_terminal or isinstance(error, JobLostError):
            self._over(number, one)
        else:  # who cannot look at it pays for it all the same: it keeps its place
            one.blind = None if error is None else (time.monotonic(), error)

    def _over(self, number: int, one: _Living) -> None:
        with self._lock:
            if self._living.get(number) is not one:  # of a job that is submitted once more since
                return
            del self._living[number]
            self._is_full = False
        self._changed.ring()
        self._ended(number, one.job)

    def check_sight(self, since: float) -> None:
        """Raise why no job that lives can be looked at, where all of them were told so since then.

        Not while another point has just been tried, and may have a job soon that is seen.
        """
        with self._lock:
            told = [one.blind for one in self._living.values()]
            may_come = self._thread is not None and len(told) < self._most and not self._is_full
            is_soon = time.monotonic() - self._tried_at < AGAIN_S
        known = [one for one in told if one is not None and one[0] > since]
        if known and len(known) == len(told) and not (may_come and is_soon):
            raise known[0][1]

    def _fail(self, number: int, error: GputrainError) -> None:
        if number in self.jobs:
            self._watch(number, self.jobs[number])
            return
        self.errors[number] = error
        log.info("a point of an experiment was not submitted: %s", error.what)
        self._ended(number, None)


def end_if_cancelled(job: Job, board: Board, name: str) -> None:
    """End a job that was made while somebody who did not see it cancelled its experiment."""
    try:
        if is_cancelled(board, name):
            job.cancel()
    except GputrainError as error:  # it is paid for, and keeps its place, whatever is known of the rest
        log.warning("%s goes on, also if %s was cancelled just now: %s", job.id, name, error.what)
