"""The steps of a job other than a launch: each is one swap of its record, and what follows from it."""

from __future__ import annotations

import logging
from collections.abc import Sequence
from contextlib import suppress
from datetime import timedelta

from gputrain import causes
from gputrain.backends.base import Backend, Status
from gputrain.errors import GputrainError
from gputrain.jobstore import Conflict, JobRecord, Launch, Stored
from gputrain.orchestration.context import Context
from gputrain.orchestration.look import FRESH_S, Found, waited_s_of
from gputrain.orchestration.options import answers_of
from gputrain.orchestration.reconciler import Adopt, End, Replace, Retry, Terminate
from gputrain.planning import Attempt as Answer, Candidate, Failover

log = logging.getLogger("gputrain")


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
                return stored, _failover(context, ended, left, answers_of(ended, left, context.now()))
        case Retry() if left := context.candidates_left(record):
            return stored, _failover(context, record, left)
    return stored, None


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


def _clear(backend: Backend, record: JobRecord) -> None:
    """Remove what is left of an attempt that is over. What stays is for `Trainer.clean_up`."""
    try:
        backend.terminate(record, 0)
    except GputrainError as error:
        log.warning(
            "something of %s may be left, and trainer.clean_up() removes it: %s", record.job_id, error
        )


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
    longest = context.spec_of(record).max_wait_duration
    waits_since = context.now() - timedelta(seconds=waited_s_of(context, record))
    give_up_at = None if longest is None else waits_since + longest
    return Failover(candidates=tuple(left), give_up_at=give_up_at).answered(full)
