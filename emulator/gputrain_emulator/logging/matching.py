"""Whether a log entry is what a filter asks for: fields, types, severities, times, and what `:` means."""

from __future__ import annotations

import json
import re
from collections.abc import Callable, Iterator, Mapping
from typing import Any

from gputrain_emulator import query
from gputrain_emulator.logging.entries import SEVERITIES, parse_ns
from gputrain_emulator.query import ORDER, FilterError, Leaf, Test

_NAMES = """
    logName resource timestamp receiveTimestamp severity insertId httpRequest labels operation trace spanId
    traceSampled sourceLocation split textPayload jsonPayload protoPayload errorGroups metadata otel
    apphub apphubDestination apphubSource
"""
_FIELDS = frozenset(_NAMES.split())  # LogEntry of the discovery document logging v2
_TIMES = ("timestamp", "receiveTimestamp")
_MAX_PATTERN = 1000


def matcher(text: str) -> Test:
    """A test of LogEntry documents; raises FilterError for what no entry could ever be asked."""
    return query.compiled(text, _leaf)


def _leaf(leaf: Leaf) -> Test:
    if not leaf.operator:
        wanted = ".".join(leaf.path).lower()
        return lambda entry: any(wanted in str(value).lower() for value in _values(entry))
    if leaf.operator == "(":
        if leaf.path != ("log_id",):
            raise FilterError(f"unknown function '{leaf.path[0]}'")
        return lambda entry: _log_id(entry) == leaf.value
    path = (_field(leaf.path), *leaf.path[1:])
    if path[0] not in _FIELDS:
        raise FilterError(f"Field not found: '{leaf.path[0]}'.")
    if leaf.operator == ":" and leaf.value == "*" and not leaf.quoted:
        return lambda entry: any(True for _ in _find(entry, path))
    compare = _comparison(path[0], leaf.operator, leaf.value)
    return lambda entry: any(compare(value) for value in _find(entry, path))


def _comparison(name: str, operator: str, wanted: str) -> Callable[[Any], bool]:
    if operator in ("=~", "!~"):
        pattern = re.compile(_pattern(wanted))
        return lambda value: (pattern.search(str(value)) is not None) is (operator == "=~")
    if operator not in ORDER:
        raise FilterError(f"unknown operator '{operator}'")
    order = ORDER[operator]
    if name == "severity":
        level = _severity(wanted)
        if level is None:
            raise FilterError(f"Invalid severity '{wanted}'")
        return lambda value: order(SEVERITIES.get(str(value), 0), level)
    if name in _TIMES:
        when = _time(wanted)
        return lambda value: order(parse_ns(str(value)), when)
    lower, number = wanted.lower(), _number(wanted)

    def compare(value: Any) -> bool:
        if isinstance(value, str):
            return lower in value.lower() if operator == ":" else order(value.lower(), lower)
        if isinstance(value, bool):
            return order(str(value).lower(), lower)
        if isinstance(value, (int, float)):
            return operator == "!=" if number is None else order(value, number)
        if isinstance(value, Mapping) and operator == ":":
            return wanted in value
        return lower in json.dumps(value).lower() if operator == ":" else False

    return compare


def _log_id(entry: Mapping[str, Any]) -> str:
    return str(entry.get("logName", "")).rpartition("/logs/")[2].replace("%2F", "/")


def _number(text: str) -> float | None:
    try:
        return float(text)
    except ValueError:
        return None


def _find(value: Any, path: tuple[str, ...]) -> Iterator[Any]:
    """What lies at the path; lists along it are looked into, and a label's key may hold the dots itself."""
    if isinstance(value, list):
        for item in value:
            yield from _find(item, path)
    elif not path:
        yield value
    elif isinstance(value, Mapping):
        for taken in range(1, len(path) + 1):
            key = ".".join(path[:taken])
            if key in value:
                yield from _find(value[key], path[taken:])


def _values(value: Any) -> Iterator[Any]:
    if isinstance(value, Mapping):
        for item in value.values():
            yield from _values(item)
    elif isinstance(value, list):
        for item in value:
            yield from _values(item)
    else:
        yield value


def _field(path: tuple[str, ...]) -> str:
    head, *rest = path[0].split("_")
    return head + "".join(part.title() for part in rest)


def _severity(value: str) -> int | None:
    if re.fullmatch("[0-9]{1,9}", value):
        return int(value)
    return SEVERITIES.get(value.upper())


def _time(value: str) -> int:
    try:
        return parse_ns(value)
    except ValueError:
        raise FilterError(f"Invalid timestamp '{value}'") from None


def _pattern(text: str) -> str:
    try:
        query.regular(text[:_MAX_PATTERN])
    except ValueError:
        raise FilterError(f"Invalid regular expression '{text}'") from None
    return text[:_MAX_PATTERN]
