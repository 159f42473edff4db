"""Requests read as strictly as Google reads them, against the tables of its message types.

What comes out is plain JSON in Google's own form: camelCase keys, 64-bit integers as strings, enums as names.
"""

from __future__ import annotations

import json
import math
import re
from collections.abc import Mapping
from typing import Any

from gputrain_emulator.errors import bad_request
from gputrain_emulator.messages import Field, Message

SYSTEM_PARAMETERS = frozenset(
    {
        "$.xgafv", "$alt", "$callback", "$key", "$outputDefaults", "$prettyPrint", "$unique", "$userProject",
        "access_token", "alt", "bearer_token", "callback", "fields", "key", "oauth_token", "pp",
        "prettyPrint", "quotaUser", "trace", "uploadType", "upload_id",
        "upload_protocol", "userIp",
    }
)  # fmt: skip
"""Query parameters that every Google method takes, from the discovery documents' common parameters."""

_BOOLEANS = frozenset({"true", "false", "True", "False"})
"""gcloud 528 spells a query parameter ``True``, and Google takes it."""

_BETA_PARAMETERS = {"google.cloud.compute": frozenset({"returnPartialSuccess"})}
"""By package: parameters that gcloud 528 sends to v1 although its document has them in beta only
(2026-11-20)."""

_INT_RANGES = {
    "int32": (-(2**31), 2**31 - 1),
    "uint32": (0, 2**32 - 1),
    "int64": (-(2**63), 2**63 - 1),
    "uint64": (0, 2**64 - 1),
}
_DURATION = re.compile(r"-?[0-9]{1,12}(\.[0-9]{1,9})?s")
_TIMESTAMP = re.compile(
    r"[0-9]{4}-[0-9][0-9]-[0-9][0-9][Tt][0-9][0-9]:[0-9][0-9]:[0-9][0-9](\.[0-9]{1,9})?([Zz]|[+-][0-9][0-9]:[0-9][0-9])"
)
_FREE_FORM = frozenset(f"google.protobuf.{name}" for name in ("Struct", "Value", "ListValue", "Any"))
_SCALAR_MESSAGES = frozenset(f"google.protobuf.{name}" for name in ("Timestamp", "Duration", "FieldMask"))

Problems = list[tuple[str, str]]


def decoded(text: bytes) -> Any:
    """A JSON document in UTF-8.

    Raises ValueError for what is none.
    """
    try:
        return json.loads(text.decode("utf-8-sig"))
    except RecursionError:
        raise ValueError("nested too deeply") from None


def read_message(message: Message, value: Any, at: str) -> dict[str, Any]:
    """``value`` (decoded JSON) as a normal document of type ``message``.

    Raises ApiError 400 naming every unknown field, wrong type and unknown enum value, in Google's words.
    """
    problems: Problems = []
    document = _message(message, value, at, problems)
    if problems:
        raise bad_request(problems)
    return document if isinstance(document, dict) else {}


def read_query(message: Message, query: Mapping[str, list[str]]) -> dict[str, Any]:
    """Query parameters as a document of type ``message``; raises ApiError 400 for what does not fit."""
    problems: Problems = []
    document: dict[str, Any] = {}
    ignored = SYSTEM_PARAMETERS | _BETA_PARAMETERS.get(message.name.rpartition(".v")[0], frozenset())
    for key, texts in query.items():
        if key in ignored:
            continue
        _bind(message, key.split("."), texts, document, key, problems)
    if problems:
        raise bad_request(problems)
    return document


def unknown_parameter(name: str) -> str:
    """Google's sentence for a query parameter that the method has not."""
    return (
        f'Invalid JSON payload received. Unknown name "{name}": Cannot bind query parameter. '
        f"Field '{name}' could not be found in request message."
    )


def _bind(
    message: Message,
    path: list[str],
    texts: list[str],
    into: dict[str, Any],
    key: str,
    problems: Problems,
) -> None:
    field = message.by_name.get(path[0])
    if field is None or (len(path) > 1) is not _has_fields(field):
        problems.append(("", unknown_parameter(key)))
    elif len(path) > 1:
        _bind(field.message, path[1:], texts, into.setdefault(field.json, {}), key, problems)
    elif field.is_list:
        into[field.json] = [_scalar(field, text, key, problems) for text in texts]
    else:
        into[field.json] = _scalar(field, texts[-1], key, problems)


def _has_fields(field: Field) -> bool:
    """Whether a query parameter must name a field of this one, which is written as no scalar."""
    is_scalar = field.type in _SCALAR_MESSAGES or _is_wrapper(field.type)
    return field.kind in ("message", "map") and not is_scalar


def _is_wrapper(name: str) -> bool:
    return name.startswith("google.protobuf.") and name.endswith("Value") and name not in _FREE_FORM


