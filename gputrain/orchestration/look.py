"""How jobs stand, and what comes next for them: many by a few calls. A look changes nothing."""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from datetime import datetime
from functools import partial
from itertools import chain

import attrs

from gputrain.backends.base import Backend, Status
from gputrain.concurrency import gather
from gputrain.entrypoint import contract
from gputrain.errors import GputrainError, JobLostError
from gputrain.jobstore import Attempt, JobRecord, JobStore, Stored
from gputrain.lifecycle import State
from gputrain.orchestration.context import Context
from gputrain.orchestration.options import remaining
from gputrain.orchestration.reconciler import (
    LAUNCH_LOST,
    UNFENCED_TTL_S,
    Action,
    Adopt,
    End,
    Nothing,
    Rules,
    Terminate,
    decide,
    state_of,
)  # fmt: skip
from gputrain.spec import TrainingSpec

FRESH_S = 20.0
"""How old a read may be that is acted on: a laptop sleeps, and wakes in the middle."""


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
    documents = jobs.documents
    return JobLostError(
        f"there is no job {job_id}",
        why=f"there is no record of it in {documents.uri}",
        fix="list the jobs there are with trainer.jobs(), or attach on the machine that runs it",
        uri=documents.ref(job_id).uri,
    )


def found_of(context: Context, stored: Stored, status: Status, at: datetime) -> Found:
    record = stored.record
    waited_s = waited_s_of(context, record)
    action = decide(record, status, stored.age_s, _rules(context, record, status), waited_s=waited_s)
    state: State | None = State.INTERRUPTED if record.restarts or status.has_run else State.QUEUED
    if isinstance(action, Nothing):
        state = action.state
    elif isinstance(action, End):
        state = state_of(action.result)
    elif isinstance(action, (Adopt, Terminate)):
        state = status.state
    lost = () if record.has_ended else tuple(_lost(context, record))
    return Found(stored=stored, status=status, state=state, action=action, at=at, lost=lost)


def _lost(context: Context, record: JobRecord) -> Iterator[JobRecord]:
    for one in record.history:
        backend = context.backends.get(one.option.backend)
        if one.outcome != LAUNCH_LOST or backend is None:
            continue
        if not backend.is_fenced(context.spec_of(record)):
            yield attrs.evolve(record, attempt=Attempt(id=one.id, option=one.option, names=()))


def _rules(context: Context, record: JobRecord, status: Status) -> Rules:
    spec = context.spec_of(record)
    backend = None if record.attempt is None else context.backends.get(record.backend)
    longest, restarts_left = spec.max_wait_duration, max(0, spec.max_restarts - record.restarts)
    if restarts_left and record.attempt is not None and status.ran_s:
        ended = record.end_attempt("", status.ran_s, has_run=True)
        restarts_left = restarts_left if remaining(ended, spec) is not None else 0
    return Rules(
        launch_ttl_s=_launch_ttl_s(backend, spec),
        grace_s=grace_s_of(spec),
        restarts_left=restarts_left,
        restarts_itself=backend is not None and backend.restarts_itself,
        max_wait_s=None if longest is None else longest.total_seconds(),
    )


def _launch_ttl_s(backend: Backend | None, spec: TrainingSpec) -> float:
    if backend is None:
        return Rules().launch_ttl_s
    return backend.launch_ttl_s if backend.is_fenced(spec) else UNFENCED_TTL_S


def grace_s_of(spec: TrainingSpec | None) -> float:
    """Seconds that ranks have for a checkpoint once they are asked to stop; None: the spec is unknown."""
    usual = contract.ENVIRONMENT[contract.GRACE][1]
    return float(usual if spec is None else spec.env.get(contract.GRACE, usual))


def waited_s_of(context: Context, record: JobRecord) -> float:
    return context.now().timestamp() - record.waiting_since if record.waiting_since else 0.0
