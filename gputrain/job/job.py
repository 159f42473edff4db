"""`Job`: the handle of one job, in the process that submitted it or in any other."""

from __future__ import annotations

import logging
import threading
import time
from collections.abc import Callable, Generator
from concurrent.futures import Future
from datetime import timedelta
from typing import Any

from gputrain.backends.base import Backend
from gputrain.code import folder_of
from gputrain.code.bundle import missed
from gputrain.code.entry import arguments_from_here, lacked
from gputrain.display.live import ProgressWord, View, choose
from gputrain.errors import JobFailedError, JobTimeoutError, RequestError, TransientError
from gputrain.fields import check, invalid
from gputrain.job.events import Changes, Listener
from gputrain.job.logs import LogReading, without_cause
from gputrain.job.result import Result, ended
from gputrain.job.stacks import Stacks, ask
from gputrain.job.watcher import (
    BLIND_FOR_AT_MOST_S,
    STOP_WITHIN_S,
    WATCHER,
    JobFuture,
    StopEvent,
    Watching,
    pause_s,
    pausing,
)
from gputrain.jobstore import JobRecord, JobRef, Stored
from gputrain.lifecycle import State
from gputrain.orchestration.context import Context
from gputrain.spec.duration import seconds_of

log = logging.getLogger("gputrain")


