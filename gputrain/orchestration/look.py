"""How jobs stand, and the step that comes next for each. A look changes nothing; a step is one swap."""

from __future__ import annotations

import logging
from collections.abc import Callable, Iterator, Mapping, Sequence
from contextlib import suppress
from datetime import datetime, timedelta
from functools import partial
from itertools import chain

import attrs

from gputrain import causes
from gputrain.backends.base import Backend, Bundle, Status
from gputrain.concurrency import gather
from gputrain.errors import GputrainError, JobLostError
from gputrain.jobstore import Attempt, Conflict, JobRecord, JobStore, Launch, Stored
from gputrain.lifecycle import State
from gputrain.orchestration import reconciler
from gputrain.orchestration.options import refusals_of, remaining
from gputrain.orchestration.reconciler import Action, Adopt, End, Nothing, Replace, Retry, Rules, Terminate
from gputrain.planning import Attempt as Answer, Blocks, Candidate, Failover
from gputrain.runtime import contract
from gputrain.spec import TrainingSpec

log = logging.getLogger("gputrain")

FRESH_S = 20.0
"""How old a read may be that is acted on: a laptop sleeps, and wakes in the middle."""


@attrs.define(eq=False)
class Memory:
    """What the submits of one trainer learn from each other."""

    blocks: Blocks = Blocks()
    """Where there was no room."""


@attrs.frozen(kw_only=True, eq=False)
class Context:
    """How a trainer's jobs are launched and inspected."""

    jobs: JobStore
    backends: Mapping[str, Backend]
    code: Callable[[JobRecord, str], Bundle]
    """The code of a job where a backend looks for it, uploaded unless it is there."""
    candidates_left: Callable[[JobRecord], tuple[Candidate, ...]]
    """Where a job may run again: on backends that are set as its record says, and find its code."""
    refresh: Callable[[Sequence[Candidate]], tuple[Candidate, ...]]
    """The candidates with facts of now, ranked."""
    now: Callable[[], datetime]
    sleep: Callable[[float], None]
    memory: Memory = attrs.field(factory=Memory)
    emulator: str = ""
    """The address of the emulator that stands for Google; empty: none does."""

    def waited_s(self, record: JobRecord) -> float:
        """How long a job has waited for room."""
        return self.now().timestamp() - record.waiting_since if record.waiting_since else 0.0


@attrs.frozen(kw_only=True)
class Found:
    """A job as one look saw it: its record, its attempt, the state that follows, and what comes next."""

    stored: Stored
    status: Status
    state: State | None
    """None: it could not be seen."""
    action: Action
    at: datetime
    """When the look began."""
    lost: tuple[JobRecord, ...] = ()
    """The record with each attempt of a lost launch, where nothing in a late job leaves by itself."""

    @property
    def has_step(self) -> bool:
        """Whether `take_step` has something to do."""
        return bool(self.lost) or not isinstance(self.action, Nothing)

    @property
    def is_over(self) -> bool:
        """Whether it has ended, or has had the time that it was given to end."""
        return (self.state is not None and self.state.is_terminal) or isinstance(self.action, Terminate)


def look(context: Context, job_id: str) -> Found:
    """How a job stands, and what comes next for it. Changes nothing. JobLostError: it has no record."""
    found = look_many(context, [job_id])[job_id]
    if isinstance(found, Exception):
        raise found
    return found


def look_many(context: Context, job_ids: Sequence[str]) -> dict[str, Found | Exception]:
    """How jobs stand, all of them by a few calls; what cannot be looked at is there with its error."""
    at, read = context.now(), context.jobs.read_many(job_ids)
    attempts: dict[str, list[JobRecord]] = {}
    for stored in read.values():
        if isinstance(stored, Stored) and stored.record.attempt is not None and not stored.record.has_ended:
            attempts.setdefault(stored.record.backend, []).append(stored.record)
    statuses = dict(chain.from_iterable(gather(partial(_inspect, context), attempts.items())))
    found: dict[str, Found | Exception] = {}
    for job_id in job_ids:
        one, status = read.get(job_id) or lost(context.jobs, job_id), statuses.get(job_id, Status())
        try:
            if not isinstance(one, Stored):
                found[job_id] = one
            else:
                found[job_id] = found_of(context, one, status, at) if isinstance(status, Status) else status
        except GputrainError as error:  # its spec cannot be read: it hides no other job
            found[job_id] = error
    return found


def _inspect(
    context: Context, asked: tuple[str, Sequence[JobRecord]]
) -> list[tuple[str, Status | Exception]]:
    """What one backend sees of these jobs; the refusal of each where it cannot be asked at all."""
    name, records = asked
    if name not in context.backends:
        return [(one.job_id, Status(detail=f"it runs on {name}")) for one in records]
    try:
        seen = context.backends[name].inspect_many(records)
    except Exception as error:  # noqa: BLE001  # of whichever kind: it hides no other backend's answer
        return [(one.job_id, error) for one in records]
    return [(one.job_id, seen.get(one.job_id, Status())) for one in records]


def lost(jobs: JobStore, job_id: str) -> JobLostError:
    """The error for a job without a record."""
    return JobLostError(
        f"there is no job {job_id}",
        why=f"there is no record of it in {jobs.documents.uri}",
        fix="list jobs with `gputrain jobs` or trainer.jobs(), or attach on the machine that runs it",
        uri=jobs.documents.ref(job_id).uri,
    )


