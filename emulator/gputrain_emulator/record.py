"""A document read the way its message type promises: every field is there, with its default where unset."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any

from gputrain_emulator.messages import Field, Message

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
