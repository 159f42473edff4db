"""`Experiment`: many jobs as one thing, in any process, on any day."""

from __future__ import annotations

import os
import threading
import time
from collections.abc import Iterable, Iterator, Sequence
from concurrent.futures import ThreadPoolExecutor
from datetime import timedelta
from pathlib import Path
from typing import Protocol

from gputrain.errors import GputrainError, JobTimeoutError, RequestError, StoppedError
from gputrain.experiments.book import (
    ExperimentRecord,
    Point,
    Retried,
    again,
    cancel,
    canonical,
    is_cancelled,
    key_of,
    only,
)
from gputrain.experiments.cell import Watched, watched, whole
from gputrain.experiments.comparison import READERS, Comparison
from gputrain.experiments.driver import Driver
from gputrain.experiments.outcome import PointOutcome, cancelled, never_began
from gputrain.gcp.endpoints import on_trial
from gputrain.job import Job
from gputrain.job.watcher import STOP_WITHIN_S, StopEvent
from gputrain.lifecycle import State
from gputrain.records import Board
from gputrain.spec import TrainingSpec
from gputrain.spec.durations import seconds_of
from gputrain.spec.entry import make_job_id
from gputrain.view import ProgressWord

LEAST_USD = 1e-6
_FAILED = (State.FAILED, State.EXPIRED)
_CANCELLED = "it was not submitted: the experiment was cancelled"


class Submits(Protocol):
    """What an experiment needs of its trainer."""

    def submit(
        self, entry: TrainingSpec, *, idempotency_key: str | None = None, stop: StopEvent | None = None
    ) -> Job: ...

    def jobs(self, *, name: str = "") -> Iterable[Job]: ...


