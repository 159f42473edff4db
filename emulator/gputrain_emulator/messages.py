"""Google's message types as tables: what a request may hold, without the clients that generated them.

The tables are written by ``scripts/tables.py``. A line is read when its message is first asked for.
"""

from __future__ import annotations

import functools
from collections.abc import Mapping
from dataclasses import dataclass
from types import MappingProxyType

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