def found_of(context: Context, stored: Stored, status: Status, at: datetime) -> Found:
    record = stored.record
    rules, waited_s = _rules(context, record, status), context.waited_s(record)
    action = reconciler.decide(record, status, stored.age_s, rules, waited_s=waited_s)
    state: State | None = State.INTERRUPTED if record.restarts or status.has_run else State.QUEUED
    if isinstance(action, Nothing):
        state = action.state
    elif isinstance(action, End):
        state = reconciler.state_of(action.result)
    elif isinstance(action, (Adopt, Terminate)):
        state = status.state
    lost = () if record.has_ended else tuple(_lost(context, record))
    return Found(stored=stored, status=status, state=state, action=action, at=at, lost=lost)


def _lost(context: Context, record: JobRecord) -> Iterator[JobRecord]:
    for one in record.history:
        backend = context.backends.get(one.option.backend)
        if one.outcome != reconciler.LAUNCH_LOST or backend is None:
            continue
        if not backend.is_fenced(record.training_spec):
            yield attrs.evolve(record, attempt=Attempt(id=one.id, option=one.option, names=()))


def _rules(context: Context, record: JobRecord, status: Status) -> Rules:
    spec = record.training_spec
    backend = None if record.attempt is None else context.backends.get(record.backend)
    longest, restarts_left = spec.max_wait_duration, max(0, spec.max_restarts - record.restarts)
    if restarts_left and record.attempt is not None and status.ran_s:
        ended = record.end_attempt("", status.ran_s, has_run=True)
        restarts_left = restarts_left if remaining(ended) is not None else 0
    launch_ttl_s = Rules().launch_ttl_s if backend is None else backend.launch_ttl_s
    if backend is not None and not backend.is_fenced(spec):
        launch_ttl_s = reconciler.UNFENCED_TTL_S
    return Rules(
        launch_ttl_s=launch_ttl_s,
        grace_s=grace_s_of(spec),
        restarts_left=restarts_left,
        restarts_itself=backend is not None and backend.restarts_itself,
        max_wait_s=None if longest is None else longest.total_seconds(),
    )


def grace_s_of(spec: TrainingSpec | None) -> float:
    """Seconds that ranks have for a checkpoint once they are asked to stop; None: the spec is unknown."""
    usual = contract.ENVIRONMENT[contract.GRACE][1]
    return float(usual if spec is None else spec.env.get(contract.GRACE, usual))


def take_step(context: Context, found: Found) -> tuple[Stored, Failover | None]:
    """Take the step that a look calls for, if it is fresh; what is to be launched next. Raises Conflict."""
    stored, record = found.stored, found.stored.record
    for late in found.lost:
        _clear(context.backends[late.backend], late)
    if (context.now() - found.at).total_seconds() > FRESH_S:
        return stored, None
    backend = None if record.attempt is None else context.backends.get(record.backend)
    match found.action:
        case End(result=result):
            stored = context.jobs.swap(_with_end(record, result, found.status), stored.version)
            if backend is not None:
                _clear(backend, record)
        case Terminate() if backend is not None:
            backend.terminate(record, 0)
        case Adopt(handle=handle):
            stored = context.jobs.swap(record.launched(handle), stored.version)
        case Replace(outcome=outcome) if backend is not None:
            seen = found.status
            ended = record.end_attempt(outcome, seen.ran_s, has_run=seen.has_run, message=seen.detail)
            if left := context.candidates_left(ended):
                stored = context.jobs.swap(ended, stored.version)
                backend.terminate(record, 0)  # and seen gone, before another one is launched
                full = refusals_of(ended, context.now())
                return stored, _failover(context, ended, left, full)
        case Retry() if left := context.candidates_left(record):
            return stored, _failover(context, record, left)
    return stored, None


def _clear(backend: Backend, record: JobRecord) -> None:
    """Remove what is left of an attempt that is over. What stays is for `Trainer.clean_up`."""
    try:
        backend.terminate(record, 0)
    except GputrainError as error:
        fix = "trainer.clean_up() removes it"
        log.warning("something of %s may be left, and %s: %s", record.job_id, fix, error)


def _with_end(record: JobRecord, result: str, status: Status) -> JobRecord:
    """The record of a job whose end was seen, so that its machines need not be looked for later."""
    attempt = record.attempt
    is_launched = attempt is not None and attempt.state is Launch.LAUNCHED
    was_killed = status.has_run and not record.has_job and result != causes.CANCELLED.kind  # its launcher
    if was_killed or (is_launched and status.handle):  # of two jobs, the log is that of the one that ran
        record = record.launched(status.handle)
    return record.end(
        result,
        detail=status.detail,
        failure=status.failure,
        started_at=status.started_at.timestamp() if status.started_at else 0.0,
        ended_at=status.ended_at.timestamp() if status.ended_at else 0.0,
        ran_s=status.ran_s,
        restarts=status.restarts,
    )


def _failover(
    context: Context, record: JobRecord, left: Sequence[Candidate], full: Sequence[Answer] = ()
) -> Failover:
    """The candidates that are left, without those that were found to be full."""
    longest = record.training_spec.max_wait_duration
    waits_since = context.now() - timedelta(seconds=context.waited_s(record))
    give_up_at = None if longest is None else waits_since + longest
    return Failover(candidates=tuple(left), give_up_at=give_up_at).answered(full)


def cancel(context: Context, job_id: str, grace_s: float) -> Stored | None:
    """Have a job's ranks save and leave, and no attempt of it begin; None where there is no such job."""
    while (stored := context.jobs.read(job_id)) is not None and not stored.record.has_ended:
        with suppress(Conflict):
            record = stored.record.cancel()
            if record.attempt is None:
                return context.jobs.swap(record.end(causes.CANCELLED.kind), stored.version)
            stored = context.jobs.swap(record, stored.version)
            if record.backend in context.backends:
                context.backends[record.backend].terminate(record, grace_s)
            return stored
    return stored