class Job(LogReading):
    """A job that was submitted, here or anywhere.

    Made by ``trainer.submit`` and `gputrain.attach`. Its ``uri`` is a string that any process can attach to.
    Losing the handle, or the process that holds it, does not touch the job.
    """

    def __init__(
        self,
        ref: JobRef,
        context: Context | Callable[[], Context],
        *,
        stored: Stored | None = None,
        named: Callable[[str], Job],
    ) -> None:
        super().__init__(ref, context, stored)
        self._named = named

    def wait(
        self,
        timeout: float | str | timedelta | None = None,
        *,
        progress: ProgressWord | None = None,
        stop: StopEvent | None = None,
        on_change: Listener | None = None,
    ) -> State:
        """Wait for the end, showing logs, metrics and cost while it comes.

        Args:
            timeout: seconds (``"2h"``, or a timedelta) after which to stop waiting; the job goes on.
            progress: ``auto`` (rich text in a terminal, html in a notebook, otherwise nothing), ``rich``,
                ``plain`` or ``none``; ``$GPUTRAIN_PROGRESS`` sets it for a whole process.
            stop: a `threading.Event`; once it is set, the waiting ends at once.
            on_change: called with a `JobEvent` for how the job stands, and for each change; an
                `Exception` of it is logged.

        Returns:
            The terminal state. A failed job raises only in `result`.

        Raises:
            JobTimeoutError: the timeout passed first.
            StoppedError: ``stop`` was set first; the job goes on.
            KeyboardInterrupt: Ctrl-C: the watching ends, the job does not; the message says how to attach.
        """
        check("wait(...)", stop=stop, on_change=on_change)
        limit_s = None if timeout is None else seconds_of(timeout)
        shown = choose(progress, State)
        looked = (lambda: None) if on_change is None else Changes(self, self.now).telling(on_change)
        try:
            if stop is not None and shown.is_quiet:
                state = self._aside(stop, limit_s, looked)  # whose looks take long, too, are left at once
            else:
                state = self._to_the_end(shown, stop, limit_s, looked)
            return state
        except KeyboardInterrupt as pressed:
            if type(pressed) is not KeyboardInterrupt:  # a listener's own, or that of a handler
                raise
            text = f"stopped watching; the job keeps running. Reattach: gputrain.attach({self.uri!r})"
            raise KeyboardInterrupt(str(pressed) or text) from None
        finally:
            shown.close()

    def _to_the_end(
        self, shown: View, stop: StopEvent | None, limit_s: float | None, looked: Callable[[], None]
    ) -> State:
        sleep = self._context.sleep if stop is None else pausing(stop)
        started = last_sight = time.monotonic()
        is_seen = not shown.is_quiet
        while True:
            pause = pause_s(self.poll_s, time.monotonic() - started)
            try:
                self.refresh()
                looked()
                self.supervise()
                for lines in self._news() if is_seen else ():
                    shown.lines(without_cause(lines))
                last_sight = time.monotonic()
            except TransientError as error:
                if time.monotonic() - last_sight > BLIND_FOR_AT_MOST_S:
                    raise
                pause = max(pause, error.retry_after_s or 0.0)
            if is_seen:
                shown.status(self._shown_status())
            if self.state.is_terminal:
                return self.state
            if limit_s is not None and time.monotonic() - started > limit_s:
                raise self._too_long(limit_s)
            sleep(pause if limit_s is None else min(pause, limit_s))

    def _aside(self, stop: StopEvent, limit_s: float | None, looked: Callable[[], None]) -> State:
        """As `_to_the_end` in silence, with the looks in the thread that all share."""
        started, done = time.monotonic(), threading.Event()
        ends: list[Exception | None] = []

        def tell(error: Exception | None) -> None:
            try:
                if error is None:
                    looked()
            finally:  # whatever a listener raises
                if error is not None or self.state.is_terminal:
                    ends.append(error)
                    done.set()

        drop = WATCHER.watch(self, tell)
        try:
            while not done.wait(STOP_WITHIN_S):
                if stop.is_set():
                    pausing(stop)(0.0)
                if limit_s is not None and time.monotonic() - started > limit_s:
                    raise self._too_long(limit_s)
        finally:
            drop()
        if ends[0] is not None:
            raise ends[0]
        return self.state

    def _too_long(self, limit_s: float) -> JobTimeoutError:
        what = f"{self.id} is still {self.state.value} after {limit_s:g} s; it keeps running"
        fix = f"wait longer, or later: `gputrain wait {self.uri}`"
        return JobTimeoutError(what, fix=fix, uri=self.uri)

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
        All of a process share one thread that looks, for each platform.
        """
        return JobFuture.of(self, self._outcome)

    def __await__(self) -> Generator[Any, None, Result]:
        """As `result`, in an event loop. Cancelling it, or a timeout around it, leaves the job alone."""
        import asyncio  # whoever awaits has it

        return asyncio.wrap_future(self.future()).__await__()

    def watch(self, listener: Listener) -> Watching:
        """Tell a listener how the job stands, and each change, from a thread of ours until it ends.

        >>> with job.watch(print): ...                                                # doctest: +SKIP
        """
        check("watch(...)", listener=listener)
        return Watching.of(self, Changes(self, self.now), listener)

    def _outcome(self) -> Result:
        """The result of a job that has ended. Raises as `result`."""
        state = self._state
        if state is State.SUCCEEDED:
            took, cost = self.duration, self.cost_usd
            return Result(
                uri=self.uri,
                state=state,
                duration=took,
                cost_usd=cost,
                attempt=self.attempt,
                read=lambda: (self.metrics(), self.gpu_busy),
            )
        silence = self._silence() if state is State.EXPIRED else None
        error = ended(self.ref, state, self.failure, self.detail, silence)
        if isinstance(error, JobFailedError) and "NotFoundError: " in error.traceback and self.spec:
            is_sent = self.candidate is None or self.candidate.provisioning_model is not None
            mend = "" if self.spec.runs_image else missed(folder_of(self.spec), error.traceback)
            record, backend = self._record, self._backend
            python = "" if record is None or backend is None else backend.python(record)
            mend = mend or lacked(self.spec, error.traceback, is_sent=is_sent, python=python)
            mend = mend or next(arguments_from_here(self.spec, folder_of(self.spec)), "")
            error.fix = f"{mend}; {error.fix}" if mend else error.fix
        raise error

    def stacks(self, timeout: float | str | timedelta = 60.0) -> Stacks:
        """Where every rank stands: its Python stack, and the collective in which it waits. Disturbs none.

        Args:
            timeout: seconds to wait for all nodes; those that have not answered by then are told.

        Raises:
            RequestError: no ranks of it run, or its platform has no way to ask them.
            JobTimeoutError: no node has answered.
        """
        state = self.refresh().state
        # A platform may tell late that ranks run, whose lines are in the log already.
        if self.state.is_terminal or state in (None, State.QUEUED, State.INTERRUPTED):
            raise RequestError(
                f"{self.id} is {self.state.value}: no ranks of it run",
                fix="ask while it runs; the stacks of one that hung are in its error and its log",
            )
        nodes, limit_s = self.candidate.num_nodes if self.candidate else 1, seconds_of(timeout)
        if state is State.PROVISIONING:
            log.warning("%s is provisioning: its ranks may not run yet; asking for %g s", self.id, limit_s)
        record, backend = self._attempt_and_backend()
        return ask(record, backend, nodes, limit_s, self._context.sleep)

    def ssh_command(self, node: int = 0) -> str:
        """The command that opens a shell on a node.

        Raises:
            SpecError: the job has no such node.
            RequestError: its backend lets nobody in, or it has no machines now.
        """
        record, backend = self._attempt_and_backend()
        last = len(record.attempt.names) - 1 if record.attempt else 0
        if not 0 <= node <= last:
            raise invalid("node", node, f"a node of {self.id}: 0 to {last}", "node=0")
        return backend.ssh_command(record, node)

    def _attempt_and_backend(self) -> tuple[JobRecord, Backend]:
        record, backend = self._record, self._backend
        if record is None or backend is None or record.attempt is None:
            raise RequestError(f"{self.id} has no machines now", fix="wait until it runs")
        return record, backend

    def __reduce__(self) -> tuple[Any, ...]:
        return self._named, (self.uri,), self._state

    def __setstate__(self, state: State) -> None:
        self._state = state
