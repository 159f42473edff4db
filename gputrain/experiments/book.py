"""What is written of one experiment: its points, how each reaches its job, and whether it is cancelled.

The record lies beside the records of jobs, is written before the first job is asked for, and holds nothing of
how jobs stand: that is told by the jobs.
"""

from __future__ import annotations

import contextlib
import itertools
import json
import math
from collections.abc import Callable, Iterable, Mapping, Sequence
from typing import Any

import attrs

from gputrain.errors import Fault, JobLostError, RequestError, SpecError
from gputrain.records import Board, OvertakenError, RecordError, check_alike
from gputrain.spec.entry import ARGUMENTS

Point = Mapping[str, Any]
MOST = 10_000
"""More points than this are a slip of the pen."""


def grid(**axes: Iterable[Any]) -> tuple[Point, ...]:
    """Every combination of some values, the last name turning fastest.

    >>> grid(lr=[0.1, 0.3], seed=range(2))
    ({'lr': 0.1, 'seed': 0}, {'lr': 0.1, 'seed': 1}, {'lr': 0.3, 'seed': 0}, {'lr': 0.3, 'seed': 1})
    """
    return tuple(dict(zip(axes, values)) for values in itertools.product(*axes.values()))


def read_points(over: Iterable[Point]) -> tuple[dict[str, Any], ...]:
    """The points as JSON types, checked.

    Raises:
        SpecError: with every point that is none, or stands twice.
    """
    points: list[dict[str, Any]] = []
    faults: list[Fault] = []
    seen: set[str] = set()
    for given in itertools.islice(over, MOST + 1):
        point, why = _read(given)
        text = canonical(point)
        if not why and text in seen:
            why = "each point once; give them a name more, such as seed=, to run one twice"
        if why:
            faults.append(Fault(field="over", value=repr(given)[:80], allowed=why, fix="over=[{'lr': 3e-4}]"))
        seen.add(text)
        points.append(point)
    if not points or len(points) > MOST:
        count = "none" if not points else f"more than {MOST}"
        faults.append(Fault(field="over", value=count, allowed=f"1 to {MOST} points", fix="gputrain.grid()"))
    if faults:
        text = "\n".join(f"  {fault}" for fault in faults[:20])
        raise SpecError(f"the points have {len(faults)} fault(s):\n{text}", faults=tuple(faults))
    return tuple(points)


def _read(given: object) -> tuple[dict[str, Any], str]:
    if not isinstance(given, Mapping) or not given or not all(isinstance(name, str) for name in given):
        return {}, "a mapping of names to values"
    point = {name: _plain(value) for name, value in given.items()}
    try:
        is_same = json.loads(json.dumps(point, allow_nan=False)) == point
    except (TypeError, ValueError):
        is_same = False
    return point, "" if is_same else "values that JSON can hold: numbers, texts, lists and mappings"


def _plain(value: Any) -> Any:
    """A scalar of numpy or torch as the number that it is; a tuple as a list."""
    if isinstance(value, tuple):
        return [_plain(one) for one in value]
    if not isinstance(value, (str, int, float, list, dict, type(None))) and hasattr(value, "item"):
        return value.item()
    return value


def canonical(point: Point) -> str:
    """The same text for the same point, however it was written."""
    return json.dumps(point, sort_keys=True, default=repr)


def key_of(name: str, point: Point, retries: int = 0) -> str:
    """The idempotency key of a point: drawn from the experiment's name, the point, and its retries alone."""
    return f"{name} {canonical(point)}" + (f" again {retries}" if retries else "")


def words(point: Point) -> str:
    """A point for people.

    >>> words({"lr": 0.0003, "layers": [4, 8], "name": "a b"})
    'lr=0.0003 layers=[4, 8] name=a b'
    """
    return " ".join(f"{name}={word(value)}" for name, value in point.items())


def word(value: object) -> str:
    """One value as a command line or a table has it."""
    if isinstance(value, float) and math.isfinite(value):
        return f"{value:g}" if float(f"{value:g}") == value else repr(value)
    return value if isinstance(value, str) else json.dumps(value)


Arguments = Callable[[Point], Sequence[str] | Mapping[str, Any]]


def arguments_of(point: Point, is_function: bool, said: Arguments | None) -> tuple[str, ...]:
    """How a point reaches its job: ``--name value`` for a script, keyword arguments for a function.

    Args:
        said: the caller's own way: from a point to texts, or to a mapping that is treated as a point.
    """
    given = point if said is None else said(point)
    if not isinstance(given, Mapping):
        return tuple(map(str, given))
    if is_function:
        return (ARGUMENTS, json.dumps(given, sort_keys=True))
    told = ((f"--{name}", word(value)) for name, value in given.items() if value is not None)
    return tuple(itertools.chain.from_iterable(told))


SCHEMA = 1
TRIES = 5


@attrs.frozen(kw_only=True)
class Retried:
    """What came before the job that counts for a point."""

    times: int = 0
    used_usd: float = 0.0
    """US dollars that its earlier jobs have used of the point's share."""


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
    retried: Mapping[str, Retried] = attrs.field(factory=dict)
    """By the point's canonical text: those that were asked for again after a failure."""

    def retries(self, point: Point) -> Retried:
        """How often a point was asked for again."""
        return self.retried.get(canonical(point), Retried())

    def written(self) -> bytes:
        """The book as it lies on a board."""
        return json.dumps({"schema": SCHEMA, **attrs.asdict(self)}).encode()


def read_book(name: str, content: bytes) -> ExperimentRecord:
    """The book of an experiment. Raises RecordError where it is none."""
    try:
        fields = json.loads(content)
        if fields.pop("schema") != SCHEMA or fields["name"] != name:
            raise ValueError("it is that of another experiment, or of a newer release")
        fields["retried"] = {text: Retried(**one) for text, one in fields.get("retried", {}).items()}
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
    raise _too_many(asked.name)


def _too_many(name: str) -> RequestError:
    return RequestError(f"others write the experiment {name} again and again", fix="run it once")


def again(board: Board, name: str, failed: Mapping[str, Retried]) -> ExperimentRecord:
    """Write down that points are to be asked for once more; what another process has written before holds.

    Args:
        failed: what is to be written, by a point's canonical text.
    """
    for _ in range(TRIES):
        found = board.note(name)
        book = opened(board, name) if found is None else read_book(name, found.content)
        new = {key: one for key, one in failed.items() if one.times > book.retried.get(key, Retried()).times}
        if found is None or not new:
            return book
        book = attrs.evolve(book, retried={**book.retried, **new})
        try:
            board.keep(name, book.written(), found.generation)
        except OvertakenError:  # somebody asks for the same
            continue
        return book
    raise _too_many(name)


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
