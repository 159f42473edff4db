"""`Experiment`: many jobs as one thing, in any process, on any day."""

from __future__ import annotations

import json
import math
import time
from collections.abc import Callable, Iterable, Iterator, Sequence
from datetime import timedelta
from typing import Any, Protocol

import attrs

from gputrain import causes
from gputrain.code.function import check_call
from gputrain.concurrency import gather
from gputrain.display.live import ProgressWord, View, choose
from gputrain.display.table import TableDisplay
from gputrain.errors import GputrainError, JobTimeoutError, RequestError, StoppedError
from gputrain.experiments.comparison import NO_JOB, Comparison
from gputrain.experiments.points import Arguments, Point, arguments_of, read_points
from gputrain.experiments.record import (
    TO_RETRY,
    Entry,
    ExperimentRecord,
    ExperimentStore,
    may_cost,
    used_usd,
)
from gputrain.experiments.runner import Runner, concurrency_limit, log
from gputrain.fields import Errors, Field, matching, number, read_whole, whole
from gputrain.google.endpoints import on_emulator
from gputrain.job import Job, Result
from gputrain.job.watcher import STOP_WITHIN_S, StopEvent
from gputrain.jobstore import DocumentStore, read_spec, spec_of
from gputrain.lifecycle import State
from gputrain.planning import Candidate
from gputrain.spec import TrainingSpec
from gputrain.spec.duration import seconds_of
from gputrain.spec.entry import ARGUMENTS, make_job_id

_LIMITS = {
    "name": Field(
        matching(r"[a-z](?:[-a-z0-9]{0,38}[a-z0-9])?"),
        "at most 40 small letters, digits and hyphens, starting with a letter",
        "name='lr-scan'",
        is_needed=True,
    ),
    "max_parallel": Field(whole(1, 10**6), "a whole number above 0", "max_parallel=4"),
    "max_cost": Field(number(0, math.inf), "US dollars, above 0", "max_cost=20"),
}


class Submits(Protocol):
    """What an experiment needs of its trainer, which is of a higher layer."""

    def plan(self, entry: TrainingSpec) -> Any: ...

    def submit(
        self, entry: TrainingSpec, *, idempotency_key: str | None = None, stop: StopEvent | None = None
    ) -> Job: ...

    def jobs(self, *, name: str = "") -> Iterable[Job]: ...


@attrs.frozen(kw_only=True)
class PointOutcome(TableDisplay):
    point: Point
    job: Job | None
    """None: it could not be submitted."""
    error: GputrainError | None
    """Why there is no result; None where there is one."""
    value: Result | None = attrs.field(repr=False)

    @property
    def result(self) -> Result:
        """The result. Raises the error, where there is one."""
        if self.error is not None:
            raise self.error
        assert self.value is not None
        return self.value


