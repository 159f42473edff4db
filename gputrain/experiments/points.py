"""The points of an experiment: read and checked, named for people, and as they reach their jobs. Pure."""

from __future__ import annotations

import contextlib
import itertools
import json
import math
from collections.abc import Callable, Iterable, Mapping, Sequence
from typing import Any

from gputrain.arguments import refusing
from gputrain.errors import Fault, SpecError
from gputrain.fields import Field, is_text, read_whole, refused, shown
from gputrain.spec.entry import ARGUMENTS

Point = Mapping[str, Any]
MOST = 10_000
"""More points than this are a slip of the pen."""


@refusing({})
def grid(**axes: Iterable[Any]) -> tuple[Point, ...]:
    """Every combination of some values, the last name turning fastest.

    Raises:
        SpecError: what belongs to a name is no list of values; a text is one value.

    >>> grid(lr=[0.1, 0.3], seed=range(2))
    ({'lr': 0.1, 'seed': 0}, {'lr': 0.1, 'seed': 1}, {'lr': 0.3, 'seed': 0}, {'lr': 0.3, 'seed': 1})
    """
    rows = {name: Field(_axis, "a list of values", f"{name}=[...]", is_needed=True) for name in axes}
    found = itertools.product(*read_whole("", rows, axes).values())
    return tuple(dict(zip(axes, values)) for values in itertools.islice(found, MOST + 1))


def _axis(values: Any) -> tuple[Any, ...]:
    """Some values; one more than may be tells whoever reads the points that they are too many."""
    if isinstance(values, (str, bytes, Mapping)):
        raise ValueError
    return tuple(itertools.islice(values, MOST + 1))


_OVER = {
    "over": Field(
        _axis, "a list of mappings of names to values", "gputrain.grid(lr=[0.1, 0.3])", is_needed=True
    )
}


def read_points(over: Iterable[Point]) -> tuple[dict[str, Any], ...]:
    """The points as JSON types, checked.

    Raises:
        SpecError: with every point that is none, or stands twice.
    """
    listed = read_whole("", _OVER, {"over": over})["over"]
    points: list[dict[str, Any]] = []
    faults: list[Fault] = []
    seen: set[str] = set()
    for given in listed:
        point, why = _read(given)
        text = canonical(point)
        if not why and text in seen:
            why = "each point once; give them a name more, such as seed=, to run one twice"
        if why:
            faults.append(Fault(field="over", value=shown(given), allowed=why, fix="over=[{'lr': 3e-4}]"))
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
    try:
        if not isinstance(given, Mapping) or not given or not all(isinstance(name, str) for name in given):
            return {}, "a mapping of names to values"
        point = {name: _plain(value) for name, value in given.items()}
        if json.loads(json.dumps(point, allow_nan=False)) == point:
            return point, ""
    except Exception:  # noqa: BLE001, S110  # numpy's and torch's arrays are no one number, and what not
        pass
    return {}, "values that JSON can hold: numbers, texts, lists and mappings"


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

    Raises:
        SpecError: the caller's own way gives neither.
    """
    given = point if said is None else said(point)
    if isinstance(given, Sequence) and not isinstance(given, (str, bytes)):
        with contextlib.suppress(Exception):  # then it is none of these, and is refused below
            texts = tuple(map(str, given))
            if all(map(is_text, texts)) and all(isinstance(one, (str, int, float)) for one in given):
                return texts
    if not isinstance(given, Mapping):
        allowed = f"a list of texts, or a mapping, of each point ({words(point)})"
        raise refused("arguments", given, allowed, "arguments=lambda point: [f'lr={point[\"lr\"]}']")
    if is_function:
        try:
            return (ARGUMENTS, json.dumps(given, sort_keys=True, allow_nan=False))
        except (TypeError, ValueError) as error:
            fix = "give numbers, texts, lists and mappings"
            raise refused("arguments", given, f"what JSON can hold: {error}", fix) from None
    told = ((f"--{name}", word(value)) for name, value in given.items() if value is not None)
    return tuple(itertools.chain.from_iterable(told))
