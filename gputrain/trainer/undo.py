"""Ends what a create may have made that was interrupted, or that is none of the job's any more."""

from __future__ import annotations

import logging

from gputrain.backends import seam
from gputrain.backends.abilities import BarsLate, Recorder
from gputrain.backends.base import Backend, JobRef, Request
from gputrain.errors import AccessError, GputrainError, JobLostError, RequestError
from gputrain.gcp import UnclearError
from gputrain.records import Ask, Board, Record
from gputrain.trainer.boards import Boards
from gputrain.trainer.context import Surroundings

log = logging.getLogger("gputrain")

LATE_S, LATE_EVERY_S = 4.0, 2.0
TRIED_S = 60.0
"""What was tried for longer is left to whoever comes next: somebody may wait who has pressed Ctrl-C."""


def clear(around: Surroundings, backend: Backend, request: Request, record: Record | None) -> bool:
    """End it; whether it is certain that nothing is left.

    It may show late, as its answer was not waited for, so it is looked for a few times. Where nobody may
    look, nothing is certain.
    """
    recorder = around.boards.recorder(backend.name)
    settles_s = LATE_S if recorder is None else recorder.settles_s
    since, waited_s, is_gone = around.since(), 0.0, recorder is None
    while True:
        if recorder is not None and record is not None:
            try:
                is_gone = seam.clear(recorder, record) or is_gone
            except GputrainError as error:
                is_gone = False
                log.warning("nobody can tell what is left of %s: %s", record.job_id, error.what)
        elif _cancelled(backend, request.ref):
            return True
        if waited_s >= settles_s or since.seconds >= TRIED_S:
            return is_gone
        around.sleep(LATE_EVERY_S)
        waited_s += LATE_EVERY_S


def take_back(recorder: Recorder, record: Record) -> bool:
    """Remove what came of an ask that was refused; whether no more can come of it.

    Raises:
        UnclearError: nobody can tell what is left, which is no answer of the place.
    """
    try:
        return seam.clear(recorder, record)
    except GputrainError as error:
        raise UnclearError(
            f"{record.job_id} was refused, and nobody can tell what is left of it",
            why=f"{error.what}: {error.why}",
            fix=error.fix,
        ) from error


def unread(ref: JobRef, error: GputrainError) -> UnclearError:
    """That something was made, while its record cannot be read."""
    return UnclearError(
        f"{ref.name} was made in {ref.place}, and nobody can tell whether it is the only one of its key",
        why=f"{error.what}: {error.why}",
        fix=f"{error.fix or 'wait a moment'}; then take it up with gputrain.attach({ref.uri!r}), or submit it"
        " again with the same key",
    )


def unseen(boards: Boards, record: Record) -> dict[str, BarsLate]:
    """The backends of which a job of this record may come yet that nobody has seen; by their names.

    Raises:
        UnclearError: one of them is not here.
    """
    names = {one.way.backend for one in record.asks if one.is_unseen}
    found = {name: barring(boards, record, name) for name in names}
    return {name: recorder for name, recorder in found.items() if recorder is not None}


def barring(boards: Boards, record: Record, name: str) -> BarsLate | None:
    """What keeps a backend's late jobs from training; None where there are none. Errors as of `unseen`."""
    if not boards.has(name):
        raise UnclearError(
            f"{record.job_id} was asked for on {name}, which this trainer does not have, and may come yet",
            fix=f"give the trainer its {name} backend as well, as whoever asked there has it",
        )
    recorder: object = boards.recorder(name)
    return recorder if isinstance(recorder, BarsLate) else None


def keep_apart(boards: Boards, record: Record) -> Ask | None:
    """See that nothing which comes late trains beside what the latest ask is for, and that this may.

    Once the ask is written, so that nobody else is at it. On Vertex AI one job may come for another: both
    want the same lock.

    Returns:
        The ask of which something has come already, so that nothing may be sent; None where nothing has.

    Raises:
        UnclearError, TransientError: that could not be done, and nothing may be sent.
    """
    asked: object = boards.recorder(record.latest.way.backend)
    try:
        if (come := keep_out(boards, record)) is None and isinstance(asked, BarsLate):
            seam.let_in(asked, record)
    except (AccessError, RequestError) as error:
        raise UnclearError(
            f"{record.job_id} may come yet where it was asked for, and train beside another",
            why=f"{error.what}: {error.why}",
            fix=error.fix,
        ) from error
    return come


def keep_out(boards: Boards, record: Record) -> Ask | None:
    """See that nothing trains that comes late; the ask of which something came before. Errors as of `bar`."""
    found = (seam.bar(recorder, name, record) for name, recorder in unseen(boards, record).items())
    return next((come for come in list(found) if come is not None), None)


def given_up(boards: Boards, home: Board, record: Record) -> Ask | None:
    """The same for a job that was given up, once that is written; its latest ask may come, if it is open."""
    come = keep_out(boards, record.late() if record.is_open else record)
    there = home.read(record.job_id)
    if there is not None and there.generation != record.generation and there.is_open:
        keep_apart(boards, there)  # somebody has its key, and asked anew meanwhile
    return come


def _cancelled(backend: Backend, ref: JobRef) -> bool:
    try:
        seam.cancel(backend, ref)
    except JobLostError:
        return False
    return True
