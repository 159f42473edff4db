"""Submits the points of an experiment from one thread, a bounded number of jobs at a time."""

from __future__ import annotations

import logging
import threading
import time
from collections import Counter, deque
from collections.abc import Callable, Sequence

from gputrain.errors import (
    CapacityError,
    GputrainError,
    JobLostError,
    NoPlacementError,
    QuotaExceededError,
    TransientError,
)
from gputrain.job import Job
from gputrain.job.watcher import watch
from gputrain.planning import Candidate
from gputrain.runtime import host

log = logging.getLogger("gputrain")

NO_ROOM = (CapacityError, NoPlacementError, QuotaExceededError, TransientError)
"""Errors after which a point goes to the back of the queue, as long as there is something to wait for."""
AGAIN_S = 30.0
"""How long the queue rests after such an error, unless a job ends earlier."""
MOST_TRIES = 10
"""Tries of a point that meets passing errors while no other job runs."""
UNKNOWN_QUOTA = 16
"""Jobs at a time where no quota could be read."""


class Runner:
    """Turns the points of one experiment into jobs.

    Args:
        submit: returns the job of a point, the same one each time.
        limit: jobs at a time.
    """

    def __init__(self, submit: Callable[[int, threading.Event], Job], limit: int) -> None:
        self.jobs: dict[int, Job] = {}
        self.errors: dict[int, GputrainError] = {}
        """Why points have no job."""
        self.ended: dict[int, Job | None] = {}
        """The points that have ended, in the order of their ends."""
        self.is_closed = False
        self._submit, self._limit = submit, limit
        self._queue: deque[int] = deque()
        self._tries: Counter[int] = Counter()
        self._rests_until = 0.0
        self._drops: list[Callable[[], object]] = []
        self._stop = threading.Event()
        self._changed = threading.Condition(threading.RLock())
        self._thread: threading.Thread | None = None

    def add(self, points: Sequence[int]) -> None:
        """Submit points, or submit them again, after all others."""
        with self._changed:
            for number in points:
                for known in (self.jobs, self.errors, self.ended, self._tries):
                    known.pop(number, None)
            self._queue.extend(points)
            if self._queue and self._thread is None and not self._stop.is_set():
                self._thread = threading.Thread(target=self._run, name="gputrain submits points", daemon=True)
                self._thread.start()

    def drop_queue(self, error: GputrainError) -> None:
        """End the points that have no job yet, and wait for the one that is being submitted."""
        self._stop.set()
        with self._changed:
            dropped, self._queue = list(self._queue), deque()
            self._changed.notify_all()
            thread = self._thread
        for number in dropped:
            self._fail(number, error)
        if thread is not None:
            thread.join()

    def close(self) -> None:
        """Submit nothing more, and stop watching; the jobs keep running."""
        self._stop.set()
        with self._changed:
            self.is_closed = True
            self._changed.notify_all()
            for drop in self._drops:
                drop()

    def watch(self, number: int, job: Job) -> None:
        """Take a job for the point's, until it ends."""

        def looked(error: Exception | None) -> None:
            # a job that cannot be read may still run, and keeps its place; the watcher logs why
            if job.state.is_terminal or isinstance(error, JobLostError):
                self._release(number, job)

        with self._changed:
            self.jobs[number] = job
            if not job.state.is_terminal and not self.is_closed:
                self._drops.append(watch(job, looked))
        if job.state.is_terminal:
            self._release(number, job)

    def _release(self, number: int, job: Job) -> None:
        with self._changed:
            if self.jobs.get(number) is job:  # else it is retried already
                self.ended[number] = job
                self._rests_until = 0.0
                self._changed.notify_all()

    def _run(self) -> None:
        while (number := self._next()) is not None:
            self._try(number)

    def _try(self, number: int) -> None:
        try:
            self.watch(number, self._submit(number, self._stop))
        except NO_ROOM as error:
            self._again_later(number, error)
        except GputrainError as error:
            self._fail(number, error)
        except Exception as error:  # noqa: BLE001  # in this thread it would be lost
            self._fail(number, GputrainError(f"it could not be submitted: {error!r}"))

    def _next(self) -> int | None:
        """The next point once there is room for it; None: there are no more, and the thread ends."""
        with self._changed:
            while self._queue and not self._stop.is_set():
                rest_s = self._rests_until - time.monotonic()
                if self._running < self._limit and rest_s <= 0:
                    return self._queue.popleft()
                self._changed.wait(rest_s if rest_s > 0 else None)
            self._thread = None
            return None

    def _again_later(self, number: int, error: GputrainError) -> None:
        self._tries[number] += 1
        is_passing = isinstance(error, TransientError) and self._tries[number] < MOST_TRIES
        with self._changed:
            if (self._running or is_passing) and not self._stop.is_set():
                self._queue.append(number)
                self._rests_until = time.monotonic() + AGAIN_S
                log.info("a point waits for room: %s", error.what)
                return
        self._fail(number, error)

    def _fail(self, number: int, error: GputrainError) -> None:
        self.errors[number], self.ended[number] = error, None
        log.info("a point of an experiment was not submitted: %s", error.what)

    @property
    def _running(self) -> int:
        return len(self.jobs.keys() - self.ended.keys())


def concurrency_limit(asked: int | None, best: Candidate | None, running: int) -> int:
    """Jobs at a time: as asked, else what the cores of this machine or the quotas of the best place allow.

    Args:
        best: the best candidate of the plan; None where nothing was planned.
        running: jobs of the experiment that run already, whose GPUs the quotas count as used.
    """
    if asked or best is None:
        return asked or UNKNOWN_QUOTA
    if best.provisioning_model is None:  # this machine
        return max(1, host.cpu_count() // (best.nproc_per_node * best.num_nodes))
    left = [
        int((one.limit - one.usage) // one.need)
        for one in best.fact.readings
        if one.is_gate and one.need and one.limit is not None and one.usage is not None and one.limit < 1e9
    ]
    return max(1, running + min(left)) if left else UNKNOWN_QUOTA
