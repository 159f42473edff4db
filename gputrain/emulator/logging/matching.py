"""Whether a log entry is what a filter asks for: fields, types, severities, times, and what `:` means."""

from __future__ import annotations

import json
import re
from collections.abc import Callable, Iterator, Mapping
from typing import Any

from gputrain.emulator.logging.entries import SEVERITIES, parse_ns
from gputrain.emulator.query import Call, Comparison, FilterError, Leaf, Text, holds, leaves, parse

_NAMES = """
    logName resource timestamp receiveTimestamp severity insertId httpRequest labels operation trace spanId
    traceSampled sourceLocation split textPayload jsonPayload protoPayload errorGroups metadata otel
    apphub apphubDestination apphubSource
"""
_FIELDS = frozenset(_NAMES.split())  # LogEntry of the discovery document logging v2
_TIMES = ("timestamp", "receiveTimestamp")
_ORDER: Mapping[str, Callable[[Any, Any], bool]] = {
    "<": lambda a, b: bool(a < b),
    "<=": lambda a, b: bool(a <= b),
    ">": lambda a, b: bool(a > b),
    ">=": lambda a, b: bool(a >= b),
}
_MAX_PATTERN = 1000


def matcher(text: str) -> Callable[[Mapping[str, Any]], bool]:
    """A test of LogEntry documents; raises FilterError for what no entry could ever be asked."""
    tree = parse(text)
    for leaf in leaves(tree):
        _check(leaf)
    return lambda entry: holds(tree, lambda leaf: _true(leaf, entry))


def _check(leaf: Leaf) -> None:
    if isinstance(leaf, Call):
        if leaf.name != "log_id":
            raise FilterError(f"unknown function '{leaf.name}'")
    elif isinstance(leaf, Comparison):
        name = _field(leaf.path)
        if name not in _FIELDS:
            raise FilterError(f"Field not found: '{leaf.path[0]}'.")
        if name == "severity" and _severity(leaf.value) is None and leaf.operator not in ("=~", "!~"):
            raise FilterError(f"Invalid severity '{leaf.value}'")
        if name in _TIMES:
            _time(leaf.value)
        if leaf.operator in ("=~", "!~"):
            _pattern(leaf.value)


def _true(leaf: Leaf, entry: Mapping[str, Any]) -> bool:
    if isinstance(leaf, Text):
        wanted = leaf.value.lower()
        return any(wanted in str(value).lower() for value in _values(entry))
    if isinstance(leaf, Call):
        return str(entry.get("logName", "")).rpartition("/logs/")[2].replace("%2F", "/") == leaf.argument
    found = list(_find(entry, (_field(leaf.path), *leaf.path[1:])))
    if leaf.operator == ":" and leaf.value == "*" and not leaf.quoted:
        return bool(found)
    return any(_compare(leaf, value) for value in found)


def _compare(leaf: Comparison, value: Any) -> bool:
    name, operator, wanted = _field(leaf.path), leaf.operator, leaf.value
    if operator in ("=~", "!~"):
        return (re.search(_pattern(wanted), str(value)) is not None) is (operator == "=~")
    if operator == ":" and isinstance(value, Mapping):
        return wanted in value
    if name == "severity":
        return _ordered(operator, SEVERITIES.get(str(value), 0), _severity(wanted))
    if name in _TIMES:
        return _ordered(operator, parse_ns(str(value)), _time(wanted))
    if isinstance(value, bool):
        return _ordered(operator, str(value).lower(), wanted.lower())
    if isinstance(value, (int, float)):
        try:
            return _ordered(operator, float(value), float(wanted))
        except ValueError:
            return operator == "!="
    text = value if isinstance(value, str) else json.dumps(value)
    if operator == ":":
        return wanted.lower() in text.lower()
    return _ordered(operator, text.lower(), wanted.lower())


def _ordered(operator: str, value: Any, wanted: Any) -> bool:
    if operator in _ORDER:
        return _ORDER[operator](value, wanted)
    return bool(value != wanted) if operator == "!=" else bool(value == wanted)


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
    if value.isdigit():
        return int(value)
    return SEVERITIES.get(value.upper())


def _time(value: str) -> int:
    try:
        return parse_ns(value)
    except ValueError:
        raise FilterError(f"Invalid timestamp '{value}'") from None


def _pattern(text: str) -> str:
    try:
        re.compile(text[:_MAX_PATTERN])
    except re.error:
        raise FilterError(f"Invalid regular expression '{text}'") from None
    return text[:_MAX_PATTERN]
