"""Python expressions that make a value again: for constants that travel with a function, by value."""

from __future__ import annotations

import logging
import math
import pathlib
import re
from collections.abc import Callable
from datetime import timedelta
from fractions import Fraction
from typing import Any

MAX_CHARS = 1 << 20
"""A constant larger than this is data: it belongs in a file."""


class CannotTravel(Exception):
    """No expression makes this value again; the text says why."""


def expression(value: object) -> str:
    """An expression that makes an equal value, with modules called by their own names.

    Raises:
        CannotTravel: the value is bound to this process, or too large.

    >>> expression({"lr": 3e-4, "betas": (0.9, 0.999)})
    "{'lr': 0.0003, 'betas': (0.9, 0.999)}"
    """
    text = _write(value, depth=0)
    if len(text) > MAX_CHARS:
        raise CannotTravel(f"it is too large ({len(text):,} characters)")
    return text


def modules_of(text: str) -> set[str]:
    """The modules that an expression of `expression` needs imported.

    >>> modules_of(expression(pathlib.PurePosixPath("a")))
    {'pathlib'}
    """
    return {
        module for module in ("datetime", "fractions", "logging", "pathlib", "re") if f"{module}." in text
    }


def _write(value: Any, depth: int) -> str:
    if depth > 50:
        raise CannotTravel("it holds itself, or is nested too deep")
    if type(value) is float and not math.isfinite(value):
        return f"float({str(value)!r})"
    if value is None or value is ... or type(value) in (bool, int, float, str, bytes, range):
        return repr(value) if value is not ... else "..."
    if type(value) is complex:
        return f"complex({_write(value.real, depth)}, {_write(value.imag, depth)})"
    if type(value) in _CONTAINERS:
        return _CONTAINERS[type(value)]([_write(one, depth + 1) for one in value])
    if type(value) is dict:
        pairs = (f"{_write(key, depth + 1)}: {_write(one, depth + 1)}" for key, one in value.items())
        return "{" + ", ".join(pairs) + "}"
    for kind, write in _OTHERS:
        if isinstance(value, kind):
            return write(value)
    raise CannotTravel(f"it is a {type(value).__module__}.{type(value).__qualname__}")


_CONTAINERS: dict[type, Callable[[list[str]], str]] = {
    list: lambda parts: f"[{', '.join(parts)}]",
    tuple: lambda parts: f"({', '.join(parts)}{',' if len(parts) == 1 else ''})",
    set: lambda parts: f"{{{', '.join(sorted(parts))}}}" if parts else "set()",
    frozenset: lambda parts: f"frozenset([{', '.join(sorted(parts))}])",
}
_OTHERS: tuple[tuple[type, Callable[[Any], str]], ...] = (
    (pathlib.PurePath, lambda path: f"pathlib.{type(path).__name__}({str(path)!r})"),
    (timedelta, lambda span: repr(span)),
    (Fraction, lambda number: f"fractions.{number!r}"),
    (re.Pattern, lambda pattern: f"re.compile({pattern.pattern!r}, {int(pattern.flags)})"),
    (logging.Logger, lambda logger: f"logging.getLogger({logger.name!r})"),
)
