"""What is written of one experiment: its points, how each reaches its job, and whether it is cancelled.

The record lies beside the records of jobs, is written before the first job is asked for, and holds nothing of
how jobs stand: that is told by the jobs.
"""

from __future__ import annotations

import contextlib
import json
from collections.abc import Callable, Mapping, Sequence
from typing import Any

import attrs

from gputrain.errors import JobLostError, RequestError
from gputrain.experiments.money import LEAST_USD, shares
from gputrain.experiments.points import Point, canonical, key_of
from gputrain.progress import is_number
from gputrain.records import Board, Note, OvertakenError, RecordError, check_alike, surely
from gputrain.spec import TrainingSpec
from gputrain.spec.entry import make_job_id

SCHEMA = 2
TRIES = 5
MOST_RETRIES = 1000
"""More than these nobody has asked for."""


@attrs.frozen(kw_only=True)
class Retried:
    """What came before the job that counts for a point."""

    times: int = 0
    used_usd: float = 0.0
    """US dollars that its earlier jobs have used of the point's share."""


@attrs.frozen(kw_only=True)
class ExperimentRecord:
    """What was asked for under one name: all that is needed to submit each point as it was asked for."""

    name: str
    spec: Mapping[str, Any]
    """What all points have in common, as `TrainingSpec.to_dict` writes it."""
    points: tuple[Point, ...]
    args: tuple[tuple[str, ...], ...]
    """The arguments of each point, those that all have in common first."""
    limits_usd: tuple[float | None, ...]
    """US dollars that each point may use, all its jobs together; None: no limit was given."""
    is_function: bool = False
    max_parallel: int | None = None
    max_cost: float | None = None
    """US dollars for all points."""
    is_whole: bool = True
    """False: a release before 0.3 wrote it, which left out what all points' arguments have in common."""
    retried: Mapping[str, Retried] = attrs.field(factory=dict)
    """By the point's canonical text: those that were asked for again after a failure."""

    def retries(self, point: Point) -> Retried:
        """How often a point was asked for again."""
        return self.retried.get(canonical(point), Retried())

    def asks(self, base: TrainingSpec) -> list[tuple[TrainingSpec, str]]:
        """The spec and the key of each point's newest job."""
        asks = []
        for point, args, limit in zip(self.points, self.args, self.limits_usd):
            before = self.retries(point)
            # where nothing is left of it, the plan says that it pays for nothing
            left = None if limit is None else max(limit - before.used_usd, LEAST_USD)
            each = [one for one in (base.max_cost, left) if one is not None]
            spec = base.replace(max_cost=min(each, default=None))
            spec = spec.replace(command=(*spec.command, *args)) if spec.command else spec.replace(args=args)
            asks.append((spec, key_of(self.name, point, before.times)))
        return asks

    def ids(self, base: TrainingSpec) -> frozenset[str]:
        """The ids of all jobs that any process may have asked for, those of earlier tries among them."""
        return frozenset(
            make_job_id(base, key_of(self.name, point, times))
            for point in self.points
            for times in range(self.retries(point).times + 1)
        )

    def written(self) -> bytes:
        """The book as it lies on a board."""
        return json.dumps({"schema": SCHEMA, **attrs.asdict(self)}).encode()


def read_book(name: str, content: bytes) -> ExperimentRecord:
    """The book of an experiment. Raises RecordError where it is none."""
    try:
        fields = json.loads(content)
        if not isinstance(fields, dict) or not isinstance(fields.get("spec"), dict):
            raise ValueError("it tells of no spec")
        schema = fields.pop("schema")
        if schema not in (1, SCHEMA) or fields["name"] != name:
            raise ValueError("it is that of another experiment, or of a newer release")
        if schema == 1:
            share, count = fields.pop("share_usd", None), len(fields["points"])
            fields |= {"limits_usd": [share] * count, "is_whole": False}
            fields["max_cost"] = None if share is None else share * count
        fields["retried"] = {text: Retried(**one) for text, one in fields.get("retried", {}).items()}
        book = ExperimentRecord(**fields)
        args = tuple(tuple(map(str, one)) for one in book.args)
        are_points = all(isinstance(one, dict) and one for one in book.points)
        if not (are_points and len(book.points) == len(args) == len(book.limits_usd)):
            raise ValueError("its points are not whole")
        counts = [one.times for one in book.retried.values()]
        if not all(type(one) is int and 0 < one <= MOST_RETRIES for one in counts):
            raise ValueError("its points were not retried so often")
        if not (book.max_parallel is None or (type(book.max_parallel) is int and book.max_parallel > 0)):
            raise ValueError("its max_parallel is no count")
        money = [one for one in (book.max_cost, *book.limits_usd) if one is not None]
        money += [one.used_usd for one in book.retried.values()]
        if not all(is_number(one) and one >= 0 for one in money):
            raise ValueError("its dollars are none")
        limits = tuple(None if one is None else float(one) for one in book.limits_usd)
        return attrs.evolve(book, points=tuple(book.points), args=args, limits_usd=limits)
    except (ValueError, TypeError, LookupError, AttributeError, RecursionError) as error:
        raise RecordError(f"what is kept of the experiment {name} is no record", why=str(error)) from error


def board_of(boards: Sequence[Board], name: str) -> Board:
    """Which board keeps the book of that name, or is to: the first, where none has it yet."""
    home, *others = boards
    if not others or _note(home, name) is not None:
        return home
    return next((one for one in others if _note(one, name) is not None), home)


