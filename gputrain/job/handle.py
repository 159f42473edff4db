"""`Job`: the handle of one job, in the process that submitted it or in any other."""

from __future__ import annotations

import logging
import threading
import time
from collections.abc import Callable, Iterator
from datetime import datetime, timedelta, timezone
from itertools import chain

import attrs

from gputrain import view
from gputrain.backends.base import Backend, JobRef, LogLine, OpensShells
from gputrain.errors import GputrainError, RequestError
from gputrain.job.going import Going, Stays
from gputrain.job.logs import LineFilter, LogReader, Page, last_of, pattern
from gputrain.job.result import Result, ended, silent_for, told
from gputrain.job.watch import JobWatch
from gputrain.lifecycle import Observation, State, advance
from gputrain.metrics import Metrics, Reports
from gputrain.planning import Candidate, Ledger
from gputrain.planning.attempts import moved
from gputrain.tables import Shown, Table

log = logging.getLogger("gputrain")


class Job(Shown):
    """A job that was submitted, here or anywhere.

    Made by ``trainer.submit`` and `gputrain.attach`. Its ``uri`` is a string that any process can attach to.
    Losing the handle, or the process that holds it, does not touch the job.
    """

    def __init__(
        self,
        ref: JobRef,
        backend: Backend,
        *,
        candidate: Candidate | None = None,
        attempts: Ledger = Ledger(),  # noqa: B008  # a tuple
        going: Going | None = None,
        now: Callable[[], datetime] = lambda: datetime.now(timezone.utc),
        sleep: Callable[[float], None] = time.sleep,
    ) -> None:
        self.ref = ref
        self.candidate = candidate
        """Where it was placed; None for a job taken up by its name."""
        self.attempts = attempts
        """The ledger: every place that was tried, oldest first, and what it answered."""
        self._backend = backend
        self._going = going or Stays()
        self._now = now
        self._sleep = sleep
        self._lock = threading.Lock()
        self._reading = threading.Lock()
        self._state = State.QUEUED
        self._seen = self._told = Observation()  # as it is shown, and as the backend told it
        self._watched = LogReader()
        self._reports = Reports()

    @property
    def uri(self) -> str:
        """The name of the job: ``gputrain.attach(uri)`` takes it up again, in any process, on any day."""
        return self.ref.uri

    @property
    def state(self) -> State:
        """Where the job stood at the last look; `refresh` looks anew."""
        return self._state

    def refresh(self) -> Observation:
        """Look at the job once.

        Raises:
            JobLostError: neither the job nor its traces can be found.
            TransientError: it could not be looked at now; the state stays what it was.
        """
        told = self._backend.observe(self.ref)
        way = self._going.way_on(told) if told.state is State.FAILED else ""
        seen = told if not way else attrs.evolve(
            told, state=State.INTERRUPTED, detail=f"{told.place}: {way}", failure=None, ended_at=None
        )  # fmt: skip
        with self._lock:
            self._state = advance(self._state, seen.state)
            self._note_move(seen)
            self._seen, self._told = seen, told
        return seen

    def _note_move(self, seen: Observation) -> None:
        """Write into the ledger that the job is elsewhere than it was, whoever moved it."""
        left = self.candidate
        if left is None or seen.place in ("", left.place):
            return
        told = moved(left, seen.place, self._now(), has_run=seen.attempt > 0)
        self.candidate, self.attempts = told[-1].candidate, Ledger((*self.attempts, *told))

    def resume(self) -> bool:
        """Start the job again where it was interrupted, or where it found no machines, if there is room.

        `wait` does so by itself, in any process whose backends are set as those that made the job; one that
        is set otherwise watches, and says with which it could. True where this call started it.
        """
        if self._state is not State.INTERRUPTED:
            return False
        step = self._going.go_on(self._told, self.attempts)
        placed, self.attempts = step.placed, step.attempts
        if placed is None:
            return False
        with self._lock:
            self.ref, self._backend = placed.ref, placed.backend
            self.candidate = placed.candidate
            self._state, self._seen, self._told = State.QUEUED, Observation(), Observation()
        log.warning("it goes on as %s", self.uri)
        return True

    def supervise(self) -> bool:
        """Do what a job may need after a look: end what is left of a gang that cannot go on, and `resume`."""
        self._going.tidy(self.ref, self._backend, self._told)
        return self.resume()

    def wait(self, timeout: float | timedelta | None = None, *, progress: str | None = None) -> State:
        """Wait for the end, showing logs, metrics and cost while it comes.

        Args:
            timeout: seconds (or a timedelta) after which to stop waiting; the job goes on.
            progress: ``auto`` (rich text in a terminal, html in a notebook, otherwise nothing), ``rich``,
                ``plain`` or ``none``; ``$GPUTRAIN_PROGRESS`` sets it for a whole process.

        Returns:
            The terminal state. A failed job raises only in `result`.

        Raises:
            JobTimeoutError: the timeout passed first.
            KeyboardInterrupt: Ctrl-C: the watching ends, the job does not; the message says how to attach.
        """
        limit_s = timeout.total_seconds() if isinstance(timeout, timedelta) else timeout
        shown = view.choose(progress)
        try:
            return self._watch.to_the_end(shown, limit_s)
        except KeyboardInterrupt as stop:
            text = f"stopped watching; the job goes on. Take it up again: gputrain.attach({self.uri!r})"
            raise KeyboardInterrupt(str(stop) or text) from None
        finally:
            shown.close()

    @property
    def _watch(self) -> JobWatch:
        return JobWatch(self, self._news, self._snapshot, lambda: self._backend.poll_s, self._sleep)

    def result(self, timeout: float | timedelta | None = None) -> Result:
        """Wait for the end in silence and return how it went.

        Raises:
            JobFailedError: with the first failing rank's own traceback.
            JobError: it was cancelled, or expired.
            JobTimeoutError: the timeout passed first.
        """
        state = self.wait(timeout, progress="none")
        if state is State.SUCCEEDED:
            return Result(
                uri=self.uri,
                state=state,
                duration=self.duration,
                metrics=self.metrics(),
                cost_usd=self.cost_usd,
                attempt=self._seen.attempt,
            )
        raise ended(self.ref, state, self._seen, self._silence() if state is State.EXPIRED else None)

    def _silence(self) -> timedelta | None:
        """How long it had been silent when it ended; None where its log cannot be read."""
        try:
            return silent_for(self.logs(), self._seen.ended_at)
        except GputrainError as error:
            log.info("the log of %s could not be read: %s", self.uri, error.what)
            return None

    def logs(
        self,
        *,
        rank: int | None = None,
        since: datetime | timedelta | None = None,
        tail: int | None = None,
        grep: str | None = None,
        follow: bool = False,
    ) -> Iterator[LogLine]:
        """Log lines, oldest first, none twice; read as they are asked for, however long the log is.

        Args:
            rank: only this rank's lines; all ranks and agents unless said.
            since: only lines from then on; a timedelta counts back from now.
            tail: only the last so many of the lines that the others leave.
            grep: only lines in which this regular expression is found.
            follow: go on until the job has ended.

        Raises:
            RequestError: ``grep`` is no regular expression.
        """
        wanted = LineFilter(
            rank=rank,
            since=self._now() - since if isinstance(since, timedelta) else since,
            grep=None if grep is None else pattern(grep),
        )
        reader = LogReader()
        if tail is None:
            return wanted.of(self._lines(reader, follow))
        so_far = last_of(wanted.of(self._lines(reader, follow=False)), tail)
        return chain(so_far, wanted.of(self._lines(reader, follow))) if follow else so_far

    def _lines(self, reader: LogReader, follow: bool) -> Iterator[LogLine]:
        while True:
            if not self._state.is_terminal:
                self.refresh()
            ended = self._state.is_terminal  # judged before reading, so that the last lines are read too
            for lines in reader.pages(self._backend, self.ref):
                yield from lines
            if ended or not follow:
                return
            self._sleep(self._backend.poll_s)

    def metrics(self) -> Metrics:
        """What the script reported so far with ``session.report``; a long course is kept thin."""
        for _ in self._news():
            pass
        return self._reports.metrics

    def cancel(self) -> None:
        """Ask the job to stop; its ranks may save first. Twice is once, and an ended job stays as it is."""
        self._going.cancel(self.ref, self._backend)
        with self._lock:
            self._state = advance(self._state, State.STOPPING)

    def ssh_command(self, node: int = 0) -> str:
        """The line with which a person gets to a node. RequestError where a platform lets nobody in."""
        if not isinstance(self._backend, OpensShells):
            raise RequestError(f"no shell leads to the nodes of {self.ref.backend}", fix="read job.logs()")
        return self._backend.ssh_command(self.ref, node)

    @property
    def duration(self) -> timedelta | None:
        """How long ranks have been running, all attempts together; None before they start."""
        if self._seen.started_at is None:
            return None
        before = timedelta(seconds=self._seen.ran_before_s)
        return before + ((self._seen.ended_at or self._now()) - self._seen.started_at)

    @property
    def cost_usd(self) -> float | None:
        """US dollars spent so far, at the dated price of the plan; None: unknown."""
        if self.candidate is None or self.candidate.price_usd_h is None:
            return None
        return self.candidate.price_usd_h * (self.duration or timedelta(0)).total_seconds() / 3600

    def _news(self) -> Iterator[Page]:
        """Log lines that nobody has watched yet; their reports are kept, the lines are not."""
        pages = self._watched.pages(self._backend, self.ref)
        while True:
            with self._reading:
                lines = next(pages, None)
                if lines is None:
                    return
                self._reports.add(line.message for line in lines)
            yield lines

    def _snapshot(self) -> view.Snapshot:
        return view.Snapshot(
            title=self.ref.name,
            state=self._state,
            elapsed=self.duration or timedelta(0),
            detail=self._seen.detail,
            metrics=self._reports.metrics,
            cost_usd=self.cost_usd,
        )

    @property
    def table(self) -> Table:
        """The job in a few rows."""
        return told(self.ref, self._state, self.candidate, self.duration, self._seen.detail)

    def __repr__(self) -> str:
        return f"<Job {self.uri} {self._state.value}>"
