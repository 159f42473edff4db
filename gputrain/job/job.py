"""`Job`: the handle of one job, in the process that submitted it or in any other.

As JSON types it has the same keys in Python, on the command line, in events and in log records: times are
ISO 8601, durations seconds, prices US dollars; what is not known is null.
"""

from __future__ import annotations

import logging
import threading
import time
from collections.abc import Callable, Generator, Iterator, Mapping, Sequence
from concurrent.futures import Future
from contextlib import suppress
from datetime import datetime, timedelta
from functools import cached_property
from typing import Any, Literal, get_args

import attrs

from gputrain.backends.base import Backend, LogLine, Status
from gputrain.code import folder_of
from gputrain.code.bundle import missed
from gputrain.code.entry import arguments_from_here, lacked
from gputrain.display.live import ProgressWord, Status as ShownStatus, choose, job_status
from gputrain.display.table import Table, TableDisplay
from gputrain.errors import GputrainError, JobFailedError, JobTimeoutError, RequestError, TransientError
from gputrain.fields import Field, invalid, read_whole, whole, word
from gputrain.google.endpoints import on_emulator
from gputrain.job.files import JobFiles
from gputrain.job.logs import JobLog, LineFilter, pattern, without_cause
from gputrain.job.result import Result, ended
from gputrain.job.stacks import Stacks, ask
from gputrain.job.watcher import (
    BLIND_FOR_AT_MOST_S,
    JobFuture,
    Listener,
    StopEvent,
    Watching,
    changes,
    log_change,
    pause_s,
    pausing,
)
from gputrain.jobstore import JobRecord, JobRef, Launch, Stored
from gputrain.lifecycle import Failure, State
from gputrain.metrics import Metrics
from gputrain.orchestration.launcher import JUST_LAUNCHED, act
from gputrain.orchestration.look import Context, Found, cancel, grace_s_of, look, look_many
from gputrain.orchestration.options import candidate_of, ledger_of, moment, remaining
from gputrain.orchestration.reconciler import state_of
from gputrain.planning import Candidate, Ledger
from gputrain.spec import TrainingSpec
from gputrain.spec.duration import Moment, parse_moment, seconds_of
from gputrain.text import hide_secrets, redacted
from gputrain.times import picked, plain

log = logging.getLogger("gputrain")
NO_RECORD = JobRecord(job_id="none", spec={})
MetricsWord = Literal["script", "gpu"]
_LOGS = {one: Field(whole(0, 1 << 30), "a whole number from 0 on", f"{one}=5") for one in ("rank", "tail")}
_OF = {"of": Field(word(*get_args(MetricsWord)), "'script' or 'gpu'", "job.metrics('gpu')", is_needed=True)}


