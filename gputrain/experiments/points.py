"""The points of an experiment: read, checked, and as their jobs get them. Pure."""

from __future__ import annotations

import itertools
import json
import math
from collections.abc import Callable, Iterable, Mapping, Sequence
from typing import Any

from gputrain.fields import Errors, invalid, is_text
from gputrain.spec.entry import ARGUMENTS

Point = Mapping[str, Any]
Arguments = Callable[[Point], Sequence[str] | Mapping[str, Any]]

MOST_POINTS = 10_000
SHOWN_FAULTS = 20


def grid(**axes: Iterable[Any]) -> tuple[Point, ...]:
    """Every combination of the values, the last name changing fastest.

    Raises:
        SpecError: an axis is not a list of values; a text is one value.

    >>> grid(lr=[0.1, 0.3], seed=range(2))
    ({'lr': 0.1, 'seed': 0}, {'lr': 0.1, 'seed': 1}, {'lr': 0.3, 'seed': 0}, {'lr': 0.3, 'seed': 1})
    """
    for name, values in axes.items():
        if isinstance(values, (str, bytes, Mapping)) or not isinstance(values, Iterable):
            raise invalid(name, values, "a list of values", f"{name}=[...]")
    # one more than is allowed shows that there are too many
    found = itertools.product(*(itertools.islice(values, MOST_POINTS + 1) for values in axes.values()))
    return tuple(dict(zip(axes, values)) for values in itertools.islice(found, MOST_POINTS + 1))


def read_points(over: Iterable[Point]) -> tuple[dict[str, Any], ...]:
    """The points as JSON types.

    Raises:
        SpecError: with every point that is not one, or is there twice.
    """
    if isinstance(over, (str, bytes, Mapping)) or not isinstance(over, Iterable):
        raise invalid("over", over, "a list of mappings of names to values", "gputrain.grid(lr=[0.1, 0.3])")
    points: list[dict[str, Any]] = []
    errors = Errors("the points")
    seen: set[str] = set()
    for given in itertools.islice(over, MOST_POINTS + 1):
        point, expected = _read(given)
        text = canonical(point)
        if not expected and text in seen:
            expected = "each point once; add a name such as seed= to run one twice"
        if expected and len(errors.faults) < SHOWN_FAULTS:
            errors.add("over", given, expected, "over=[{'lr': 3e-4}]")
        seen.add(text)
        points.append(point)
    if not points or len(points) > MOST_POINTS:
        count = "none" if not points else f"more than {MOST_POINTS}"
        errors.add("over", count, f"1 to {MOST_POINTS} points", "gputrain.grid()")
    errors.raise_if_any()
    return tuple(points)


def _read(given: object) -> tuple[dict[str, Any], str]:
    """The point, or what is wrong with it."""
    if not isinstance(given, Mapping) or not given or not all(isinstance(name, str) for name in given):
        return {}, "a mapping of names to values"
    try:
        point = {name: _plain(value) for name, value in given.items()}
        if json.loads(json.dumps(point, allow_nan=False)) == point:
            return point, ""
    except (TypeError, ValueError, RecursionError):  # an array of numpy's, a number of 5000 digits
        pass
    return {}, "values that JSON can hold: numbers, texts, lists and mappings"


def _plain(value: Any) -> Any:
    """A scalar of numpy or torch as a number; a tuple as a list."""
    if isinstance(value, tuple):
        return [_plain(one) for one in value]
    if not isinstance(value, (str, int, float, list, dict, type(None))) and hasattr(value, "item"):
        return value.item()
    return value


def canonical(point: Point) -> str:
    """The same text for the same point, in any order of its names."""
    return json.dumps(point, sort_keys=True, default=repr)


def words(point: Point) -> str:
    """A point for people."""
    return " ".join(f"{name}={word(value)}" for name, value in point.items())


def word(value: object) -> str:
    """One value for a command line or a table."""
    if isinstance(value, float) and math.isfinite(value):
        return f"{value:g}" if float(f"{value:g}") == value else repr(value)
    return value if isinstance(value, str) else json.dumps(value)


def arguments_of(point: Point, is_function: bool, convert: Arguments | None) -> tuple[str, ...]:
    """A point as arguments: ``--name value`` for a script, keyword arguments for a function.

    Args:
        convert: the caller's own way: from a point to texts, or to a mapping that is treated as a point.

    Raises:
        SpecError: the caller's own way returns neither.
    """
    given = point if convert is None else convert(point)
    if isinstance(given, (list, tuple)) and all(isinstance(one, (str, int, float)) for one in given):
        texts = tuple(map(str, given))
        if all(map(is_text, texts)):
            return texts
    if not isinstance(given, Mapping):
        allowed = f"a list of texts, or a mapping, for each point ({words(point)})"
        raise invalid("arguments", given, allowed, "arguments=lambda point: [f'lr={point[\"lr\"]}']")
    if is_function:
        try:
            return (ARGUMENTS, json.dumps(given, sort_keys=True, allow_nan=False))
        except (TypeError, ValueError) as error:
            fix = "use numbers, texts, lists and mappings"
            raise invalid("arguments", given, f"what JSON can hold: {error}", fix) from None
    pairs = ((f"--{name}", word(value)) for name, value in given.items() if value is not None)
    return tuple(itertools.chain.from_iterable(pairs))
