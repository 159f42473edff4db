"""What may be in a bucket, an object and a query, and requests read by it: data from Google's own document.

The tables `data/storage_*.csv` are written out of the discovery document of Cloud Storage by
`scripts/storage_tables.py`; a test compares them with the document that google-api-python-client ships.
"""

from __future__ import annotations

import functools
import re
from collections.abc import Mapping
from dataclasses import dataclass
from datetime import date
from typing import Any

from gputrain_emulator import partial, tables
from gputrain_emulator.clock import parse_time
from gputrain_emulator.errors import ApiError
from gputrain_emulator.schema import SYSTEM_PARAMETERS, decoded, unknown_parameter
from gputrain_emulator.storage.refusals import invalid
from gputrain_emulator.storage.times import milliseconds

UPLOAD_PARAMETERS = frozenset({"upload_id"})
"""What the address of a resumable upload's session carries beside the parameters of its start."""

_RANGES = {"int32": 2**31, "int64": 2**63, "uint64": 2**64}
_BOOLEANS = {"true": "true", "false": "false", "True": "true", "False": "false"}
_MAX_DEPTH = 40


@dataclass(frozen=True, kw_only=True)
class Field:
    """One field of a message, or one parameter of a method."""

    kind: str
    """A scalar's format (`string`, `boolean`, `int64`, `date-time`, ...) or the name of a message."""
    many: str = ""
    """`list` or `map` where there are many."""
    values: tuple[str, ...] = ()
    output: bool = False
    """Written by the service alone: in a request it is read past."""
    required: bool = False


def read_message(message: str, raw: bytes) -> dict[str, Any]:
    """A request's body as a document of `message`, empty where there is none.

    64-bit integers come out as strings, times in UTC with milliseconds, None stays None; fields that the
    service alone writes are left out.

    Raises:
        ApiError: 400 for what is no JSON, for an unknown field, a wrong type or an unknown enum value.
    """
    if not raw.strip():
        return {}
    try:
        document = decoded(raw)
    except ValueError:
        raise ApiError(400, "Parse Error", reason="parseError") from None
    if not isinstance(document, dict):
        raise ApiError(400, "Parse Error", reason="parseError")
    return _message(message, document, "", 0)


def read_parameters(method: str, query: Mapping[str, list[str]]) -> dict[str, str]:
    """The query of a call to `method`, the last of each parameter; 400 for what the document has not."""
    known = _parameters().get(method, {})
    found: dict[str, str] = {}
    for name, texts in query.items():
        if name in SYSTEM_PARAMETERS or name in UPLOAD_PARAMETERS:
            found[name] = _system(name, texts[-1])
        elif name not in known:
            raise invalid(unknown_parameter(name), reason="invalidParameter")
        else:
            found[name] = _text(known[name], texts[-1], name)
    for name, parameter in known.items():
        if parameter.required and not found.get(name):
            raise ApiError(400, f"Required parameter: {name}", reason="required")
    return found


def check_selection(method: str, mask: str) -> None:
    """400 for a `fields` that selects what the answer of `method` has not, or that is not well-formed."""
    partial.check_shape(mask)
    message = _answers().get(method)
    if message is not None:
        _check_tree(message, partial.parse(mask))


def _check_tree(message: str, tree: partial.Tree) -> None:
    for name, inner in tree.items():
        field = _messages().get(message, {}).get(name)
        if name == "*":
            continue
        if field is None:
            raise partial.no_selection(name)
        if field.kind in _messages() and field.many != "map":
            _check_tree(field.kind, inner)
        elif inner and field.many != "map":
            raise partial.no_selection(next(iter(inner)))


@functools.cache
def _answers() -> Mapping[str, str]:
    return {row["method"]: row["message"] for row in tables.records("storage_answers.csv")}


@functools.cache
def _messages() -> Mapping[str, Mapping[str, Field]]:
    found: dict[str, dict[str, Field]] = {}
    for row in tables.records("storage_fields.csv"):
        found.setdefault(row["message"], {})[row["field"]] = _field(row)
    return found