def _note(board: Board, name: str) -> Note | None:
    return surely(lambda: board.note(name))


def opened(board: Board, name: str) -> ExperimentRecord:
    """The book of that name. Raises JobLostError where there is none."""
    found = board.note(name)
    if found is None:
        fix = "check the name, and that this trainer has the backends that it was made with"
        raise JobLostError(f"there is no experiment {name} in {board.name}", fix=fix)
    return read_book(name, found.content)


def kept(
    board: Board, name: str, join: Callable[[ExperimentRecord | None], ExperimentRecord]
) -> ExperimentRecord:
    """Write a book: what is made of the one that is there, by the reading of whoever wrote last.

    Raises:
        RequestError: others write it again and again; or as ``join`` does, and nothing is written.
    """
    for _ in range(TRIES):
        found = board.note(name)
        there = None if found is None else read_book(name, found.content)
        book = join(there)
        if book == there:
            return book
        try:
            board.keep(name, book.written(), found.generation if found else 0)
        except OvertakenError:  # somebody else writes it: look at what came of that
            continue
        return book
    raise RequestError(f"others write the experiment {name} again and again", fix="run it once")


def again(board: Board, name: str, failed: Mapping[str, Retried]) -> ExperimentRecord:
    """Write down that points are to be asked for once more; what another process has written before holds.

    Args:
        failed: what is to be written, by a point's canonical text.

    Raises:
        RequestError: as `kept`, or one is retried more often than a book may tell.
    """

    def join(there: ExperimentRecord | None) -> ExperimentRecord:
        book = there or opened(board, name)
        new = {key: one for key, one in failed.items() if one.times > book.retried.get(key, Retried()).times}
        if any(one.times > MOST_RETRIES for one in new.values()):
            what = f"a point of {name} was submitted again {MOST_RETRIES} times; nothing was submitted"
            raise RequestError(what, fix="see why it fails, and map it under another name=")
        return attrs.evolve(book, retried={**book.retried, **new}) if new else book

    return kept(board, name, join)


def cancel(board: Board, name: str) -> None:
    """Write down that no more points are to be submitted, by nobody; twice is once."""
    with contextlib.suppress(OvertakenError):
        board.keep(f"{name}.cancelled", b"{}", 0)


def is_cancelled(board: Board, name: str) -> bool:
    """Whether somebody has done so."""
    return _note(board, f"{name}.cancelled") is not None


def joined(
    there: ExperimentRecord | None,
    asked: ExperimentRecord,
    held: Callable[[ExperimentRecord], Sequence[float | None]],
) -> ExperimentRecord:
    """What is there and what is asked for as one book: points of both, each once. Pure but for ``held``.

    Args:
        held: what each of its points may still come to, as `money.shares` takes it.

    Raises:
        ConflictError: the experiment of that name is of another spec, or of other arguments.
        RequestError: the limit on all points cannot be kept.
    """
    if there is None:
        return _grown(attrs.evolve(asked, points=(), args=(), limits_usd=()), asked, held)
    there = there if there.is_whole else _completed(there, asked)
    given = {canonical(point): args for point, args in zip(asked.points, asked.args)}
    kept_args = ((args, given.get(canonical(point), args)) for point, args in zip(there.points, there.args))
    one, other = next((pair for pair in kept_args if pair[0] != pair[1]), ((), ()))
    what = f"the experiment {asked.name} was begun with another spec; nothing was submitted"
    fix = "take another name=, or ask for it as it was begun"
    check_alike(there.spec, asked.spec, what, fix)
    check_alike({"args": list(one)}, {"args": list(other)}, what, fix)
    return _grown(there, asked, held)


def _grown(
    there: ExperimentRecord,
    asked: ExperimentRecord,
    held: Callable[[ExperimentRecord], Sequence[float | None]],
) -> ExperimentRecord:
    known = set(map(canonical, there.points))
    new = [pair for pair in zip(asked.points, asked.args) if canonical(pair[0]) not in known]
    # whoever adds points and says nothing of money stays within what was said before
    limit = there.max_cost if asked.max_cost is None else asked.max_cost
    limits: tuple[float | None, ...] = (None,) * len(new)
    if limit is not None and (new or limit != there.max_cost):
        limits = shares(limit, held(there), len(new))
    return attrs.evolve(
        there,
        points=(*there.points, *(point for point, _ in new)),
        args=(*there.args, *(args for _, args in new)),
        limits_usd=(*there.limits_usd, *limits),
        max_parallel=asked.max_parallel or there.max_parallel,
        max_cost=limit,
    )


def _completed(there: ExperimentRecord, asked: ExperimentRecord) -> ExperimentRecord:
    """A book of an older release with what it left out, as whoever has the script says it."""
    common = tuple(asked.spec.get("args", ()))
    spec = {**there.spec, **({"args": list(common)} if common else {})}
    return attrs.evolve(there, spec=spec, args=tuple((*common, *one) for one in there.args), is_whole=True)


def only(book: ExperimentRecord, points: Sequence[Point]) -> ExperimentRecord:
    """The book as seen by somebody who goes over these points."""
    wanted = set(map(canonical, points))
    kept_ones = [number for number, point in enumerate(book.points) if canonical(point) in wanted]
    return attrs.evolve(
        book,
        points=tuple(book.points[number] for number in kept_ones),
        args=tuple(book.args[number] for number in kept_ones),
        limits_usd=tuple(book.limits_usd[number] for number in kept_ones),
    )
