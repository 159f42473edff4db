"""Parts of an answer, taken as what they should be: whatever has another form counts as not there. Pure."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any

Json = Mapping[str, Any]


def mapping(value: object) -> Json:
    """A JSON object; empty where it is none.

    >>> mapping({"a": 1}), mapping("a")
    ({'a': 1}, {})
    """
    return value if isinstance(value, dict) else {}


def mappings(value: object) -> tuple[Json, ...]:
    """The JSON objects of a list; none where it is no list."""
    return tuple(one for one in value if isinstance(one, dict)) if isinstance(value, list) else ()


def texts(value: object) -> tuple[str, ...]:
    """The texts of a list; none where it is no list."""
    return tuple(one for one in value if isinstance(one, str)) if isinstance(value, list) else ()


def whole_number(value: object) -> int | None:
    """A count, which JSON of Google writes as a number or as its text; None: it is none.

    >>> whole_number("8"), whole_number(8), whole_number("eight")
    (8, 8, None)
    """
    if isinstance(value, str) and value.isascii() and value.isdigit() and len(value) < 20:
        return int(value)
    return value if isinstance(value, int) and not isinstance(value, bool) and value >= 0 else None