@functools.cache
def _parameters() -> Mapping[str, Mapping[str, Field]]:
    found: dict[str, dict[str, Field]] = {}
    for row in tables.records("storage_parameters.csv"):
        found.setdefault(row["method"], {})[row["parameter"]] = _field(row)
    return found


def _field(row: Mapping[str, str]) -> Field:
    return Field(
        kind=row["type"],
        many=row["many"],
        values=tuple(row["values"].split()),
        output=row.get("output") == "yes",
        required=row.get("required") == "yes",
    )


def _message(message: str, document: Any, at: str, depth: int) -> dict[str, Any]:
    if not isinstance(document, dict) or depth > _MAX_DEPTH:
        raise _wrong(at)
    known = _messages()[message]
    found: dict[str, Any] = {}
    for name, value in document.items():
        field = known.get(name)
        if field is None:
            where = f" at '{at}'" if at else ""
            raise invalid(f'Invalid JSON payload received. Unknown name "{name}"{where}: Cannot find field.')
        if not field.output:
            place = f"{at}.{name}" if at else name
            found[name] = None if value is None else _many(field, value, place, depth)
    return found


def _many(field: Field, value: Any, at: str, depth: int) -> Any:
    if field.many == "list":
        if not isinstance(value, list):
            raise _wrong(at)
        return [_one(field, item, f"{at}[{index}]", depth) for index, item in enumerate(value)]
    if field.many == "map":
        if not isinstance(value, dict):
            raise _wrong(at)
        return {
            key: None if item is None else _one(field, item, f"{at}[{key}]", depth)
            for key, item in value.items()
        }
    return _one(field, value, at, depth)


def _one(field: Field, value: Any, at: str, depth: int) -> Any:
    if field.kind in _messages():
        return _message(field.kind, value, at, depth + 1)
    if field.kind == "boolean":
        if not isinstance(value, bool):
            raise _wrong(at)
        return value
    if field.kind in _RANGES:
        return _integer(field.kind, value, at)
    if not isinstance(value, str) or (field.values and value not in field.values):
        raise _wrong(at)
    if field.kind == "date":
        return _date(value, at)
    if field.kind == "date-time":
        return _time(value, at)
    return value


def _integer(kind: str, value: Any, at: str) -> Any:
    limit = _RANGES[kind]
    if isinstance(value, bool) or not re.fullmatch(r"-?[0-9]{1,20}", str(value)):
        raise _wrong(at)
    if not (0 if kind == "uint64" else -limit) <= int(value) < limit:
        raise _wrong(at)
    return int(value) if kind == "int32" else str(int(value))


def _date(value: str, at: str) -> str:
    try:
        return date.fromisoformat(value).isoformat()
    except ValueError:
        raise _wrong(at) from None


def _time(value: str, at: str) -> str:
    try:
        return milliseconds(parse_time(value))
    except (ValueError, OverflowError):
        raise _wrong(at) from None


def _text(field: Field, text: str, name: str) -> str:
    if field.kind == "boolean":
        if text not in _BOOLEANS:
            raise invalid(f"Invalid boolean value: '{text}'.", reason="invalidParameter")
        return _BOOLEANS[text]
    if field.kind in _RANGES:
        limit = _RANGES[field.kind]
        if not re.fullmatch(r"-?[0-9]{1,20}", text) or not -limit <= int(text) < limit:
            raise invalid(f"Invalid value for {name}: '{text}' is not a valid integer")
    elif field.values and text not in field.values:
        raise invalid(
            f"Invalid string value: '{text}'. Allowed values: {list(field.values)}", reason="invalidParameter"
        )
    return text


def _system(name: str, text: str) -> str:
    if name == "alt" and text not in ("json", "media"):
        raise invalid(f"Invalid alt value: '{text}'.", reason="invalidAltValue")
    return text


def _wrong(at: str) -> ApiError:
    return invalid(f"Invalid value for {at}." if at else "Invalid value.")
