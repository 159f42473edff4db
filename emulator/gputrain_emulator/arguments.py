"""What comes from a shell as JSON, held against the annotations of what takes it."""

from __future__ import annotations

import inspect
import math
from collections.abc import Callable, Mapping
from typing import Any

LONGEST_S = 100 * 365 * 86400.0
"""No date lies behind it, and no wait of the standard library's is longer."""

KINDS: Mapping[str, tuple[str, Callable[[Any], bool]]] = {
    "str": ("a string", lambda value: isinstance(value, str)),
    "float": ("a number", lambda value: type(value) in (int, float) and math.isfinite(value)),
    "int": ("a whole number", lambda value: type(value) is int and abs(value) < 1 << 63),
    "bool": ("true or false", lambda value: isinstance(value, bool)),
    "Iterable[str]": (
        "a list of strings",
        lambda value: isinstance(value, list) and all(isinstance(one, str) for one in value),
    ),
}
"""By the first name of an annotation: a shell has no other types than these."""


def check(function: Callable[..., object], arguments: Mapping[str, Any]) -> None:
    """Raises ValueError for an argument of a type, or a time of a length, that ``function`` does not take."""
    parameters = inspect.signature(function).parameters
    for name, value in arguments.items():
        annotation = str(parameters[name].annotation) if name in parameters else ""
        first, *others = annotation.split(" | ")
        if first not in KINDS or (value is None and "None" in others):
            continue
        kind, fits = KINDS[first]
        if not fits(value):
            raise ValueError(f"{name} is {kind}, not {value!r:.100}")
        if name == "seconds" and abs(value) > LONGEST_S:
            raise ValueError(f"seconds are {LONGEST_S:g} at most: no date lies behind them")
