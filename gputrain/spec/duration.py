"""Durations and moments as people write them: ``"90m"``, ``"1h30m"``, ``"2026-11-22T10:00"``."""

from __future__ import annotations

import math
import re
from contextlib import suppress
from datetime import datetime, timedelta

from gputrain.fields import invalid

_UNITS_S = {"d": 86_400, "h": 3_600, "m": 60, "s": 1}
_FORM = re.compile(r"(?:(\d{1,9})d)?(?:(\d{1,9})h)?(?:(\d{1,9})m)?(?:(\d{1,9})s)?", re.ASCII)


def parse_duration(value: str | timedelta) -> timedelta:
    """A positive duration of whole seconds.

    Raises:
        ValueError: the text has another form, or is zero or too long.

    >>> parse_duration("1h30m")
    datetime.timedelta(seconds=5400)
    """
    duration = value
    if not isinstance(duration, timedelta):
        match = _FORM.fullmatch(duration.strip().lower()) if isinstance(duration, str) else None
        if match is None or not any(match.groups()):
            raise ValueError("not a duration")
        parts = zip(match.groups(), _UNITS_S.values())
        try:
            duration = timedelta(seconds=sum(int(number) * unit for number, unit in parts if number))
        except OverflowError:
            raise ValueError("too long a duration") from None
    if duration <= timedelta(0) or duration.microseconds:
        raise ValueError("not a positive number of whole seconds")
    return duration


def format_duration(duration: timedelta) -> str:
    """The shortest text that `parse_duration` reads back."""
    left = int(duration.total_seconds())
    text = ""
    for unit, seconds in _UNITS_S.items():
        number, left = divmod(left, seconds)
        text += f"{number}{unit}" if number else ""
    return text or "0s"


def seconds_of(value: float | str | timedelta, field: str = "timeout") -> float:
    """Seconds, from a number, a text or a timedelta.

    Raises:
        SpecError: it is not a duration.
    """
    with suppress(ValueError, TypeError, ArithmeticError):
        if isinstance(value, timedelta):
            return value.total_seconds()
        if isinstance(value, str) and not re.fullmatch(r"\d+(\.\d*)?", value):
            return parse_duration(value).total_seconds()
        if not math.isnan(seconds := float(value)):
            return seconds
    raise invalid(field, value, "a duration", f"{field}='90m', seconds or a timedelta")


Moment = datetime | timedelta | str
"""A moment, or how long ago: ``"10m"``, ``"2026-11-22T10:00"``; without a time zone it is local time."""


def parse_moment(value: Moment, now: datetime) -> datetime:
    """The moment, with its time zone.

    Raises:
        SpecError: it is not a moment.
    """
    with suppress(ValueError, TypeError, ArithmeticError):
        found: Moment = value
        if isinstance(found, str):
            is_date = re.match(r"\d{4}-", found)
            found = datetime.fromisoformat(found.replace("Z", "+00:00")) if is_date else parse_duration(found)
        if isinstance(found, timedelta):
            return now - found
        if isinstance(found, datetime):
            return found if found.tzinfo else found.astimezone()
    expected = "a moment such as 2026-11-22T10:00, or how long ago"
    raise invalid("since", value, expected, "since='10m', a datetime or a timedelta")
