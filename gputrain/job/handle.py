"""`Job`: the handle of one job, in the process that submitted it or in any other."""

from __future__ import annotations

import asyncio
import logging
import threading
import time
from collections.abc import Callable, Generator
from concurrent.futures import Future
from datetime import datetime, timedelta, timezone
from typing import Any

import attrs

from gputrain import view
from gputrain.backends.base import Backend, JobRef, OpensShells
from gputrain.errors import JobFailedError, RequestError
from gputrain.job.asked import AskedFor
from gputrain.job.events import Changes, Listener, tell
from gputrain.job.going import Going, Stays
from gputrain.job.reading import LogReading
from gputrain.job.result import Result, ended
from gputrain.job.stacks import Stacks, ask
from gputrain.job.watch import JobFuture, JobWatch, Watching, pausing
from gputrain.job.watcher import StopEvent
from gputrain.lifecycle import Observation, State, advance
from gputrain.planning import Candidate, Ledger
from gputrain.planning.attempts import moved
from gputrain.spec.durations import seconds_of
from gputrain.staging import folder_of
from gputrain.staging.survey import missed

log = logging.getLogger("gputrain")


class Job(LogReading):
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
        named: Callable[[str], Job] | None = None,
        now: Callable[[], datetime] = lambda: datetime.now(timezone.utc),
        sleep: Callable[[float], None] = time.sleep,
    ) -> None:
        super().__init__(ref, backend, candidate, attempts, going or Stays(), now, sleep)
        self._named = named
        self._lock = threading.Lock()
        self._told = Observation()  # as the backend told it; as it is shown is `_seen`

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
            before, self._state = self._state, advance(self._state, seen.state)
            self._note_move(seen)
            self._seen, self._told = seen, told
        if self._state is not before:
            tell(self, before)
        return seen

    def _note_move(self, seen: Observation) -> None:
        """Write into the ledger that the job is elsewhere than it was, whoever moved it."""
        if seen.place != self._seen.place or seen.attempt != self._seen.attempt:
            self._asked = AskedFor(self._going.record)
        left = self._candidate
        if left is None or seen.place in ("", left.place):
            return
        told = moved(left, seen.place, self.now(), has_run=seen.attempt > 0)
        self._candidate, self._attempts = told[-1].candidate, Ledger((*self._attempts, *told))

    def resume(self) -> bool:
        """Start the job again where it was interrupted, or where it found no machines, if there is room.

        `wait` does so by itself, in any process whose backends are set as those that made the job; one that
        is set otherwise watches, and says with which it could. True where this call started it.
        """
        if self._state is not State.INTERRUPTED:
            return False
        step = self._going.go_on(self._told, self._attempts)
        placed, self._attempts = step.placed, step.attempts
        if placed is None:
            return False
        with self._lock:
            self.ref, self._backend = placed.ref, placed.backend
            self._candidate, self._asked = placed.candidate, AskedFor(self._going.record)
            self._state, self._seen, self._told = State.QUEUED, Observation(), Observation()
        log.warning("it goes on as %s", self.uri)
        return True

    def supervise(self) -> bool:
        """Do what a job may need after a look: end what is left of a gang that cannot go on, and `resume`."""
        self._going.tidy(self.ref, self._backend, self._told)
        return self.resume()

    def wait(
        self,
        timeout: float | str | timedelta | None = None,
        *,
        progress: view.ProgressWord | None = None,
        stop: StopEvent | None = None,
        on_change: Listener | None = None,
    ) -> State:
        """Wait for the end, showing logs, metrics and cost while it comes.

        Args:
            timeout: seconds (``"2h"``, or a timedelta) after which to stop waiting; the job goes on.
            progress: ``auto`` (rich text in a terminal, html in a notebook, otherwise nothing), ``rich``,
                ``plain`` or ``none``; ``$GPUTRAIN_PROGRESS`` sets it for a whole process.
            stop: a `threading.Event`; once it is set, the waiting ends at once.
            on_change: called with a `JobEvent` for how the job stands, and for each change.

        Returns:
            The terminal state. A failed job raises only in `result`.

        Raises:
            JobTimeoutError: the timeout passed first.
            StoppedError: ``stop`` was set first; the job goes on.
            KeyboardInterrupt: Ctrl-C: the watching ends, the job does not; the message says how to attach.
        """
        limit_s = None if timeout is None else seconds_of(timeout)
        shown = view.choose(progress)
        sleep = self._sleep if stop is None else pausing(stop)
        looked = None if on_change is None else Changes(self, self.now).telling(on_change)
        watch = JobWatch(self, self._news, self._snapshot, sleep, looked)
        try:
            if stop is not None and isinstance(shown, view.Quiet):
                return watch.aside(stop, limit_s)  # whose looks take long, too, are left at once
            return watch.to_the_end(shown, limit_s)
        except KeyboardInterrupt as stop:
            text = f"stopped watching; the job goes on. Take it up again: gputrain.attach({self.uri!r})"
            raise KeyboardInterrupt(str(stop) or text) from None
        finally:
            shown.close()

    def result(
        self, timeout: float | str | timedelta | None = None, *, stop: StopEvent | None = None
    ) -> Result:
        """Wait for the end in silence and return how it went.

        Raises:
            JobFailedError: with the first failing rank's own traceback.
            JobError: it was cancelled, or expired.
            JobTimeoutError, StoppedError: as for `wait`.
        """
        self.wait(timeout, progress="none", stop=stop)
        return self._outcome()

    def future(self) -> Future[Result]:
        """The result as a future of the caller's own: to cancel it ends this watching, and never the job.

        What waits for futures waits for jobs: `concurrent.futures.as_completed`, `asyncio.wrap_future`.
        All of a process share one thread that looks.
        """
        return JobFuture.of(self, self._outcome)

    def __await__(self) -> Generator[Any, None, Result]:
        """As `result`, in an event loop. Cancelling it, or a timeout around it, leaves the job alone."""
        return asyncio.wrap_future(self.future()).__await__()

    def watch(self, listener: Listener) -> Watching:
        """Tell a listener how the job stands, and each change, from a thread of ours until it ends.

        >>> with job.watch(print): ...                                                # doctest: +SKIP
        """
        return Watching.of(self, Changes(self, self.now), listener)

    def _outcome(self) -> Result:
        """The result of a job that has ended. Raises as `result`."""
        state = self._state
        if state is State.SUCCEEDED:
            return Result(
                uri=self.uri,
                state=state,
                duration=self.duration,
                cost_usd=self.cost_usd,
                attempt=self._seen.attempt,
                read=lambda: (self.metrics(), self.gpu_busy),
            )
        error = ended(self.ref, state, self._seen, self._silence() if state is State.EXPIRED else None)
        if isinstance(error, JobFailedError) and "FileNotFoundError" in error.traceback and self.spec:
            behind = missed(folder_of(self.spec), error.traceback)
            error.fix = f"{behind}; {error.fix}" if behind else error.fix
        raise error

    def cancel(self) -> None:
        """Ask the job to stop; its ranks may save first. Twice is once, and an ended job stays as it is."""
        self._going.cancel(self.ref, self._backend)
        with self._lock:
            self._state = advance(self._state, State.STOPPING)

    def stacks(self, timeout: float | str | timedelta = 60.0) -> Stacks:
        """Where every rank stands: its Python stack, and the collective in which it waits. Disturbs none.

        Args:
            timeout: seconds to wait for all nodes; those that have not answered by then are told.

        Raises:
            RequestError: no ranks of it run, or its platform has no way to ask them.
            JobTimeoutError: no node has answered.
        """
        if self.refresh().state is not State.RUNNING:
            raise RequestError(
                f"{self.ref.name} is {self.state.value}: no ranks of it run",
                fix="ask while it runs; the stacks of one that hung are in its error and its log",
            )
        nodes = self.candidate.num_nodes if self.candidate else 1
        return ask(self.ref, self._backend, nodes, seconds_of(timeout), self._sleep)

    def ssh_command(self, node: int = 0) -> str:
        """The line with which a person gets to a node. RequestError where a platform lets nobody in."""
        if not isinstance(self._backend, OpensShells):
            raise RequestError(f"no shell leads to the nodes of {self.ref.backend}", fix="read job.logs()")
        return self._backend.ssh_command(self.ref, node)

    def __reduce__(self) -> tuple[Any, ...]:
        if self._named is None:
            raise TypeError(f"{self!r} was made by hand: send its uri, and attach to it there")
        return self._named, (self.uri,), self._state

    def __setstate__(self, state: State) -> None:
        self._state = state