class Experiment(Comparison):
    """One job a point, each made once, however often and wherever the script runs.

    Made by ``trainer.map``, and by ``trainer.experiment`` from its name. What is missing is submitted from a
    thread of this process; losing the process does not touch the jobs, and running the same script again
    goes on. It shows itself as a table.
    """

    def __init__(
        self, trainer: Submits, board: Board, book: ExperimentRecord, base: TrainingSpec, most: int
    ) -> None:
        super().__init__(())
        self.name = book.name
        self.points = book.points
        """In the order in which they were given."""
        self.title = f"Experiment {book.name}"
        self._trainer = trainer
        self._board = board
        self._over: list[int] = []
        self._changed = threading.Condition()
        self._book, self._base = book, base
        self._asks = self._asked(book)
        ids = [make_job_id(spec, key) for spec, key in self._asks]
        found = {job.id: job for job in trainer.jobs(name=book.name)}
        there = {number: found[one] for number, one in enumerate(ids) if one in found}
        there = {number: job for number, job in there.items() if not never_began(job)}
        for number, job in there.items():
            job.point = self.points[number]
        # Whoever asked for a queued one may have died before it had more than a name: it would never begin.
        queued = [number for number, job in there.items() if job.state is State.QUEUED]
        left = [number for number in range(len(ids)) if number not in there]
        self._driver = Driver(self._submitted, queued + left, there, most, self._ended)
        if is_cancelled(board, book.name):
            self._give_up()

    def _asked(self, book: ExperimentRecord) -> list[tuple[TrainingSpec, str]]:
        """The spec and the key of each point's newest job."""
        asks = []
        for point, args in zip(book.points, book.args):
            before, limit = book.retries(point), self._base.max_cost
            if (
                book.share_usd is not None
            ):  # where nothing is left of it, the plan says that it pays for nothing
                limit = max(book.share_usd - before.used_usd, LEAST_USD)
            spec = self._base.replace(args=(*self._base.args, *args), max_cost=limit)
            asks.append((spec, key_of(book.name, point, before.times)))
        return asks

    def _submitted(self, number: int, stop: threading.Event) -> Job:
        if is_cancelled(self._board, self.name):
            raise StoppedError(_CANCELLED)
        spec, key = self._asks[number]
        job = self._trainer.submit(spec, idempotency_key=key, stop=stop)
        job.point = self.points[number]
        if is_cancelled(self._board, self.name):  # meanwhile, by whoever did not see this job
            job.cancel()
        return job

    def _ended(self, number: int) -> None:
        with self._changed:
            self._over.append(number)
            self._changed.notify_all()

    @property
    def rows(self) -> Sequence[tuple[Point, Job | None]]:
        """Each point with its job; None where it has none yet."""
        jobs = self._driver.jobs
        return [(point, jobs.get(number)) for number, point in enumerate(self.points)]

    @property
    def is_over(self) -> bool:
        """Whether every point has ended."""
        return len(self._over) >= len(self.points)

    @property
    def cost_usd(self) -> float | None:
        """US dollars spent so far by the jobs whose price is known; None: none is."""
        known = [job.cost_usd for job in self.jobs if job.cost_usd is not None]
        return sum(known) if known else None

    def as_completed(
        self, timeout: float | str | timedelta | None = None, *, stop: StopEvent | None = None
    ) -> Iterator[Job]:
        """Each job as it ends, those that have ended first. A point that got no job is in `results` only.

        Args:
            timeout: seconds, ``"2h"`` or a timedelta, after which to stop waiting.
            stop: a `threading.Event` that ends the waiting.

        Raises:
            JobTimeoutError, StoppedError: the time passed, or ``stop`` was set; the jobs go on.
        """
        for number in self._as_ended(timeout, stop):
            if number in self._driver.jobs:
                yield self._driver.jobs[number]

    def _as_ended(
        self, timeout: float | str | timedelta | None, stop: StopEvent | None, live: Watched | None = None
    ) -> Iterator[int]:
        until = None if timeout is None else time.monotonic() + seconds_of(timeout)
        for told in range(len(self.points)):
            while len(self._over) <= told:
                with self._changed:
                    self._changed.wait_for(lambda told=told: len(self._over) > told, STOP_WITHIN_S)  # type: ignore[misc]
                if live is not None:
                    live.tick()
                if stop is not None and stop.is_set():
                    raise StoppedError(f"the waiting for {self.name} was stopped; its jobs go on")
                if until is not None and time.monotonic() > until and len(self._over) <= told:
                    left = len(self.points) - told
                    fix = f"wait longer, or later: trainer.experiment({self.name!r}).wait()"
                    raise JobTimeoutError(f"{left} points of {self.name} have not ended", fix=fix)
            yield self._over[told]

    def wait(
        self,
        timeout: float | str | timedelta | None = None,
        *,
        progress: ProgressWord | None = None,
        stop: StopEvent | None = None,
    ) -> Experiment:
        """Wait until every point has ended. Failed ones raise nothing here. Raises as `as_completed`.

        Args:
            progress: as of `Job.wait`: a live cell in a notebook, live text in a terminal, otherwise nothing;
                ``plain``: a line whenever points stand otherwise; ``none``.
        """
        live = watched(self, progress)
        try:
            for _ in self._as_ended(timeout, stop, live):
                pass
            live.tick(at_once=True)
        except KeyboardInterrupt:
            text = f"stopped watching; the jobs go on. Take them up again: trainer.experiment({self.name!r})"
            raise KeyboardInterrupt(text) from None
        finally:
            live.close()
        return self

    def results(
        self, timeout: float | str | timedelta | None = None, *, stop: StopEvent | None = None
    ) -> tuple[PointOutcome, ...]:
        """How each point ended, in the order of the points, once all have. Raises as `as_completed`."""
        self.wait(timeout, progress="none", stop=stop)
        return tuple(self._outcome(number, point) for number, point in enumerate(self.points))

    def _outcome(self, number: int, point: Point) -> PointOutcome:
        job, error, value = self._driver.jobs.get(number), self._driver.errors.get(number), None
        if job is not None:
            try:
                value = job.result()
            except GputrainError as why:
                error = why
        return PointOutcome(point=point, job=job, error=error, value=value)

    def retry_failed(self) -> Experiment:
        """Submit once more what failed, ran out of time or could not be submitted; this same experiment.

        Each such point has a new job from now on, in every process that takes the experiment up. Its earlier
        job stays among ``trainer.jobs()``, and what that has cost counts against the point's share of
        ``max_cost``. A point that somebody cancelled is left.

        Raises:
            RequestError: the experiment was cancelled, or closed here.
        """
        if self._driver.stop.is_set() or is_cancelled(self._board, self.name):
            raise RequestError(f"{self.name} submits nothing any more", fix="map it under another name")
        bad = {n: job for n, (_, job) in enumerate(self.rows) if job is not None and job.state in _FAILED}
        failed = {
            canonical(self.points[n]): _after(self._book, self.points[n], job) for n, job in bad.items()
        }
        self._book = only(again(self._board, self.name, failed), self.points)
        self._asks = self._asked(self._book)
        anew = sorted({*bad, *self._driver.errors})
        with self._changed:
            self._over = [number for number in self._over if number not in anew]
        self._driver.again(anew)
        return self

    def save_html(self, path: str | os.PathLike[str]) -> None:
        """Write one page with everything in it: points, failures, curves. It needs no other file."""
        Path(path).write_text(whole(self), encoding="utf-8")

    def cancel(self) -> None:
        """End all of it: no point is submitted any more, by nobody, and the jobs that run are cancelled.

        Raises:
            GputrainError: of a job that could not be cancelled, when all others were asked to end.
        """
        cancel(self._board, self.name)
        self._give_up()
        self._driver.join()
        living = [job for job in self.jobs if not job.state.is_terminal]
        with ThreadPoolExecutor(max_workers=READERS) as pool:
            errors = [one for one in pool.map(cancelled, living) if one is not None]
        if errors:
            raise errors[0]

    def _give_up(self) -> None:
        self._driver.drop_pending(RequestError(_CANCELLED, fix="map the same points under another name="))

    def close(self) -> None:
        """Submit nothing more from this process, and stop watching. The jobs go on."""
        self._driver.close()

    @property
    def errors(self) -> Sequence[GputrainError]:
        """Why points have no job."""
        return tuple(self._driver.errors.values())

    @property
    def caption(self) -> str:
        """How its points stand, and what they have cost."""
        states = [("not submitted" if job is None else job.state.value) for _, job in self.rows]
        counts = {state: states.count(state) for state in dict.fromkeys(states)}
        told = ", ".join(f"{count} {state}" for state, count in counts.items())
        points = "1 point" if len(states) == 1 else f"{len(states)} points"
        return f"{points}: {told}" + (f"; ${self.cost_usd:,.2f}" if self.cost_usd else "")

    def __repr__(self) -> str:
        where = next((on_trial(job.trial) for job in self.jobs), "")
        return f"<Experiment {self.name} {self.caption}{where}>"


def _after(book: ExperimentRecord, point: Point, job: Job) -> Retried:
    before = book.retries(point)
    # a cost that nobody can tell may be the whole share: rather too little is spent than too much
    used = job.cost_usd if job.cost_usd is not None else book.share_usd or 0.0
    return Retried(times=before.times + 1, used_usd=before.used_usd + used)
