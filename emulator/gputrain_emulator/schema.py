"""Requests read as strictly as Google reads them, against the official clients' own message types.

What comes out is plain JSON in Google's own form: camelCase keys, 64-bit integers as strings, enums as names.
"""

from __future__ import annotations

import functools
import re
from collections.abc import Mapping
from typing import Any

from gputrain_emulator.errors import bad_request

Descriptor = Any
"""google.protobuf.descriptor.Descriptor; the two implementations of protobuf share no type for it."""

SYSTEM_PARAMETERS = frozenset(
    {
        "$.xgafv", "$alt", "$callback", "$key", "$outputDefaults", "$prettyPrint", "$unique", "$userProject",
        "access_token", "alt", "bearer_token", "callback", "fields", "key", "oauth_token", "pp",
        "prettyPrint", "quotaUser", "trace", "uploadType", "upload_protocol", "userIp",
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
_KINDS = {
    1: "double", 2: "float", 3: "int64", 4: "uint64", 5: "int32", 6: "uint64", 7: "uint32", 8: "bool",
    9: "string", 10: "group", 11: "message", 12: "bytes", 13: "uint32", 14: "enum", 15: "int32", 16: "int64",
    17: "int32", 18: "int64",
}  # fmt: skip
"""JSON kinds by the field types of descriptor.proto."""
_DURATION = re.compile(r"-?\d{1,12}(\.\d{1,9})?s")
_TIMESTAMP = re.compile(r"\d{4}-\d\d-\d\d[Tt]\d\d:\d\d:\d\d(\.\d{1,9})?([Zz]|[+-]\d\d:\d\d)")
_FREE_FORM = frozenset(f"google.protobuf.{name}" for name in ("Struct", "Value", "ListValue", "Any"))
_SCALAR_MESSAGES = frozenset(f"google.protobuf.{name}" for name in ("Timestamp", "Duration", "FieldMask"))

Problems = list[tuple[str, str]]


@functools.cache
def fields_of(descriptor: Descriptor) -> dict[str, Any]:
    """Every field of a message by its JSON name and by its proto name."""
    table: dict[str, Any] = {}
    for field in descriptor.fields:
        table[field.name] = field
        table[field.json_name] = field
    return table


def read_message(descriptor: Descriptor, value: Any, at: str) -> dict[str, Any]:
    """``value`` (decoded JSON) as a normal document of ``descriptor``.

    Raises ApiError 400 naming every unknown field, wrong type and unknown enum value, in Google's words.
    """
    problems: Problems = []
    document = _message(descriptor, value, at, problems)
    if problems:
        raise bad_request(problems)
    return document if isinstance(document, dict) else {}


def read_query(descriptor: Descriptor, query: Mapping[str, list[str]]) -> dict[str, Any]:
    """Query parameters as a document of ``descriptor``; raises ApiError 400 for what does not fit."""
    problems: Problems = []
    document: dict[str, Any] = {}
    ignored = SYSTEM_PARAMETERS | _BETA_PARAMETERS.get(descriptor.full_name.rpartition(".v")[0], frozenset())
    for key, texts in query.items():
        if key in ignored:
            continue
        _bind(descriptor, key.split("."), texts, document, key, problems)
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
    descriptor: Descriptor,
    path: list[str],
    texts: list[str],
    into: dict[str, Any],
    key: str,
    problems: Problems,
) -> None:
    field = fields_of(descriptor).get(path[0])
    if field is None or (len(path) > 1) is not (_kind(field) == "message" and not _is_scalar_message(field)):
        problems.append(("", unknown_parameter(key)))
    elif len(path) > 1:
        _bind(field.message_type, path[1:], texts, into.setdefault(field.json_name, {}), key, problems)
    elif field.is_repeated:
        into[field.json_name] = [_scalar(field, text, key, problems) for text in texts]
    else:
        into[field.json_name] = _scalar(field, texts[-1], key, problems)


def _kind(field: Any) -> str:
    return _KINDS[field.type]


def _is_scalar_message(field: Any) -> bool:
    """Whether a message is written as one JSON scalar, and so may be a query parameter."""
    name = field.message_type.full_name
    return name in _SCALAR_MESSAGES or _is_wrapper(field.message_type)


def _is_wrapper(descriptor: Descriptor) -> bool:
    name = str(descriptor.full_name)
    return name.startswith("google.protobuf.") and name.endswith("Value") and name not in _FREE_FORM


def _message(descriptor: Descriptor, value: Any, at: str, problems: Problems) -> Any:
    name = descriptor.full_name
    if name.startswith("google.protobuf.") and name != "google.protobuf.Empty":
        return _well_known(descriptor, value, at, problems)
    if not isinstance(value, dict):
        problems.append((at, _invalid(at, name, value)))
        return None
    fields = fields_of(descriptor)
    document: dict[str, Any] = {}
    for key, item in value.items():
        field = fields.get(key)
        if field is None:
            where = f" at '{at}'" if at else ""
            problems.append(
                (at, f'Invalid JSON payload received. Unknown name "{key}"{where}: Cannot find field.')
            )
        elif item is not None:
            document[field.json_name] = _field(
                field, item, f"{at}.{field.name}" if at else field.name, problems
            )
    return document


def _field(field: Any, value: Any, at: str, problems: Problems) -> Any:
    if field.message_type is not None and field.message_type.GetOptions().map_entry:
        return _map(field, value, at, problems)
    if not field.is_repeated:
        if isinstance(value, list) and field.message_type is None:
            sentence = f"Invalid JSON payload received. Unknown name \"{field.json_name}\" at '{at}': "
            problems.append((at, sentence + "Proto field is not repeating, cannot start list."))
            return None
        return _single(field, value, at, problems)
    if not isinstance(value, list):
        problems.append((at, _invalid(at, _type_name(field), value)))
        return None
    return [_single(field, item, f"{at}[{index}]", problems) for index, item in enumerate(value)]


def _map(field: Any, value: Any, at: str, problems: Problems) -> Any:
    entry = fields_of(field.message_type)["value"]
    if not isinstance(value, dict):
        problems.append((at, _invalid(at, "Map", value)))
        return None
    return {str(key): _single(entry, item, f"{at}[{key}]", problems) for key, item in value.items()}


def _single(field: Any, value: Any, at: str, problems: Problems) -> Any:
    if _kind(field) == "message":
        return _message(field.message_type, value, at, problems)
    return _scalar(field, value, at, problems)


def _scalar(field: Any, value: Any, at: str, problems: Problems) -> Any:
    kind = _kind(field)
    if kind == "message":
        return _message(field.message_type, value, at, problems)
    if kind == "string" and isinstance(value, str):
        allowed = _string_enum(field)
        if allowed and value not in allowed:
            problems.append((at, _invalid(at, _type_name(field), value)))
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
    problems.append((at, _invalid(at, f"TYPE_{kind.upper()}", value)))
    return None


def _integer(kind: str, value: Any, at: str, problems: Problems) -> Any:
    low, high = _INT_RANGES[kind]
    text = str(int(value)) if isinstance(value, float) and value.is_integer() else str(value)
    if isinstance(value, bool) or not re.fullmatch(r"-?\d{1,20}", text) or not low <= int(text) <= high:
        problems.append((at, _invalid(at, f"TYPE_{kind.upper()}", value)))
        return None
    return str(int(text)) if kind.endswith("64") else int(text)


def _number(kind: str, value: Any, at: str, problems: Problems) -> Any:
    try:
        if isinstance(value, bool):
            raise ValueError
        return float(value)
    except (TypeError, ValueError):
        problems.append((at, _invalid(at, f"TYPE_{kind.upper()}", value)))
        return None


def _enum(field: Any, value: Any, at: str, problems: Problems) -> Any:
    values = field.enum_type
    if isinstance(value, str) and value.lstrip("-").isdigit():
        value = int(value)
    if isinstance(value, str) and value in values.values_by_name:
        return value
    if isinstance(value, int) and not isinstance(value, bool) and value in values.values_by_number:
        return values.values_by_number[value].name
    problems.append((at, _invalid(at, f"type.googleapis.com/{values.full_name}", value)))
    return None


@functools.cache
def _string_enum(field: Any) -> frozenset[str]:
    """Compute writes most enums as strings and nests the enum, named after the field, in the message."""
    camel = field.json_name[0].upper() + field.json_name[1:]
    nested = field.containing_type.enum_types_by_name.get(camel)
    if nested is None:
        return frozenset()
    return frozenset(value.name for value in nested.values if value.number != 0)


def _type_name(field: Any) -> str:
    kind = _kind(field)
    if kind == "message":
        return f"type.googleapis.com/{field.message_type.full_name}"
    if kind == "string" and _string_enum(field):
        camel = field.json_name[0].upper() + field.json_name[1:]
        return f"type.googleapis.com/{field.containing_type.full_name}.{camel}"
    return f"TYPE_{kind.upper()}"


def _invalid(at: str, type_name: str, value: Any) -> str:
    shown = (
        f'"{value}"'
        if isinstance(value, str)
        else str(value).lower()
        if isinstance(value, bool)
        else repr(value)
    )
    return f"Invalid value at '{at}' ({type_name}), {shown[:200]}"


def _well_known(descriptor: Descriptor, value: Any, at: str, problems: Problems) -> Any:
    name = descriptor.full_name
    patterns = {"google.protobuf.Duration": _DURATION, "google.protobuf.Timestamp": _TIMESTAMP}
    if name in patterns:
        if not (isinstance(value, str) and patterns[name].fullmatch(value)):
            short = name.rpartition(".")[2]
            field = at.rpartition(".")[2]
            sentence = f"Invalid value at '{at}' (type.googleapis.com/{name}), Field '{field}', "
            sentence += f"Illegal {short.lower()} format"
            problems.append((at, sentence))
        return value
    if _is_wrapper(descriptor):
        return _scalar(descriptor.fields_by_name["value"], value, at, problems)
    return value
