"""Moments as Google writes them, and values as JSON types."""

from __future__ import annotations

import enum
import math
import re
from collections.abc import Mapping
from datetime import datetime, timedelta, timezone
from email.utils import parsedate_to_datetime
from fractions import Fraction
from functools import lru_cache
from typing import Any

import attrs

_RFC3339 = re.compile(
    r"(?P<seconds>\d{4}-\d\d-\d\d[Tt ]\d\d:\d\d:\d\d)(?:\.(?P<part>\d+))?(?P<zone>[Zz]|[+-]\d\d:\d\d)",
    re.ASCII,
)


def moment_of(text: object) -> datetime | None:
    """A moment of RFC 3339 with any number of digits of a second (Python 3.10 reads three or six).

    None for anything else: no year 0, no text without a zone.

    >>> moment_of("2026-11-22T05:26:17.123456789Z").isoformat()
    '2026-11-22T05:26:17.123456+00:00'
    """
    found = _RFC3339.fullmatch(text) if isinstance(text, str) else None
    if found is None:
        return None
    micros = (found["part"] or "").ljust(6, "0")[:6]
    zone = "+00:00" if found["zone"] in "Zz" else found["zone"]
    try:
        return datetime.fromisoformat(f"{found['seconds'].upper()}.{micros}{zone}").astimezone(timezone.utc)
    except (ValueError, OverflowError):
        return None


@lru_cache(maxsize=64)  # each object of a list asks for that of the same answer
def moment_of_header(text: object) -> datetime | None:
    """A moment of an HTTP header, such as ``Date``; None for anything else.

    >>> moment_of_header("Sun, 22 Nov 2026 05:26:17 GMT").isoformat()
    '2026-11-22T05:26:17+00:00'
    """
    try:
        found = parsedate_to_datetime(text) if isinstance(text, str) else None
    except (ValueError, TypeError, OverflowError):
        return None
    return found if found is None or found.tzinfo is None else found.astimezone(timezone.utc)


def plain(value: Any) -> Any:
    """A value as JSON types: times in ISO 8601, durations in seconds, fractions as numbers, values by field.

    What JSON has no number for is text: nan, inf, -inf.

    >>> plain((timedelta(minutes=2), Fraction(1, 2), math.nan))
    [120.0, 0.5, 'nan']
    """
    match value:
        case enum.Enum():
            return value.value
        case datetime():
            return value.isoformat()
        case timedelta():
            return value.total_seconds()
        case Fraction():
            return float(value)
        case float():
            return value if math.isfinite(value) else str(value)
        case tuple() | list():
            return [plain(one) for one in value]
        case Mapping():
            return {name: plain(one) for name, one in value.items()}
    return picked(value, " ".join(attrs.fields_dict(type(value)))) if attrs.has(type(value)) else value


def picked(value: object, names: str) -> dict[str, Any]:
    """The attributes of a value that are named, as JSON types and in that order.

    >>> picked(timedelta(days=2), "days seconds")
    {'days': 2, 'seconds': 0}
    """
    return {name: plain(getattr(value, name)) for name in names.split()}
