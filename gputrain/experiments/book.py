"""The record of one experiment: its points, what each is to run, and whether somebody has cancelled it.

It lies beside the records of jobs, is written before the first job is asked for, and holds nothing of how
jobs stand: that is told by the jobs.
"""

from __future__ import annotations

import contextlib
import json
from collections.abc import Mapping, Sequence
from typing import Any

import attrs

from gputrain.errors import JobLostError, RequestError
from gputrain.experiments.points import Point, canonical
from gputrain.records import Board, OvertakenError, RecordError, check_alike

SCHEMA = 1
TRIES = 5


@attrs.frozen(kw_only=True)
class ExperimentRecord:
    """What was asked for under one name."""

    name: str
    spec: Mapping[str, Any]
    """What all points have in common, as `TrainingSpec.to_dict` writes it, without the arguments."""
    points: tuple[Point, ...]
    args: tuple[tuple[str, ...], ...]
    """The arguments of each point."""
    is_function: bool = False
    max_parallel: int | None = None
    share_usd: float | None = None
    """US dollars that each point may use; None: no limit on them all was given."""

    def written(self) -> bytes:
        """The book as it lies on a board."""
        return json.dumps({"schema": SCHEMA, **attrs.asdict(self)}).encode()


def read_book(name: str, content: bytes) -> ExperimentRecord:
    """The book of an experiment. Raises RecordError where it is none."""
    try:
        fields = json.loads(content)
        if fields.pop("schema") != SCHEMA or fields["name"] != name:
            raise ValueError("it is that of another experiment, or of a newer release")
        book = ExperimentRecord(**fields)
        args = tuple(tuple(map(str, one)) for one in book.args)
        if len(args) != len(book.points) or not all(isinstance(one, dict) for one in book.points):
            raise ValueError("its points are not whole")
        return attrs.evolve(book, points=tuple(book.points), args=args)
    except (ValueError, TypeError, LookupError, AttributeError) as error:
        raise RecordError(f"what is kept of the experiment {name} is no record", why=str(error)) from error


def opened(board: Board, name: str) -> ExperimentRecord:
    """The book of that name. Raises JobLostError where there is none."""
    found = board.note(name)
    if found is None:
        fix = "check the name, and that this trainer has the backends that it was made with, in their order"
        raise JobLostError(f"there is no experiment {name} in {board.name}", fix=fix)
    return read_book(name, found.content)


def kept(board: Board, asked: ExperimentRecord) -> ExperimentRecord:
    """Write a book, or take up the one that is there: points of both are kept, and asked for once.

    Raises:
        ConflictError: the experiment of that name is of another spec.
    """
    for _ in range(TRIES):
        found = board.note(asked.name)
        book = asked if found is None else _joined(read_book(asked.name, found.content), asked)
        if found is not None and book == read_book(asked.name, found.content):
            return book
        try:
            board.keep(asked.name, book.written(), found.generation if found else 0)
        except OvertakenError:  # somebody runs the same script
            continue
        return book
    raise RequestError(f"others write the experiment {asked.name} again and again", fix="run it once")


def cancel(board: Board, name: str) -> None:
    """Write down that no more points are to be submitted, by nobody; twice is once."""
    with contextlib.suppress(OvertakenError):
        board.keep(f"{name}.cancelled", b"{}", 0)


def is_cancelled(board: Board, name: str) -> bool:
    """Whether somebody has done so."""
    return board.note(f"{name}.cancelled") is not None


def _joined(there: ExperimentRecord, asked: ExperimentRecord) -> ExperimentRecord:
    what = f"the experiment {asked.name} was begun with another spec; nothing was submitted"
    check_alike(there.spec, asked.spec, what, "take another name=, or ask for it as it was begun")
    known = {canonical(point): args for point, args in zip(there.points, there.args)}
    new = [(point, args) for point, args in zip(asked.points, asked.args) if canonical(point) not in known]
    return attrs.evolve(
        there,
        points=(*there.points, *(point for point, _ in new)),
        args=(*there.args, *(args for _, args in new)),
        max_parallel=asked.max_parallel or there.max_parallel,
    )


def only(book: ExperimentRecord, points: Sequence[Point]) -> ExperimentRecord:
    """The book as seen by somebody who goes over these points."""
    wanted = {canonical(point) for point in points}
    kept_ones = [(point, args) for point, args in zip(book.points, book.args) if canonical(point) in wanted]
    return attrs.evolve(
        book, points=tuple(one for one, _ in kept_ones), args=tuple(args for _, args in kept_ones)
    )
