"""`Experiment`: many jobs as one thing, in any process, on any day."""

from __future__ import annotations

import os
import time
from collections.abc import Callable, Iterator, Sequence
from datetime import timedelta
from pathlib import Path

from gputrain.arguments import check
from gputrain.errors import GputrainError, JobTimeoutError, RequestError
from gputrain.experiments import outcome
from gputrain.experiments.book import ExperimentRecord, again, cancel, is_cancelled, only, opened
from gputrain.experiments.cell import Watched, watched, whole
from gputrain.experiments.comparison import Comparison
from gputrain.experiments.driver import Driver, Room, end_if_cancelled
from gputrain.experiments.outcome import TO_RETRY, OnlyWatches, PointOutcome, Submits
from gputrain.experiments.points import Point, canonical
from gputrain.gcp.endpoints import on_trial
from gputrain.job import Job
from gputrain.job.stopping import STOP_WITHIN_S, StopEvent
from gputrain.lifecycle import State
from gputrain.records import Board
from gputrain.spec import TrainingSpec
from gputrain.spec.durations import seconds_of
from gputrain.spec.entry import make_job_id
from gputrain.threads import new_lock, side_by_side
from gputrain.view import ProgressWord

_GO_ON = "the jobs go on. Take them up again: trainer.experiment('{}')"


