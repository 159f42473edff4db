"""Ends what a create may have made that was interrupted, or that is none of the job's any more."""

from __future__ import annotations

import contextlib
from collections.abc import Iterator

from gputrain.backends.abilities import BarsLate
from gputrain.backends.base import Backend, JobRef, Request
from gputrain.errors import AccessError, JobLostError, RequestError
from gputrain.gcp import UnclearError
from gputrain.records import Ask, Record
from gputrain.trainer.boards import Boards
from gputrain.trainer.context import Surroundings

LATE_S, LATE_EVERY_S = 4.0, 2.0


def clear(around: Surroundings, backend: Backend, request: Request, record: Record | None) -> bool:
    """End it; whether it is certain that nothing is left.

    It may show late, as its answer was not waited for, so it is looked for a few times.
    """
    recorder = around.boards.recorder(backend.name)
    settles_s = LATE_S if recorder is None else recorder.settles_s
    waited_s, is_gone = 0.0, recorder is None
    while True:
        if recorder is not None and record is not None:
            is_gone = recorder.clear(record) or is_gone
        elif _cancelled(backend, request.ref):
            return True
        if waited_s >= settles_s:
            return is_gone
        around.sleep(LATE_EVERY_S)
        waited_s += LATE_EVERY_S


def unseen(boards: Boards, record: Record) -> dict[str, BarsLate]:
    """The backends of which a job of this record may come yet that nobody has seen; by their names."""
    found: dict[str, BarsLate] = {}
    for name in {one.way.backend for one in record.asks if one.is_unseen}:
        recorder: object = boards.recorder(name)
        if isinstance(recorder, BarsLate):
            found[name] = recorder
    return found


def keep_apart(boards: Boards, record: Record, asked: str) -> Ask | None:
    """See that nothing which comes late trains beside what is asked for now, of the backend of that name.

    Of one backend it may come instead: both want the same lock, see `let_in`.

    Returns:
        The ask whose job has come already, so that nothing may be asked for; None where none has.

    Raises:
        UnclearError, TransientError: that could not be done, and nothing may be asked for.
    """
    others = (recorder for name, recorder in unseen(boards, record).items() if name != asked)
    with _unclear(record):
        return next((come for one in others if (come := one.bar(record)) is not None), None)


def let_in(boards: Boards, record: Record, asked: str) -> None:
    """Give the locks back that were taken from what is asked for now, once its ask is written down.

    Not before: who was quicker may have cancelled it.

    Raises:
        UnclearError, TransientError: they could not be.
    """
    found = unseen(boards, record).get(asked)
    with _unclear(record):
        if found is not None:
            found.unbar(record)


def keep_out(boards: Boards, record: Record) -> None:
    """Have nothing of a job that was given up train, should it come late. Errors as of `BarsLate.bar`."""
    for recorder in unseen(boards, record).values():
        recorder.bar(record)


@contextlib.contextmanager
def _unclear(record: Record) -> Iterator[None]:
    try:
        yield
    except (AccessError, RequestError) as error:
        raise UnclearError(
            f"{record.job_id} may come yet where it was asked for, and train beside another",
            why=f"{error.what}: {error.why}",
            fix=error.fix,
        ) from error


def _cancelled(backend: Backend, ref: JobRef) -> bool:
    try:
        backend.cancel(ref)
    except JobLostError:
        return False
    return True
