"""Ends a job by its name, wherever it has gone on, and sees that nobody starts it again."""

from __future__ import annotations

from gputrain.backends import seam
from gputrain.backends.base import Backend, JobRef
from gputrain.errors import GputrainError, RequestError
from gputrain.records import CANCELLED, Record, RecordError
from gputrain.trainer.boards import Boards
from gputrain.trainer.claim import Claim
from gputrain.trainer.context import Surroundings
from gputrain.trainer.undo import barring


def cancel(around: Surroundings, claim: Claim, job_id: str, ref: JobRef, backend: Backend) -> None:
    """Have nobody start it again, and end it. Errors as of `Backend.cancel`.

    What is refused keeps nothing else from being ended, and is raised at last.
    """
    record, unread = _known(around, claim, job_id)
    refused, own = _grave(unread), around.boards.of(backend.name)
    if record is not None and own is not None and record.home != own.name and not _is_over(backend, ref):
        refused = claim.end(CANCELLED)
    if record is not None:  # it may have gone on since this name was told
        ref, backend = taker(around, record, backend) or (ref, backend)
    seam.cancel(backend, ref)
    try:
        if _is_ended_in_copy(around.boards, record, backend.name, job_id):
            refused = unread or claim.end(CANCELLED)
    except GputrainError as error:
        refused = error
    record, unread = _known(around, claim, job_id)
    refused = _end_elsewhere(around, record, backend.name) or refused or _grave(unread)
    if refused is not None:
        raise refused


def known(around: Surroundings, claim: Claim) -> Record | None:
    """The record, if a backend here keeps any. Raises as `Claim.read`."""
    keeps = any(around.boards.of(name) is not None for name in around.backends)
    return claim.read() if keeps else None


def taker(around: Surroundings, record: Record, backend: Backend) -> tuple[JobRef, Backend] | None:
    """Where a job has gone on, and by which name; None where that is this backend, or none that is here."""
    there = None if record.backend == backend.name else around.boards.recorder(record.backend)
    return None if there is None else (seam.name_of(there, record), around.backends[record.backend])


def _known(around: Surroundings, claim: Claim, job_id: str) -> tuple[Record | None, GputrainError | None]:
    try:
        return known(around, claim), None
    except GputrainError as error:
        error.what = f"what runs of {job_id} ends, but a watcher may start it again: {error.what}"
        return None, error


def _grave(error: GputrainError | None) -> GputrainError | None:
    """What may leave a record as it was that decides; not of one that is none, or is kept elsewhere."""
    return None if isinstance(error, (RecordError, RequestError)) else error


def _is_over(backend: Backend, ref: JobRef) -> bool:
    """Whether a look tells so; one that cannot be had says nothing."""
    try:
        state = seam.observe(backend, ref).state
    except GputrainError:
        return False
    return state is not None and state.is_terminal


def _is_ended_in_copy(boards: Boards, record: Record | None, backend: str, job_id: str) -> bool:
    """Whether a backend has ended a job on its own board, which keeps a copy of a record of elsewhere."""
    own = boards.of(backend)
    if own is None or (record is not None and own.name == record.home):
        return False
    copy = own.read(job_id)
    return copy is not None and copy.home != own.name and copy.over == CANCELLED


def _end_elsewhere(around: Surroundings, record: Record | None, backend: str) -> GputrainError | None:
    """End a job that was cancelled on a backend where else it may be, or come yet; what was refused.

    It may have gone on since the cancel began, and what was asked for before may still be done.
    """
    if record is None or record.over != CANCELLED:
        return None
    refused = None
    late = {one.way.backend for one in record.asks if one.is_unseen or not one.answer}
    for name in sorted({record.backend, *late} - {backend, ""}):
        try:
            recorder = around.boards.recorder(name)
            if recorder is not None and record.backend == name:
                seam.cancel(around.backends[name], seam.name_of(recorder, record))
            elif (bars := barring(around.boards, record, name)) is not None:
                refused = seam.shut(bars, name, record.job_id) or refused
        except GputrainError as error:  # noqa: PERF203  # the next one is ended all the same
            refused = error
    return refused
