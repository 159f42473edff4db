"""The book of log entries: kept in the order of time, each visible from its own moment on."""

from __future__ import annotations

import functools
import itertools
import re
from bisect import insort
from collections.abc import Iterator, Mapping
from dataclasses import dataclass, field
from datetime import datetime, timezone
from typing import Any

SEVERITIES: Mapping[str, int] = {
    "DEFAULT": 0,
    "DEBUG": 100,
    "INFO": 200,
    "NOTICE": 300,
    "WARNING": 400,
    "ERROR": 500,
    "CRITICAL": 600,
    "ALERT": 700,
    "EMERGENCY": 800,
}

_DAY, _HOUR = "[0-9]{4}-[0-9]{2}-[0-9]{2}", "[0-9]{2}:[0-9]{2}"
_TIME = re.compile(rf"({_DAY})[Tt ]({_HOUR}:[0-9]{{2}})(?:\.([0-9]{{1,9}}))?([Zz]|[+-]{_HOUR})")
_DATE = re.compile(_DAY)


@functools.lru_cache(maxsize=1 << 16)
def parse_ns(text: str) -> int:
    """Nanoseconds since 1970 of an RFC 3339 time, or of a date alone; raises ValueError."""
    if _DATE.fullmatch(text):
        text += "T00:00:00Z"
    found = _TIME.fullmatch(text)
    if found is None:
        raise ValueError(f"{text!r} is not an RFC 3339 time")
    date, clock, fraction, zone = found.groups()
    offset = "+00:00" if zone in "Zz" else zone
    seconds = int(datetime.fromisoformat(f"{date}T{clock}{offset}").timestamp())
    return seconds * 10**9 + int((fraction or "").ljust(9, "0"))


def format_ns(time_ns: int) -> str:
    """RFC 3339 in UTC with as many digits as are needed: 0, 3, 6 or 9."""
    seconds, fraction = divmod(time_ns, 10**9)
    text = datetime.fromtimestamp(seconds, timezone.utc).strftime("%Y-%m-%dT%H:%M:%S")
    digits = f"{fraction:09d}"
    while digits.endswith("000"):
        digits = digits[:-3]
    return f"{text}.{digits}Z" if digits else f"{text}Z"


@dataclass(frozen=True, kw_only=True, order=True)
class Entry:
    """One entry; `document` is the LogEntry as JSON, `visible` when a reader may first see it."""

    time_ns: int
    insert_id: str
    serial: int
    document: Mapping[str, Any] = field(compare=False)
    visible: float = field(compare=False)


class LogBook:
    """All entries of all projects. Its owner serialises access."""

    def __init__(self) -> None:
        self._by_parent: dict[str, list[Entry]] = {}
        self._keys: set[tuple[str, int, str]] = set()
        self._serials = itertools.count(1)

    def add(self, parent: str, document: Mapping[str, Any], *, visible: float) -> None:
        """Keep an entry of `parent` (`projects/p`); one of the same log, time and insertId is that one."""
        serial = next(self._serials)
        insert_id = str(document.get("insertId") or f"emulated{serial:012d}")
        time_ns = parse_ns(str(document["timestamp"]))
        key = (str(document["logName"]), time_ns, insert_id)
        if key in self._keys:
            return
        self._keys.add(key)
        kept = {**document, "insertId": insert_id, "timestamp": format_ns(time_ns)}
        entry = Entry(time_ns=time_ns, insert_id=insert_id, serial=serial, document=kept, visible=visible)
        insort(self._by_parent.setdefault(parent, []), entry)

    def read(self, parents: tuple[str, ...], *, now: float, newest_first: bool = False) -> Iterator[Entry]:
        """What can be seen at `now`, in the order of time."""
        found = [entry for parent in parents for entry in self._by_parent.get(parent, ())]
        if len(parents) > 1:
            found.sort()
        ordered = reversed(found) if newest_first else iter(found)
        return (entry for entry in ordered if entry.visible <= now)