def _message(message: Message, value: Any, at: str, problems: Problems) -> Any:
    if message.name.startswith("google.protobuf.") and message.name != "google.protobuf.Empty":
        return _well_known(message, value, at, problems)
    if not isinstance(value, dict):
        return _refuse(problems, at, message.name, value)
    document: dict[str, Any] = {}
    arms: set[str] = set()
    for key, item in value.items():
        field = message.by_name.get(key)
        if field is None:
            where = f" at '{at}'" if at else ""
            problems.append(
                (at, f'Invalid JSON payload received. Unknown name "{key}"{where}: Cannot find field.')
            )
        elif item is not None:
            inner = f"{at}.{field.name}" if at else field.name
            if field.json in document:
                problems.append((inner, f"Invalid value at '{inner}' (field), '{key}' is already set."))
            if field.oneof in arms:
                taken = f"oneof field '{field.oneof}' is already set. Cannot set '{field.json}'"
                problems.append((at, f"Invalid value at '{at}' (oneof), {taken}"))
            arms |= {field.oneof} - {""}
            document[field.json] = _field(field, item, inner, problems)
    return document


def _field(field: Field, value: Any, at: str, problems: Problems) -> Any:
    if field.kind == "map":
        return _map(field, value, at, problems)
    if not field.is_list:
        if isinstance(value, list) and field.kind != "message":
            sentence = f"Invalid JSON payload received. Unknown name \"{field.json}\" at '{at}': "
            problems.append((at, sentence + "Proto field is not repeating, cannot start list."))
            return None
        return _scalar(field, value, at, problems)
    if not isinstance(value, list):
        return _refuse(problems, at, _type_name(field), value)
    return [_scalar(field, item, f"{at}[{index}]", problems) for index, item in enumerate(value)]


def _map(field: Field, value: Any, at: str, problems: Problems) -> Any:
    entry = field.message.by_name["value"]
    if not isinstance(value, dict):
        return _refuse(problems, at, "Map", value)
    return {str(key): _scalar(entry, item, f"{at}[{key}]", problems) for key, item in value.items()}


def _scalar(field: Field, value: Any, at: str, problems: Problems) -> Any:
    kind = field.kind
    if kind == "message":
        return _message(field.message, value, at, problems)
    if kind == "string" and isinstance(value, str):
        if field.type and not field.enum.get(value):  # the value of number 0 is no word of the wire
            _refuse(problems, at, _type_name(field), value)
        return value
    if kind == "enum":
        return _enum(field, value, at, problems)
    if kind == "bool" and isinstance(value, bool):
        return value
    if kind == "bool" and isinstance(value, str) and value in _BOOLEANS:
        return value.lower() == "true"
    if kind in _INT_RANGES:
        return _integer(kind, value, at, problems)
    if kind in ("double", "float"):
        return _number(kind, value, at, problems)
    if kind == "bytes" and isinstance(value, str):
        return value
    return _refuse(problems, at, f"TYPE_{kind.upper()}", value)


def _integer(kind: str, value: Any, at: str, problems: Problems) -> Any:
    low, high = _INT_RANGES[kind]
    text = str(int(value)) if isinstance(value, float) and value.is_integer() else str(value)
    if isinstance(value, bool) or not re.fullmatch(r"-?[0-9]{1,20}", text) or not low <= int(text) <= high:
        return _refuse(problems, at, f"TYPE_{kind.upper()}", value)
    return str(int(text)) if kind.endswith("64") else int(text)


def _number(kind: str, value: Any, at: str, problems: Problems) -> Any:
    try:
        if isinstance(value, bool):
            raise ValueError
        number = float(value)
    except (TypeError, ValueError, OverflowError):
        return _refuse(problems, at, f"TYPE_{kind.upper()}", value)
    return number if math.isfinite(number) else str(value)  # JSON writes "NaN" and "Infinity" as texts


def _enum(field: Field, value: Any, at: str, problems: Problems) -> Any:
    if isinstance(value, str) and re.fullmatch("-?[0-9]{1,10}", value):
        value = int(value)
    if isinstance(value, str) and value in field.enum:
        return value
    if isinstance(value, int) and not isinstance(value, bool):
        for name, number in field.enum.items():
            if number == value:
                return name
    return _refuse(problems, at, _type_name(field), value)


def _type_name(field: Field) -> str:
    return f"type.googleapis.com/{field.type}" if field.type else f"TYPE_{field.kind.upper()}"


def _refuse(problems: Problems, at: str, type_name: str, value: Any) -> None:
    """One more problem: a value that is none of its type."""
    shown = f'"{value}"' if isinstance(value, str) else json.dumps(value, default=repr)
    problems.append((at, f"Invalid value at '{at}' ({type_name}), {shown[:200]}"))


def _well_known(message: Message, value: Any, at: str, problems: Problems) -> Any:
    name = message.name
    patterns = {"google.protobuf.Duration": _DURATION, "google.protobuf.Timestamp": _TIMESTAMP}
    if name in patterns:
        if not (isinstance(value, str) and patterns[name].fullmatch(value)):
            short = name.rpartition(".")[2]
            field = at.rpartition(".")[2]
            sentence = f"Invalid value at '{at}' (type.googleapis.com/{name}), Field '{field}', "
            sentence += f"Illegal {short.lower()} format"
            problems.append((at, sentence))
        return value
    if _is_wrapper(name):
        return _scalar(message.by_name["value"], value, at, problems)
    return value