class Job(TableDisplay):
    """A job that was submitted, here or anywhere.

    Made by ``trainer.submit`` and `gputrain.attach`. Its ``uri`` is a string that any process can attach to.
    Losing the handle, or the process that holds it, does not touch the job.

    Args:
        ref: its name.
        context: how it is inspected; or what makes that when it is first needed.
        stored: its record, where it was just read or written.
        named: makes a job from its name, for a pickled one.
    """

    def __init__(
        self,
        ref: JobRef,
        context: Context | Callable[[], Context],
        *,
        stored: Stored | None = None,
        named: Callable[[str], Job],
    ) -> None:
        self.ref = ref
        self._context_or_opener = context
        self._named = named
        self._stored = stored
        self._found: Found | None = None
        self._state = State.QUEUED
        if stored is not None and stored.record.has_ended:
            self._state = state_of(stored.record.result)
        self._lock = threading.RLock()
        self.point: Mapping[str, Any] = {}
        """Which point of an experiment it runs; empty for a job of none."""

    @property
    def _context(self) -> Context:
        if not isinstance(self._context_or_opener, Context):
            self._context_or_opener = self._context_or_opener()
        return self._context_or_opener

    @cached_property
    def _log(self) -> JobLog:
        return JobLog(self)

    @property
    def _record(self) -> JobRecord:
        """As it was read last; an empty one where it cannot be read."""
        if self._stored is None:
            try:
                self._stored = self._context.jobs.read(self.id)
            except GputrainError as error:
                log.warning("the record of %s could not be read: %s", self.id, error.what)
        return NO_RECORD if self._stored is None else self._stored.record

    @property
    def _seen(self) -> Status:
        """How its attempt stood at the last look; or how the job ended, once its record says so."""
        record, seen = self._record, self._found.status if self._found else Status()
        if not record.has_ended:
            return seen
        return Status(
            detail=record.detail,
            failure=record.failure,
            started_at=moment(record.started_at) if record.started_at else seen.started_at,
            ended_at=moment(record.ended_at) if record.ended_at else seen.ended_at,
        )

    @property
    def _backend(self) -> Backend | None:
        """That of its attempt, where it is set up here."""
        return self._context.backends.get(self._record.backend)

    def now(self) -> datetime:
        """The time by the trainer's clock."""
        return self._context.now()

    @property
    def poll_s(self) -> float:
        """Seconds between two looks."""
        backends = [self._backend] if self._backend else self._context.backends.values()
        return min((one.poll_s for one in backends), default=5.0)

    @property
    def uri(self) -> str:
        """The name of the job: ``gputrain.attach(uri)`` finds it again, in any process, on any day."""
        return self.ref.uri

    @property
    def state(self) -> State:
        """The state at the last look; `refresh` looks anew."""
        return self._state

    @property
    def id(self) -> str:
        """The unique name of the job, which is in the names of its machines."""
        return self.ref.name

    @property
    def name(self) -> str:
        """The name of its spec; its `id` where the spec has none, or cannot be read."""
        spec = self.spec
        return self.id if spec is None or spec.name is None else spec.name

    @property
    def backend(self) -> str:
        """The backend of its attempt, or of its last one; empty: none yet."""
        return self._record.backend

    @property
    def spec(self) -> TrainingSpec | None:
        """What was asked for; a function is the script that was made of it. None where it cannot be read."""
        try:
            return self._record.training_spec
        except GputrainError as error:
            log.info("%s", error)
            return None

    @property
    def labels(self) -> Mapping[str, str]:
        """Those of its spec."""
        return {} if self.spec is None else self.spec.labels

    @property
    def created_at(self) -> datetime | None:
        """When it was first submitted; None where that cannot be read."""
        return moment(self._record.created_at) if self._record.created_at else None

    @property
    def candidate(self) -> Candidate | None:
        """Where it was placed last; None where it has no place yet."""
        record, spec = self._record, self.spec
        last = record.attempt or next((one for one in reversed(record.history) if one.has_run), None)
        if spec is None or last is None:
            return None
        return candidate_of(last.option, last.price_usd_h, remaining(record) or spec)

    @property
    def attempts(self) -> Ledger:
        """Every place that was tried, oldest first, and what it answered."""
        return Ledger() if self.spec is None else ledger_of(self._record)

    @property
    def started_at(self) -> datetime | None:
        """When ranks of its present attempt first ran; None before."""
        return self._seen.started_at

    @property
    def ended_at(self) -> datetime | None:
        """When it ended; None before."""
        return self._seen.ended_at if self._state.is_terminal else None

    @property
    def detail(self) -> str:
        """A few words on its state, in the platform's own terms."""
        return self._seen.detail

    @property
    def failure(self) -> Failure | None:
        """Why it ended without success; None before, and where it succeeded."""
        return self._seen.failure if self._state.is_terminal else None

    @property
    def attempt(self) -> int:
        """Which start of the job was seen last: 0 for the first, one more with each restart."""
        return self._record.restarts + self._seen.restarts

    @property
    def place(self) -> str:
        """Where its attempt is, or its last one was."""
        last = self._record.last
        return "" if last is None else last.option.place

    @property
    def machines(self) -> tuple[str, ...]:
        """The names of the machines of its present attempt, by node; empty where none bills."""
        attempt, placed = self._record.attempt, self.candidate
        is_billed = placed is not None and placed.provisioning_model is not None
        return attempt.names if is_billed and attempt is not None else ()

    @property
    def outputs(self) -> JobFiles:
        """Its results: their ``uri``, `JobFiles.list` and `JobFiles.download`."""
        return self._files("output_dir")

    @property
    def checkpoints(self) -> JobFiles:
        """Its state between attempts, as `outputs`."""
        return self._files("checkpoint_dir")

    def _files(self, field: str) -> JobFiles:
        backend, spec = self._backend, self.spec
        uri = (None if spec is None else getattr(spec, field)) or ""
        if backend is not None:
            with suppress(GputrainError):  # of another host
                uri = backend.place(self._record, field, uri)
        return JobFiles(uri=uri, backend=backend)

    @property
    def emulator(self) -> str:
        """The address of the emulator that runs it; empty: none does."""
        return self._context.emulator

    @property
    def duration(self) -> timedelta | None:
        """How long ranks have been running, all attempts together, at least 0; None before they start."""
        before_s = sum(one.ran_s for one in self._record.history)
        if self.started_at is None:
            return timedelta(seconds=before_s) if before_s else None
        this = (self.ended_at or self.now()) - self.started_at  # a clock may be behind the job's
        return timedelta(seconds=before_s) + max(this, timedelta(0))

    @property
    def cost_usd(self) -> float | None:
        """US dollars spent so far, at the dated price of the plan; None: unknown.

        Of an attempt that is over, with what its machines took before ranks ran, as far as that is known.
        """
        record = self._record
        if record.last is None or record.last.price_usd_h is None:
            return None
        if record.has_ended or record.attempt is None:
            return record.used_usd
        ranks_s = 0.0
        if self.started_at is not None:
            ranks_s = ((self.ended_at or self.now()) - self.started_at).total_seconds()
        return record.used_usd + record.last.price_usd_h * max(0.0, ranks_s, self._seen.ran_s) / 3600

    def to_dict(self) -> dict[str, Any]:
        """All that is known of the job, as JSON types; the command line prints the same."""
        candidate, spec = self.candidate, self.spec
        return {
            **picked(self, "uri id name"),
            "backend": self.backend or None,
            "project": self.ref.project or None,
            "place": self.place or None,
            **picked(self, "state detail labels created_at started_at ended_at"),
            "duration_s": plain(self.duration),
            **picked(self, "cost_usd failure"),
            "outputs": self.outputs.uri or None,
            "checkpoints": self.checkpoints.uri or None,
            "candidate": None if candidate is None else candidate.placed(),
            "attempts": [
                {**picked(one.candidate, "backend place"), **picked(one, "at outcome answer")}
                for one in self.attempts
            ],
            "spec": None if spec is None else _without_secrets(spec.to_dict()),
        }

    @property
    def table(self) -> Table:
        """The job in a few rows."""
        cost, placed = self.cost_usd, self.candidate
        took = None if self.duration is None else str(self.duration)
        rows = {
            "state": self._state.value,
            "uri": self.uri,
            "runs on": placed.gpus if placed else "",
            "machine": placed.machine_type if placed else "",
            "ran for" if self._state.is_terminal else "running for": str(took or "").split(".")[0],
            "detail": "" if self.detail == self._state.value else self.detail,
            "cost": f"${cost:,.2f}" if cost else "",
            "resources": ", ".join(self.machines),
            "outputs": self.outputs.uri,
            "checkpoints": self.checkpoints.uri,
        }
        shown = [(name, text) for name, text in rows.items() if text]
        return Table(title=f"Job {self.id}{on_emulator(self.emulator)}", columns=("", " "), rows=shown)

    def refresh(self) -> Status:
        """Look at the job once; what was seen, with the job's state, which is None where it is not known.

        Raises:
            JobLostError: it has no record.
            TransientError: it could not be inspected now; the state stays what it was.
        """
        found = self._found
        if found is None or not self._state.is_terminal:
            found = look(self._context, self.id)
            self._take(found)
        return attrs.evolve(found.status, state=found.state)

    @property
    def platform(self) -> str:
        """Where its record lies: jobs of one store are inspected together."""
        return self._context.jobs.documents.uri

    @property
    def is_one(self) -> bool:
        """Whether there is, or was, a job: a submit that failed leaves a record only."""
        return not self._record.has_ended or self._record.was_taken

    @property
    def has_step(self) -> bool:
        """Whether the last look found something for `supervise` to do."""
        return self._found is not None and self._found.has_step

    @staticmethod
    def refresh_many(jobs: Sequence[Job]) -> list[Exception | None]:
        """Look at many jobs by a few calls; the error of each that could not be seen."""
        errors: dict[int, Exception | None] = {}
        groups: dict[int, list[Job]] = {}
        for job in jobs:
            groups.setdefault(id(job._context.jobs), []).append(job)
        for group in groups.values():
            ids = list(dict.fromkeys(job.id for job in group))
            try:
                found: Mapping[str, Found | Exception] = look_many(group[0]._context, ids)
            except Exception as error:  # noqa: BLE001  # reported to each waiter: it must not end their thread
                found = dict.fromkeys(ids, error)
            for job in group:
                one = found[job.id]
                errors[id(job)] = one if isinstance(one, Exception) else None
                if isinstance(one, Found):
                    job._take(one)
        return [errors[id(job)] for job in jobs]

    def _take(self, found: Found) -> None:
        with self._lock:
            if self._state.is_terminal and self._found is not None and found.state is not self._state:
                return  # what ended stays so with its log, though another process launched it again meanwhile
            self._found = found
            self._become(found.stored, found.state)

    def _become(self, stored: Stored, state: State | None) -> None:
        """Take over what was read, and a state that is known; an end stays."""
        with self._lock:
            before, self._stored = self._state, stored
            if state is not None and not before.is_terminal:
                self._state = state
        if self._state is not before:
            log_change(self, before)

    def supervise(self) -> bool:
        """Take the one step that the last look calls for: adopt the job, end it, or launch it again.

        `wait` does so by itself, in any process whose backends are set as those that made the job; others
        only watch. True where this call launched it.
        """
        found = self._found
        if found is None:
            return False
        done = act(self._context, found)
        if done is found:
            return False
        self._take(done)
        attempt = done.stored.record.attempt
        is_launched = attempt is not None and attempt.state is Launch.LAUNCHED
        is_mine = is_launched and done.status is JUST_LAUNCHED  # else another process was quicker
        if is_mine:
            log.warning("%s is launched again, at %s", self.uri, self.place)
        return is_mine

    def cancel(self) -> None:
        """Stop the job; its ranks may save first. Cancelling twice is cancelling once."""
        stored = cancel(self._context, self.id, grace_s_of(self.spec))
        if stored is None:
            self.refresh()  # it raises that there is no such job
            return
        record = stored.record
        self._become(stored, state_of(record.result) if record.has_ended else State.STOPPING)

    def wait(
        self,
        timeout: float | str | timedelta | None = None,
        *,
        progress: ProgressWord | None = None,
        stop: StopEvent | None = None,
        on_change: Listener | None = None,
    ) -> State:
        """Wait for the end, showing logs, metrics and cost meanwhile.

        Args:
            timeout: seconds (``"2h"``, or a timedelta) after which to stop waiting; the job continues.
            progress: ``auto`` (rich text in a terminal, html in a notebook, otherwise nothing), ``rich``,
                ``plain`` or ``none``; ``$GPUTRAIN_PROGRESS`` sets it for a whole process.
            stop: a `threading.Event`; once it is set, the waiting ends.
            on_change: called with a `JobEvent` for the present state, and for each change; an `Exception`
                of it is logged.

        Returns:
            The terminal state. A failed job raises only in `result`.

        Raises:
            JobTimeoutError: the timeout passed first.
            StoppedError: ``stop`` was set first; the job continues.
            KeyboardInterrupt: Ctrl-C: the watching ends, the job does not; the message says how to attach.
        """
        limit_s = None if timeout is None else seconds_of(timeout)
        shown = choose(progress, State)
        report: Callable[[], object] = str if on_change is None else changes(self, on_change)
        sleep = self._context.sleep if stop is None else pausing(stop)
        started = last_sight = time.monotonic()
        try:
            while True:
                pause = pause_s(self.poll_s, time.monotonic() - started)
                try:
                    self.refresh()
                    report()
                    self.supervise()
                    for lines in () if shown.is_quiet else self._log.news():
                        shown.lines(without_cause(lines))
                    last_sight = time.monotonic()
                except TransientError as error:
                    if time.monotonic() - last_sight > BLIND_FOR_AT_MOST_S:
                        raise
                    pause = max(pause, error.retry_after_s or 0.0)
                if not shown.is_quiet:
                    shown.status(self._shown_status())
                if self._state.is_terminal:
                    return self._state
                if limit_s is not None and time.monotonic() - started > limit_s:
                    what = f"{self.id} is still {self.state.value} after {limit_s:g} s; it keeps running"
                    fix = f"wait longer, or later: `gputrain wait {self.uri}`"
                    raise JobTimeoutError(what, fix=fix, uri=self.uri)
                sleep(pause if limit_s is None else min(pause, limit_s))
        except KeyboardInterrupt as pressed:
            text = f"stopped watching; the job keeps running. Reattach: gputrain.attach({self.uri!r})"
            raise KeyboardInterrupt(str(pressed) or text) from None
        finally:
            shown.close()

    def _shown_status(self) -> ShownStatus:
        return job_status(
            title=self.id,
            state=self._state,
            elapsed=self.duration or timedelta(0),
            detail=self.detail,
            metrics=self._log.reports.metrics,
            gpu_busy=self._log.machines.busy,
            cost_usd=self.cost_usd,
            failure=self.failure,
        )

    def result(
        self, timeout: float | str | timedelta | None = None, *, stop: StopEvent | None = None
    ) -> Result:
        """Wait for the end, and return how the job succeeded.

        Raises:
            JobFailedError: with the first failing rank's own traceback.
            JobError: it was cancelled, or expired.
            JobTimeoutError, StoppedError: as for `wait`.
        """
        self.wait(timeout, progress="none", stop=stop)
        return self._outcome()

    def future(self) -> Future[Result]:
        """The result as a future. Cancelling it ends this watching, and never the job.

        What waits for futures waits for jobs: `concurrent.futures.as_completed`, `asyncio.wrap_future`.
        One thread of the process looks at all jobs of a platform.
        """
        return JobFuture(self, self._outcome)

    def __await__(self) -> Generator[Any, None, Result]:
        """As `result`, in an event loop. Cancelling it, or a timeout around it, leaves the job alone."""
        import asyncio  # who awaits has it

        return asyncio.wrap_future(self.future()).__await__()

    def watch(self, listener: Listener) -> Watching:
        """Call a listener with the present state and each change, from our thread, until the job ends.

        >>> with job.watch(print): ...                                                # doctest: +SKIP
        """
        return Watching(self, listener)

    def _outcome(self) -> Result:
        """The result of a job that has ended. Raises as `result`."""
        if self._state is State.SUCCEEDED:
            return Result(
                uri=self.uri,
                state=self._state,
                duration=self.duration,
                cost_usd=self.cost_usd,
                attempt=self.attempt,
                read=lambda: (self.metrics(), self.gpu_busy),
            )
        silence = self._log.silence() if self._state is State.EXPIRED else None
        error = ended(self.ref, self._state, self.failure, self.detail, silence)
        spec = self.spec
        if isinstance(error, JobFailedError) and "NotFoundError: " in error.traceback and spec:
            is_sent = self.candidate is None or self.candidate.provisioning_model is not None
            python = self._backend.python(self._record) if self._backend else ""
            fix = "" if spec.runs_image else missed(folder_of(spec), error.traceback)
            fix = fix or lacked(spec, error.traceback, is_sent=is_sent, python=python)
            fix = fix or next(arguments_from_here(spec, folder_of(spec)), "")
            error.fix = f"{fix}; {error.fix}" if fix else error.fix
        raise error

    def logs(
        self,
        *,
        rank: int | None = None,
        since: Moment | None = None,
        tail: int | None = None,
        grep: str | None = None,
        metrics: bool = False,
        follow: bool = False,
        stop: StopEvent | None = None,
    ) -> Iterator[LogLine]:
        """Log lines, oldest first, each once; read as the iterator advances, however long the log is.

        Args:
            rank: only this rank's lines; all ranks and agents by default.
            since: only lines from then on; ``"10m"`` or a timedelta counts back from now.
            tail: only the last so many lines, after the other filters.
            grep: only lines in which this regular expression is found.
            metrics: with the lines in which ranks report metrics, as they were written.
            follow: continue until the job has ended, also where nothing can be read for some minutes.
            stop: a `threading.Event` that ends the following.

        Raises:
            RequestError: ``grep`` is no regular expression.
            SpecError: ``since`` is no moment, the job has no such ``rank``, or ``tail`` is below 0.
            TransientError: while they are read, nothing could be; where it is followed, for five minutes.
        """
        read_whole("logs(...)", _LOGS, {"rank": rank, "tail": tail})
        wanted = LineFilter(
            rank=rank,
            since=None if since is None else parse_moment(since, self.now()),
            grep=None if grep is None else pattern(grep),
            metrics=metrics,
        )
        placed = None if rank is None else self.candidate
        if rank is not None and placed is not None:
            last = (placed.num_nodes + placed.missing_nodes) * placed.nproc_per_node - 1
            if rank > last:
                raise invalid("rank", rank, f"a rank of {self.id}: 0 to {last}", f"rank={last}")
        return self._log.lines(wanted, tail, follow, stop)

    def metrics(self, of: MetricsWord = "script") -> Metrics:
        """What the script reported so far with ``session.report``; a long series is thinned.

        Args:
            of: ``script``, or ``gpu``: what machines measured every 15 s, as ``node0.gpu_busy`` (percent),
                ``gpu_watts``, ``gpu_memory_mib``, ``gpu_celsius`` (the hottest), ``cpu_cores`` and
                ``memory_mib`` of the ranks.

        Raises:
            SpecError: any other word.
        """
        of = read_whole("", _OF, {"of": of})["of"]
        for _ in self._log.news():
            pass
        return self._log.machines.metrics if of == "gpu" else self._log.reports.metrics

    @property
    def gpu_busy(self) -> float | None:
        """The share of the GPUs' time, while ranks ran, in which kernels ran: 0 to 1; None: unknown.

        From the log, as far as `wait` or `metrics` has read it.
        """
        return self._log.machines.share

    def stacks(self, timeout: float | str | timedelta = 60.0) -> Stacks:
        """Where every rank stands: its Python stack, and the collective in which it waits. Disturbs none.

        Args:
            timeout: seconds to wait for all nodes; those that have not answered by then are named.

        Raises:
            RequestError: no ranks of it run, or its platform has no way to ask them.
            JobTimeoutError: no node has answered.
        """
        state = self.refresh().state
        # A platform may report late that ranks run, whose lines are in the log already.
        if self.state.is_terminal or state in (None, State.QUEUED, State.INTERRUPTED):
            what = f"{self.id} is {self.state.value}, and stacks are those of running ranks"
            raise RequestError(what, fix="the stacks of a job that hung are in its error and its log")
        nodes, limit_s = self.candidate.num_nodes if self.candidate else 1, seconds_of(timeout)
        if state is State.PROVISIONING:
            log.warning("%s is provisioning: its ranks may not run yet; asking for %g s", self.id, limit_s)
        backend, record = self._with_machines()
        return ask(record, backend, nodes, limit_s, self._context.sleep)

    def ssh_command(self, node: int = 0) -> str:
        """The command that opens a shell on a node.

        Raises:
            SpecError: the job has no such node.
            RequestError: its backend has no shell, or it has no machines now.
        """
        backend, record = self._with_machines()
        last = len(record.attempt.names) - 1 if record.attempt else 0
        if not 0 <= node <= last:
            raise invalid("node", node, f"a node of {self.id}: 0 to {last}", "node=0")
        return backend.ssh_command(record, node)

    def _with_machines(self) -> tuple[Backend, JobRecord]:
        backend, record = self._backend, self._record
        if backend is None or record.attempt is None:
            raise RequestError(f"{self.id} has no machines now", fix="wait until it runs")
        return backend, record

    def __eq__(self, other: object) -> bool:
        return isinstance(other, Job) and other.uri == self.uri

    def __hash__(self) -> int:
        return hash(self.uri)

    def __repr__(self) -> str:
        known = self._context_or_opener
        emulator = on_emulator(known.emulator) if isinstance(known, Context) else ""
        return f"<Job {self.uri} {self._state.value}{emulator}>"

    def __reduce__(self) -> tuple[Any, ...]:
        return self._named, (self.uri,), self._state

    def __setstate__(self, state: State) -> None:
        self._state = state


def _without_secrets(spec: dict[str, Any]) -> dict[str, Any]:
    """The spec, with what looks secret hidden: documents are printed and kept."""
    shown: dict[str, Any] = redacted({name: one for name, one in spec.items() if name != "secrets"})
    shown |= {"env": hide_secrets(spec["env"])} if "env" in spec else {}
    return {name: shown.get(name, one) for name, one in spec.items()}  # its secrets are references