class Experiment(Comparison):
    """One job a point, each made once, however often and wherever the script runs.

    Made by ``trainer.map``, and by ``trainer.experiment`` from its name. What is missing is submitted from a
    thread of this process; losing the process does not touch the jobs, and running the same script again
    goes on. It shows itself as a table.
    """

    def __init__(
        self, trainer: Submits, board: Board, book: ExperimentRecord, base: TrainingSpec, room: Room
    ) -> None:
        super().__init__(())
        self.name = book.name
        self.points = book.points
        """In the order in which they were given."""
        self.title = f"Experiment {book.name}"
        self._trainer = trainer
        self._board = board
        self._ends: list[tuple[int, Job | None]] = []
        """Every end, in its order, and the job that ended; of a point that is retried each, so that whoever
        goes through them loses none. `_over`: the points that have ended for now."""
        self._over: set[int] = set()
        self._lock = new_lock()
        self._book, self._base, self._asks = book, base, book.asks(base)
        ids = [make_job_id(spec, key) for spec, key in self._asks]
        found = {job.id: job for job in trainer.jobs(name=book.name) if not outcome.never_began(job)}
        there = {number: found[one] for number, one in enumerate(ids) if one in found}
        for number, job in there.items():
            job.point = self.points[number]
        # Whoever asked for a queued one may have died before it had more than a name: it would never begin.
        queued = [number for number, job in there.items() if job.state is State.QUEUED]
        left = [number for number in range(len(ids)) if number not in there]
        most = room(sum(not job.state.is_terminal for job in there.values()))
        self._driver = Driver(self._submitted, queued + left, there, most, self._ended)

    def _begin(self) -> None:
        is_over = is_cancelled(self._board, self.name)  # first: whoever cannot read it has begun nothing
        self._driver.begin()
        if is_over:
            self._driver.drop_pending(outcome.cancelled())

    def _submitting(self, begin: Callable[[], None]) -> Experiment:
        """Itself, once its thread has points to submit; what falls into that ends the thread, as a Ctrl-C."""
        try:
            begin()
        except BaseException as error:
            if not isinstance(error, GputrainError):
                self.close()
            if isinstance(error, KeyboardInterrupt):
                raise KeyboardInterrupt(f"no more points are submitted; {_GO_ON.format(self.name)}") from None
            raise
        return self

    def _submitted(self, number: int, stop: StopEvent) -> Job:
        if is_cancelled(self._board, self.name):
            raise outcome.cancelled()
        spec, key = self._asks[number]
        job = self._trainer.submit(spec, idempotency_key=key, stop=stop)
        job.point = self.points[number]
        end_if_cancelled(job, self._board, self.name)
        return job

    def _ended(self, number: int, job: Job | None) -> None:
        with self._lock:
            self._ends.append((number, job))
            self._over.add(number)

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

        A job that `retry_failed` makes meanwhile, also inside the loop, comes as well when it ends.

        Args:
            timeout: seconds, ``"2h"`` or a timedelta, after which to stop waiting.
            stop: a `threading.Event` that ends the waiting.

        Raises:
            JobTimeoutError, StoppedError: the time passed, or ``stop`` was set, or it was closed here.
            AuthError, TransientError...: why no job that lives can be looked at. In any case the jobs go on.
        """
        for job in self._as_ended(timeout, stop):
            if job is not None:
                yield job

    def _as_ended(
        self, timeout: float | str | timedelta | None, stop: StopEvent | None, live: Watched | None = None
    ) -> Iterator[Job | None]:
        check("wait(...)", stop=stop)
        began = time.monotonic()
        until = None if timeout is None else began + seconds_of(timeout)
        with self._lock:
            told = len(self._ends)
            standing = {number: job for number, job in self._ends if number in self._over}  # their latest
        yield from standing.values()
        while True:
            try:
                if len(self._ends) == told and not self.is_over:
                    time.sleep(STOP_WITHIN_S)
                with self._lock:
                    news = [job for _, job in self._ends[told:]]
                    left = len(self.points) - len(self._over)
                if live is not None:
                    live.tick()
            except KeyboardInterrupt:
                raise KeyboardInterrupt(f"stopped watching; {_GO_ON.format(self.name)}") from None
            yield from news
            told += len(news)
            if news:
                continue
            if not left:
                return
            if self._driver.rests_why or (stop is not None and stop.is_set()):
                raise outcome.stopped(self.name, self._driver.rests_why)
            self._driver.check_sight(began)
            if until is not None and time.monotonic() > until:
                fix = f"wait longer, or later: trainer.experiment({self.name!r}).wait()"
                raise JobTimeoutError(f"{left} points of {self.name} have not ended", fix=fix)

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
        finally:
            live.close()
        return self

    def results(
        self, timeout: float | str | timedelta | None = None, *, stop: StopEvent | None = None
    ) -> tuple[PointOutcome, ...]:
        """How each point ended, in the order of the points, once all have. Raises as `as_completed`."""
        self.wait(timeout, progress="none", stop=stop)
        return outcome.of(self.rows, self._driver.errors)

    def retry_failed(self) -> Experiment:
        """Submit once more what failed, ran out of time or could not be submitted; this same experiment.

        Each such point has a new job from now on, in every process that takes the experiment up. Its earlier
        job stays among ``trainer.jobs()``, and its cost counts against the point's share of ``max_cost``. A
        point that somebody cancelled is left.

        Raises:
            RequestError: it was cancelled, or closed here, or its function is not here; nothing is touched.
        """
        return self._submitting(self._retry)

    def _retry(self) -> None:
        self._check_submits()
        bad = {n: job for n, (_, job) in enumerate(self.rows) if job is not None and job.state in TO_RETRY}
        failed = {canonical(self.points[n]): outcome.retried(self._book, n, job) for n, job in bad.items()}
        self._book = only(again(self._board, self.name, failed), self.points)
        self._asks = self._book.asks(self._base)
        anew = sorted({*bad, *self._driver.errors})
        with self._lock:
            self._over.difference_update(anew)
        self._driver.again(anew)

    def _check_submits(self) -> None:
        if isinstance(self._trainer, OnlyWatches):
            raise self._trainer.refusal
        if is_cancelled(self._board, self.name):
            raise RequestError(f"{self.name} was cancelled: nobody submits any more of it", fix=outcome.ANEW)
        if why := self._driver.rests_why:
            fix = f"trainer.experiment({self.name!r}).retry_failed(), or run the script again"
            raise RequestError(f"{self.name} submits nothing here any more", why=why, fix=fix)

    def save_html(self, path: str | os.PathLike[str]) -> None:
        """Write one page with everything in it: points, failures, curves. It needs no other file."""
        Path(check("save_html(...)", path=path)["path"]).write_text(whole(self), encoding="utf-8")

    def cancel(self) -> None:
        """End all of it: no point is submitted any more, by nobody, and the jobs that run are cancelled.

        Also those that this object does not look at; whoever submits one meanwhile cancels it at once.

        Raises:
            GputrainError: of what could not be ended, or of the experiment's own mark, when all others were
                asked to end.
        """
        # First, so that whatever is submitted after the list ends by itself.
        errors = [outcome.fault_of(lambda: cancel(self._board, self.name))]
        self._driver.drop_pending(outcome.cancelled())
        self._driver.join()
        found = {job.id: job for job in self.jobs}
        try:
            mine = opened(self._board, self.name).ids(self._base)
            listed = {job.id: job for job in self._trainer.jobs(name=self.name) if job.id in mine}
            found = {**listed, **found}  # our own handles, where there are: they tell at once that it stops
        except GputrainError as error:  # those that are known here end all the same
            errors.append(error)
        living = [job for job in found.values() if not job.state.is_terminal]
        errors += side_by_side(lambda job: outcome.fault_of(job.cancel), living)
        for one in filter(None, errors):
            raise one

    def close(self) -> None:
        """Submit nothing more from this process, and stop watching. The jobs go on.

        Whoever waits for it here is told with StoppedError; ``trainer.experiment(name)`` takes it up again.
        """
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


def set_going(experiment: Experiment) -> Experiment:
    """The experiment, whose points are looked at, and submitted where they are missing, from here on."""
    return experiment._submitting(experiment._begin)
