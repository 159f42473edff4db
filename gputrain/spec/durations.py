"""Durations as people write them: ``"90m"``, ``"12h"``, ``"1d"``, ``"1h30m"``."""

from __future__ import annotations

import math
import re
from contextlib import suppress
from datetime import datetime, timedelta

from gputrain.fields import refused

_UNITS_S = {"d": 86_400, "h": 3_600, "m": 60, "s": 1}
_FORM = re.compile(r"(?:(\d{1,9})d)?(?:(\d{1,9})h)?(?:(\d{1,9})m)?(?:(\d{1,9})s)?", re.ASCII)
_SECONDS = re.compile(r"\d+(\.\d*)?")
_MOMENT = re.compile(r"\d{4}-")


def parse_duration(value: str | timedelta) -> timedelta:
    """The duration that ``value`` says.

    Raises:
        ValueError: the text is none of the forms above, or not a whole positive number of seconds.

    >>> parse_duration("1h30m")
    datetime.timedelta(seconds=5400)
    """
    if isinstance(value, timedelta):
        duration = value
    else:
        match = _FORM.fullmatch(value.strip().lower()) if isinstance(value, str) else None
        if match is None or not any(match.groups()):
            raise ValueError("it is not a duration")
        parts = zip(match.groups(), _UNITS_S.values())
        seconds = sum(int(number) * unit for number, unit in parts if number)
        if seconds > timedelta.max.total_seconds() - 1:
            raise ValueError(f"{value!r} is no duration that anybody lives to see")
        duration = timedelta(seconds=seconds)
    if duration <= timedelta(0) or duration.microseconds:
        raise ValueError("it is not a positive whole number of seconds")
    return duration


def seconds_of(value: float | str | timedelta, field: str = "timeout") -> float:
    """The seconds that a number, a text or a timedelta says.

    Raises:
        SpecError: it is no duration.

    >>> seconds_of("2m"), seconds_of(0.5)
    (120.0, 0.5)
    """
    with suppress(Exception):  # whatever it is, it says no duration
        if isinstance(value, timedelta):
            return value.total_seconds()
        if isinstance(value, str) and not _SECONDS.fullmatch(value):
            value = parse_duration(value).total_seconds()
        seconds = float(value)
        if not math.isnan(seconds):
            return seconds
    raise refused(field, value, "a duration", f"{field}='90m', seconds or a timedelta")


Moment = datetime | timedelta | str
"""A moment, or how long ago: ``"10m"``, ``"2026-11-22T10:00"``; without a zone it is this machine's time."""


def moment_asked(value: Moment, now: datetime) -> datetime:
    """The moment that is meant, with its zone.

    Raises:
        SpecError: it is none.

    >>> from datetime import timezone
    >>> moment_asked("2h", datetime(2026, 11, 22, 12, tzinfo=timezone.utc)).hour
    10
    """
    with suppress(Exception):  # whatever it is, it says no moment
        if isinstance(value, str) and not _MOMENT.match(value):
            value = parse_duration(value)
        if isinstance(value, str):
            value = datetime.fromisoformat(value.replace("Z", "+00:00"))
        if isinstance(value, timedelta):
            return now - value
        if isinstance(value, datetime):
            return value if value.tzinfo else value.astimezone()
    allowed = "a moment such as 2026-11-22T10:00, or how long ago"
    raise refused("since", value, allowed, "since='10m', a datetime or a timedelta")


def format_duration(duration: timedelta) -> str:
    """The shortest text that `parse_duration` reads back as the same duration.

    >>> format_duration(timedelta(hours=36))
    '1d12h'
    """
    left = int(duration.total_seconds())
    text = ""
    for unit, seconds in _UNITS_S.items():
        number, left = divmod(left, seconds)
        if number:
            text += f"{number}{unit}"
    return text or "0s"
