"""Google's message types as tables: what a request may hold, without the clients that generated them.

The tables are written by ``scripts/tables.py``. A line is read when its message is first asked for.
"""

from __future__ import annotations

import functools
from collections.abc import Mapping
from dataclasses import dataclass
from types import MappingProxyType
from typing import Any

from gputrain_emulator import tables


@dataclass(frozen=True, kw_only=True, slots=True)
class Field:
    """One field of a message."""

    name: str
    json: str
    kind: str
    """``string``, ``int64``, ``bool``, ``message``, ``map``, ``enum`` and so on."""
    is_list: bool
    type: str
    """Full name of the message, of the map's entry, or of the enum; Compute's are strings with one."""
    oneof: str

    @property
    def message(self) -> Message:
        """The type of a ``message`` or ``map`` field."""
        return message(self.type)

    @property
    def enum(self) -> Mapping[str, int]:
        """Names and numbers of an enum's values; empty for a field that has no enum."""
        return enum(self.type) if self.type and self.kind in ("enum", "string") else _NOTHING


_NOTHING: Mapping[str, int] = MappingProxyType({})


@dataclass(frozen=True, kw_only=True, slots=True)
class Message:
    """One message type."""

    name: str
    """``google.cloud.compute.v1.Instance``."""
    fields: tuple[Field, ...]
    by_name: Mapping[str, Field]
    """Every field by its JSON name and by its proto name."""


@functools.cache
def message(name: str) -> Message:
    """A message type; raises KeyError where the tables have none of that name."""
    line = _declared.get(name) or _lines("messages.tsv")[name]
    fields = tuple(_field(text) for text in line.split("\t")[1:])
    by_name = {key: field for field in fields for key in (field.name, field.json)}
    return Message(name=name, fields=fields, by_name=by_name)


@functools.cache
def enum(name: str) -> Mapping[str, int]:
    """Names and numbers of an enum's values, in Google's order."""
    pairs = (text.rpartition("=") for text in _lines("enums.tsv")[name].split("\t")[1:])
    return MappingProxyType({value: int(number) for value, _, number in pairs})


@functools.cache
def _lines(file: str) -> dict[str, str]:
    return {line.partition("\t")[0]: line for line in tables.lines(file)}


_declared: dict[str, str] = {}  # not kept in _lines, which two threads may read at once: the later stays


def declare(name: str, fields: str) -> str:
    """Keep a message that no table has: its fields as the tables write them, parted by blanks."""
    _declared[name] = "\t".join([name, *fields.split()])
    return name


def _field(text: str) -> Field:
    """``disks:*message@google.cloud.compute.v1.AttachedDisk`` and its like."""
    names, _, rest = text.partition(":")
    name, _, json = names.partition("=")
    rest, _, oneof = rest.partition("|")
    kind, _, type_ = rest.partition("@")
    return Field(
        name=name,
        json=json or camel(name),
        kind=kind.lstrip("*"),
        is_list=kind.startswith("*"),
        type=type_,
        oneof=oneof,
    )


def camel(name: str) -> str:
    """``replica_count`` as JSON writes it."""
    head, *rest = name.split("_")
    return head + "".join(word[:1].upper() + word[1:] for word in rest)


_INTEGERS = ("int32", "uint32", "int64", "uint64")


class Record:
    """A document of a message type, its fields by their proto names.

    An unset message is an empty record, an enum its name (the name of 0 when unset), a duration a float of
    seconds, a 64-bit integer an int.

    Args:
        message: the type.
        document: in Google's JSON form, as `schema.read_message` leaves it.

    Example:
        >>> from gputrain_emulator import messages
        >>> spec = messages.message("google.cloud.aiplatform.v1.WorkerPoolSpec")
        >>> pool = Record(spec, {"replicaCount": "2"})
        >>> pool.replica_count, pool.machine_spec.machine_type, pool.one_of("task")
        (2, '', '')
    """

    def __init__(self, message: Message, document: Mapping[str, Any]) -> None:
        self._message = message
        self._document = document

    def __getattr__(self, name: str) -> Any:
        field = self._message.by_name.get(name)
        if field is None:
            raise AttributeError(f"{self._message.name} has no field {name}")
        value = self._document.get(field.json)
        if field.kind == "map":
            return dict(value or {})
        if field.is_list:
            return [_value(field, item) for item in value or ()]
        return _value(field, value)

    def has(self, name: str) -> bool:
        """Whether the field is set, be it to its default."""
        return self._message.by_name[name].json in self._document

    def one_of(self, oneof: str) -> str:
        """Which field of a oneof is set; "" where none is."""
        arms = (field.name for field in self._message.fields if field.oneof == oneof and self.has(field.name))
        return next(arms, "")

    def is_empty(self) -> bool:
        """Whether nothing is set to anything but its default."""
        return not any(
            getattr(self, field.name) if field.is_list or field.kind == "map" else self._is_set(field)
            for field in self._message.fields
            if self.has(field.name)
        )

    def _is_set(self, field: Field) -> bool:
        """A message that is there counts, be it empty, as it travels as a field of length 0."""
        return field.kind == "message" or bool(getattr(self, field.name) != _value(field, None))


def _value(field: Field, value: Any) -> Any:
    if field.type == "google.protobuf.Duration":
        return float(str(value).removesuffix("s")) if value else 0.0
    if field.kind == "message":
        return Record(field.message, value or {})
    if field.kind == "enum":
        return value or next(name for name, number in field.enum.items() if number == 0)
    if field.kind in _INTEGERS:
        return int(value or 0)
    if field.kind in ("double", "float"):
        return float(value or 0)
    return bool(value) if field.kind == "bool" else value or ""
