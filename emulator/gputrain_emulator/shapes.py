"""Closed JSON shapes for services whose clients do not come with gputrain, read as strictly as the others.

A shape is a field table: a Python type for a scalar, `[shape]` for a list, another table for an object,
`Map(shape)` for free keys, `ANY` for free JSON, `Choice` for an enum. Names are Google's camelCase; the
snake_case form of each is accepted too, as proto3's JSON mapping does.
"""

from __future__ import annotations

import json
import re
from collections.abc import Mapping
from dataclasses import dataclass
from typing import Any

from gputrain_emulator import schema
from gputrain_emulator.errors import ApiError, bad_request

_INT64 = re.compile(r"-?[0-9]{1,19}")
_TIME = re.compile(
    r"[0-9]{4}-[0-9][0-9]-[0-9][0-9][Tt][0-9][0-9]:[0-9][0-9]:[0-9][0-9](\.[0-9]{1,9})?([Zz]|[+-][0-9][0-9]:[0-9][0-9])"
)
_MAX_DEPTH = 40


@dataclass(frozen=True)
class Map:
    """An object with free keys."""

    of: Any


@dataclass(frozen=True)
class Choice:
    """An enum: its names in the order of their numbers given."""

    names: Mapping[str, int]


class Time:
    """An RFC 3339 time."""


ANY = object()
INT64 = object()

Shape = Mapping[str, Any]


def read(shape: Shape, raw: bytes) -> dict[str, Any]:
    """The body as a document of the shape; 400 in Google's words naming all that does not fit."""
    if not raw.strip():
        return {}
    try:
        document = schema.decoded(raw)
    except ValueError:
        raise bad_request([("", "Invalid JSON payload received. Unexpected token.")]) from None
    problems: list[tuple[str, str]] = []
    found = _object(shape, document, "", problems, 0)
    if problems:
        raise bad_request(problems)
    return found


def integer(query: Mapping[str, Any], name: str, default: int) -> int:
    """An int32 query parameter that is not negative."""
    text = query.get(name, "")
    if text == "":
        return default
    if not re.fullmatch(r"[0-9]{1,9}", str(text)):
        raise ApiError(400, f"Invalid value at '{name}' (TYPE_INT32), \"{text}\"", reason="badRequest")
    return int(text)


def _object(shape: Shape, value: Any, at: str, problems: list[tuple[str, str]], depth: int) -> dict[str, Any]:
    if not isinstance(value, dict) or depth > _MAX_DEPTH:
        problems.append((at, f"Invalid value at '{at}' (type.googleapis.com), {_shown(value)}"))
        return {}
    found: dict[str, Any] = {}
    for key, item in value.items():
        name = _camel(key)
        if name not in shape:
            where = f" at '{at}'" if at else ""
            text = f'Invalid JSON payload received. Unknown name "{key}"{where}: Cannot find field.'
            problems.append((at, text))
        elif item is not None:
            here = f"{at}.{_snake(name)}" if at else _snake(name)
            found[name] = _value(shape[name], item, here, problems, depth + 1)
    return found


def _value(shape: Any, value: Any, at: str, problems: list[tuple[str, str]], depth: int) -> Any:
    if shape is ANY:
        return value
    if isinstance(shape, list):
        if isinstance(value, list):
            return [_value(shape[0], item, f"{at}[{i}]", problems, depth) for i, item in enumerate(value)]
        problems.append((at, f"Invalid value at '{at}' (TYPE_LIST), {_shown(value)}"))
        return []
    if isinstance(shape, Map):
        if isinstance(value, dict):
            return {
                key: _value(shape.of, item, f"{at}[{key}]", problems, depth) for key, item in value.items()
            }
        problems.append((at, f"Invalid value at '{at}' (TYPE_MAP), {_shown(value)}"))
        return {}
    if isinstance(shape, Mapping):
        return _object(shape, value, at, problems, depth)
    return _scalar(shape, value, at, problems)


def _scalar(shape: Any, value: Any, at: str, problems: list[tuple[str, str]]) -> Any:
    if isinstance(shape, Choice):
        for name, number in shape.names.items():
            if value in (name, number) and not isinstance(value, bool):
                return name
        kind = "TYPE_ENUM"
    elif shape is INT64:
        text = str(value) if isinstance(value, (int, str)) and not isinstance(value, bool) else ""
        if _INT64.fullmatch(text) and -(2**63) <= int(text) < 2**63:
            return text
        kind = "TYPE_INT64"
    elif shape is Time:
        if isinstance(value, str) and _TIME.fullmatch(value):
            return value
        kind = "type.googleapis.com/google.protobuf.Timestamp"
    else:
        is_small = shape is not int or (isinstance(value, int) and -(2**31) <= value < 2**31)
        if isinstance(value, shape) and (shape is bool or not isinstance(value, bool)) and is_small:
            return value
        kind = {str: "TYPE_STRING", bool: "TYPE_BOOL", int: "TYPE_INT32", float: "TYPE_DOUBLE"}[shape]
    problems.append((at, f"Invalid value at '{at}' ({kind}), {_shown(value)}"))
    return None


def _camel(name: str) -> str:
    head, *rest = name.split("_")
    return head + "".join(part[:1].upper() + part[1:] for part in rest)


def _snake(name: str) -> str:
    return re.sub(r"([A-Z])", lambda found: "_" + found.group(1).lower(), name)


def _shown(value: Any) -> str:
    return json.dumps(value)[:200]