class Experiment(Comparison):
    """One job per point, each submitted once, however often and wherever the script runs.

    Made by ``trainer.map``, and by ``trainer.experiment`` from its name. A thread of this process submits
    what is missing. The jobs outlive the process; run the same script again to resume. It shows itself as a
    table.
    """

    def __init__(
        self,
        trainer: Submits,
        store: ExperimentStore,
        record: ExperimentRecord,
        base: TrainingSpec,
        best: Candidate | None,
        refusal: RequestError | None = None,
    ) -> None:
        """Begin to submit what is missing.

        Args:
            best: where jobs would run, which says how many may run at a time where the record does not.
            refusal: why nothing can be submitted from here; jobs are watched.
        """
        super().__init__(())
        self.name = record.name
        self.points = tuple(entry.point for entry in record.entries)
        """In the order in which they were given."""
        self.title = f"Experiment {record.name}"
        self._trainer, self._store, self._base, self._refusal = trainer, store, base, refusal
        self._entries = record.entries
        found = {
            job.id: job
            for job in trainer.jobs(name=record.name)
            # else the process that submitted it died before it could start it
            if job.failure is None or job.failure.kind != causes.UNSTARTED.kind
        }
        ids = [make_job_id(base, entry.key(self.name)) for entry in self._entries]
        jobs = {n: found[one] for n, one in enumerate(ids) if one in found}
        for n, job in jobs.items():
            job.point = self.points[n]
        running = sum(not job.state.is_terminal for job in jobs.values())
        limit = concurrency_limit(record.max_parallel, best, running)
        self._runner = Runner(self._submit, limit)
        # who submitted a queued job may have died: submitting it again finds it, or starts it
        queued = [] if refusal else [n for n, job in jobs.items() if job.state is State.QUEUED]
        for n, job in jobs.items():
            if n not in queued:
                self._runner.watch(n, job)
        self._runner.add([*queued, *(n for n in range(len(ids)) if n not in jobs)])
        if store.is_cancelled():
            self._runner.drop_queue(_cancelled())

    def _submit(self, n: int, stop: StopEvent) -> Job:
        if self._refusal is not None:
            raise self._refusal
        if self._store.is_cancelled():
            raise _cancelled()
        entry = self._entries[n]
        job = self._trainer.submit(entry.spec(self._base), idempotency_key=entry.key(self.name), stop=stop)
        job.point = entry.point
        try:
            if self._store.is_cancelled():  # meanwhile, by a process that did not see this job
                job.cancel()
        except GputrainError as error:  # it is paid for, and keeps its place
            log.warning("%s keeps running, also if %s was just cancelled: %s", job.id, self.name, error.what)
        return job

    @property
    def rows(self) -> Sequence[tuple[Point, Job | None]]:
        jobs = self._runner.jobs
        return [(point, jobs.get(n)) for n, point in enumerate(self.points)]

    @property
    def errors(self) -> Sequence[GputrainError]:
        return tuple(self._runner.errors.values())

    @property
    def is_over(self) -> bool:
        """Whether every point has ended."""
        return len(self._runner.ended) >= len(self.points)

    @property
    def cost_usd(self) -> float | None:
        """US dollars spent so far by the jobs whose price is known; None: none is."""
        known = [job.cost_usd for job in self.jobs if job.cost_usd is not None]
        return sum(known) if known else None

    @property
    def caption(self) -> str:
        """How many points are in which state, and what they have cost."""
        states = [job.state.value if job else NO_JOB for _, job in self.rows]
        counts = ", ".join(f"{states.count(state)} {state}" for state in dict.fromkeys(states))
        points = "1 point" if len(states) == 1 else f"{len(states)} points"
        return f"{points}: {counts}" + (f"; ${self.cost_usd:,.2f}" if self.cost_usd else "")

    def as_completed(
        self, timeout: float | str | timedelta | None = None, *, stop: StopEvent | None = None
    ) -> Iterator[Job]:
        """Each job as it ends, first those that have; also those that `retry_failed` submits meanwhile.

        A point without a job is in `results` only.

        Args:
            timeout: seconds, ``"2h"`` or a timedelta, after which to stop waiting.
            stop: a `threading.Event` that ends the waiting.

        Raises:
            JobTimeoutError, StoppedError: the time passed, or ``stop`` was set, or it was closed here.
        """
        for job in self._as_ended(timeout, stop, View()):
            if job is not None:
                yield job

    def _as_ended(
        self, timeout: float | str | timedelta | None, stop: StopEvent | None, view: View
    ) -> Iterator[Job | None]:
        until = math.inf if timeout is None else time.monotonic() + seconds_of(timeout)
        again = f"trainer.experiment({self.name!r})"
        given: dict[int, Job | None] = {}
        while True:
            ended = dict(self._runner.ended)
            new = {n: job for n, job in ended.items() if n not in given or given[n] is not job}
            left = len(self.points) - len(ended)
            given |= new
            yield from new.values()
            if new:
                continue
            if not left:
                return
            if self._runner.is_closed:
                what = f"{self.name} was closed here; its jobs keep running"
                raise StoppedError(what, fix=f"{again}.wait()")
            if stop is not None and stop.is_set():
                raise StoppedError(f"the waiting for {self.name} was stopped; its jobs keep running")
            if time.monotonic() > until:
                what = f"{left} points of {self.name} have not ended"
                raise JobTimeoutError(what, fix=f"wait longer, or later: {again}.wait()")
            try:
                if view.is_due():
                    view.status(self._status())
                time.sleep(STOP_WITHIN_S)
            except KeyboardInterrupt:
                what = f"stopped watching; the jobs keep running. To resume: {again}"
                raise KeyboardInterrupt(what) from None

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
                ``plain``: a line whenever the states of points change; ``none``.
        """
        view = choose(progress, Experiment)
        try:
            for _ in self._as_ended(timeout, stop, view):
                pass
            if not view.is_quiet:
                view.status(self._status())
        finally:
            view.close()
        return self

    def results(
        self, timeout: float | str | timedelta | None = None, *, stop: StopEvent | None = None
    ) -> tuple[PointOutcome, ...]:
        """How each point ended, in the order of the points, once all have. Raises as `as_completed`."""
        self.wait(timeout, progress="none", stop=stop)
        outcomes = []
        for n, (point, job) in enumerate(self.rows):
            value, error = None, self._runner.errors.get(n)
            try:
                value = None if job is None else job.result()
            except GputrainError as why:
                error = why
            outcomes.append(PointOutcome(point=point, job=job, error=error, value=value))
        return tuple(outcomes)

    def retry_failed(self) -> Experiment:
        """Submit again the points that failed, expired or could not be submitted; returns this experiment.

        Each such point has a new job from now on, in every process that resumes the experiment. The earlier
        job stays among ``trainer.jobs()``, and its cost counts against the point's share of ``max_cost``. A
        point that was cancelled stays as it is.

        Raises:
            RequestError: it was cancelled, or closed here, or its function is not here; nothing is submitted.
        """
        if self._refusal is not None:
            raise self._refusal
        if self._store.is_cancelled():
            raise RequestError(f"{self.name} was cancelled: no more of it is submitted", fix=_ANEW)
        if self._runner.is_closed:
            fix = f"trainer.experiment({self.name!r}).retry_failed(), or run the script again"
            raise RequestError(f"{self.name} was closed here", fix=fix)
        failed = []
        for n, job in list(self._runner.jobs.items()):
            if job.state in TO_RETRY:
                before = self._entries[n]
                used = before.used_usd + used_usd(job, before.limit_usd)
                failed.append(attrs.evolve(before, retries=before.retries + 1, used_usd=used))
        known = self._entries
        self._entries = self._store.retry(failed).only(self.points).entries
        retried = (n for n, entry in enumerate(self._entries) if entry.retries != known[n].retries)
        self._runner.add(sorted({*retried, *self._runner.errors}))
        return self

    def cancel(self) -> None:
        """End all of it: no process submits more points, and every job of it that runs is cancelled.

        Raises:
            GputrainError: the first error, after all other jobs were cancelled.
        """
        errors = [_error_of(self._store.cancel)]  # first: what is submitted from now on ends by itself
        self._runner.drop_queue(_cancelled())
        jobs = {job.id: job for job in self.jobs}
        try:  # jobs of all its points, not of those alone that are looked at here
            ids = self._store.read().job_ids(self._base)
            jobs = {**{job.id: job for job in self._trainer.jobs(name=self.name) if job.id in ids}, **jobs}
        except GputrainError as error:
            errors.append(error)
        running = [job for job in jobs.values() if not job.state.is_terminal]
        errors += gather(lambda job: _error_of(job.cancel), running)
        for one in filter(None, errors):
            raise one

    def close(self) -> None:
        """Submit nothing more from this process, and stop watching. The jobs keep running.

        Waits for it in this process end with StoppedError; ``trainer.experiment(name)`` resumes it.
        """
        self._runner.close()

    def __repr__(self) -> str:
        where = next((on_emulator(job.emulator) for job in self.jobs), "")
        return f"<Experiment {self.name} {self.caption}{where}>"


_ANEW = "map what is still wanted under another name="


def _cancelled() -> RequestError:
    return RequestError("it was not submitted: the experiment was cancelled", fix=_ANEW)


def _error_of(call: Callable[[], object]) -> GputrainError | None:
    try:
        call()
    except GputrainError as error:
        return error
    return None


def map_points(
    trainer: Submits,
    documents: DocumentStore,
    base: TrainingSpec,
    over: Iterable[Point],
    *,
    name: str,
    arguments: Arguments | None,
    max_parallel: int | None,
    max_cost: float | None,
) -> Experiment:
    """The experiment of that name, with its record written before any job is submitted.

    Errors as of `Trainer.map`.
    """
    points = read_points(over)
    limits: dict[str, Any] = {"name": name, "max_parallel": max_parallel, "max_cost": max_cost}
    limits = read_whole("the experiment", _LIMITS, limits)
    base = base.replace(name=None)  # its jobs are found by the experiment's
    is_function = base.function is not None
    if is_function and base.args[:1] == (ARGUMENTS,):  # functools.partial: what all points share
        common = json.loads(base.args[1])
        points, base = read_points({**common, **point} for point in points), base.replace(args=())
    entries = tuple(
        Entry(point=one, args=(*base.args, *arguments_of(one, is_function, arguments))) for one in points
    )
    if base.function is not None:
        for entry in entries:
            check_call(base.function, json.loads(entry.args[1]) if entry.args[:1] == (ARGUMENTS,) else {})
    spec = spec_of(base, f"{base.title}.py")
    asked = ExperimentRecord(spec=spec, entries=entries, is_function=is_function, **limits)
    plans: list[Any] = []

    def costs(record: ExperimentRecord) -> list[float | None]:
        found = {job.id: job for job in trainer.jobs(name=name)} if record.entries else {}
        jobs = (found.get(make_job_id(base, entry.key(name))) for entry in record.entries)
        return [
            may_cost(job, entry.used_usd, entry.limit_usd or base.max_cost)
            for job, entry in zip(jobs, record.entries)
        ]

    def join(there: ExperimentRecord | None) -> ExperimentRecord:
        empty = attrs.evolve(asked, entries=(), max_cost=None)
        record = (there or empty).joined(asked, costs)
        # planned before it is written, and with the whole limit: what is used up is a point's own
        first = attrs.evolve(record.only(points).entries[0], used_usd=0.0)
        plan = trainer.plan(first.spec(base))
        faults = Errors("the spec")
        faults.faults += plan.faults
        faults.raise_if_any()
        plan.check_fits()
        plans.append(plan)
        return record

    store = ExperimentStore(documents, name)
    record = store.change(join)
    return Experiment(trainer, store, record.only(points), base, plans[-1].best)


def resume(trainer: Submits, documents: DocumentStore, name: str) -> Experiment:
    """The experiment of that name; what is missing is submitted, unless it is of a function.

    Raises:
        JobLostError: there is none.
    """
    store = ExperimentStore(documents, name)
    record = store.read()
    base = read_spec({**record.spec, "name": None}, f"the experiment {name}")
    if record.is_function:
        refusal = RequestError(
            f"the function {base.title.removesuffix('.py')} is not here: {name} is only watched",
            fix="run the script with its trainer.map(...) again: it submits what is missing, once",
        )
        return Experiment(trainer, store, record, base, None, refusal)
    best = None if record.max_parallel else trainer.plan(base).best
    return Experiment(trainer, store, record, base, best)
