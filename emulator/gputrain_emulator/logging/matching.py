"""Whether a log entry is what a filter asks for: fields, types, severities, times, and what `:` means."""

from __future__ import annotations

import json
import re
from collections.abc import Callable, Iterator, Mapping
from typing import Any

from gputrain_emulator.logging.entries import SEVERITIES, parse_ns
from gputrain_emulator.patterns import compiled
from gputrain_emulator.query import (
    Call,
    Comparison,
    Every,
    FilterError,
    Leaf,
    Node,
    Not,
    Some,
    Text,
    leaves,
    parse,
)

_NAMES = """
    logName resource timestamp receiveTimestamp severity insertId httpRequest labels operation trace spanId
    traceSampled sourceLocation split textPayload jsonPayload protoPayload errorGroups metadata otel
    apphub apphubDestination apphubSource
"""
_FIELDS = frozenset(_NAMES.split())  # LogEntry of the discovery document logging v2
_TIMES = ("timestamp", "receiveTimestamp")
_ORDER: Mapping[str, Callable[[Any, Any], bool]] = {
    "=": lambda a, b: bool(a == b),
    ":": lambda a, b: bool(a == b),
    "!=": lambda a, b: bool(a != b),
    "<": lambda a, b: bool(a < b),
    "<=": lambda a, b: bool(a <= b),
    ">": lambda a, b: bool(a > b),
    ">=": lambda a, b: bool(a >= b),
}
_MAX_PATTERN = 1000

Test = Callable[[Mapping[str, Any]], bool]


def matcher(text: str) -> Test:
    """A test of LogEntry documents; raises FilterError for what no entry could ever be asked."""
    tree = parse(text)
    for leaf in leaves(tree):
        _check(leaf)
    return _compiled(tree)


def _compiled(node: Node) -> Test:
    """The tree as nested functions, as a filter is read once and asked of thousands of entries."""
    if isinstance(node, Every):
        every = [_compiled(part) for part in node.nodes]
        return lambda entry: all(test(entry) for test in every)
    if isinstance(node, Some):
        some = [_compiled(part) for part in node.nodes]
        return lambda entry: any(test(entry) for test in some)
    if isinstance(node, Not):
        denied = _compiled(node.node)
        return lambda entry: not denied(entry)
    return _leaf(node)


def _leaf(leaf: Leaf) -> Test:
    if isinstance(leaf, Text):
        wanted = leaf.value.lower()
        return lambda entry: any(wanted in str(value).lower() for value in _values(entry))
    if isinstance(leaf, Call):
        return lambda entry: _log_id(entry) == leaf.argument
    path = (_field(leaf.path), *leaf.path[1:])
    if leaf.operator == ":" and leaf.value == "*" and not leaf.quoted:
        return lambda entry: any(True for _ in _find(entry, path))
    compare = _comparison(path[0], leaf.operator, leaf.value)
    return lambda entry: any(compare(value) for value in _find(entry, path))


def _comparison(name: str, operator: str, wanted: str) -> Callable[[Any], bool]:
    if operator in ("=~", "!~"):
        pattern = re.compile(_pattern(wanted))
        return lambda value: (pattern.search(str(value)) is not None) is (operator == "=~")
    order = _ORDER[operator]
    if name == "severity":
        level = _severity(wanted)
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
        compiled(text[:_MAX_PATTERN])
    except ValueError:
        raise FilterError(f"Invalid regular expression '{text}'") from None
    return text[:_MAX_PATTERN]
