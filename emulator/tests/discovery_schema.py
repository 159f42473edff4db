"""Values against the schemas of a discovery document."""

from __future__ import annotations

import base64
import binascii
import math
import re
from collections.abc import Callable, Iterator, Mapping
from dataclasses import dataclass
from datetime import date, datetime
from typing import Any

Schema = Mapping[str, Any]

INTEGER_RANGES: Mapping[str, tuple[int, int]] = {
    "int32": (-(2**31), 2**31 - 1),
    "uint32": (0, 2**32 - 1),
    "int64": (-(2**63), 2**63 - 1),
    "uint64": (0, 2**64 - 1),
}


@dataclass(frozen=True)
class Problem:
    """One departure from a document: where in the exchange, and what."""

    where: str
    what: str

    def __str__(self) -> str:
        return f"{self.where}: {self.what}"


@dataclass(frozen=True)
class Reader:
    """Reads JSON values with the schemas of one document.

    snake_case: accept the proto spelling of a field beside its JSON spelling.
    enum_numbers: accept an enum's number in place of its name.
    strict_int64: a 64-bit integer must be a JSON string, as Google's servers write it.
    method_id: set for a request: what that method requires is demanded.
    """

    schemas: Mapping[str, Schema]
    snake_case: bool = False
    enum_numbers: bool = False
    strict_int64: bool = False
    method_id: str | None = None

    def value(self, schema: Schema, value: object, where: str) -> Iterator[Problem]:
        """Problems of a JSON `value` under `schema`."""
        if "$ref" in schema:
            schema = self.schemas[schema["$ref"]]
        kind = schema.get("type", "any")
        if kind == "any" or (value is None and self.method_id is not None):
            return  # null in a request means the field is not set
        check: Callable[[Schema, Any, str], Iterator[Problem]] = getattr(self, f"_{kind}")
        yield from check(schema, value, where)

    def text(self, schema: Schema, value: str, where: str) -> Iterator[Problem]:
        """Problems of a query parameter, which is always text on the wire."""
        kind = schema.get("type", "string")
        if kind == "boolean" and value not in ("true", "false", "True", "False"):
            yield Problem(where, f"{value!r} is not a boolean")
        elif kind == "integer":
            if not re.fullmatch(r"-?\d+", value):
                yield Problem(where, f"{value!r} is not an integer")
            else:
                yield from self._integer(schema, int(value), where)
        elif kind == "string":
            yield from self._string(schema, value.removesuffix(";enum-encoding=int"), where)

    def _object(self, schema: Schema, value: object, where: str) -> Iterator[Problem]:
        if not isinstance(value, dict):
            yield Problem(where, f"{_name(value)}, not an object")
            return
        properties: Mapping[str, Schema] = schema.get("properties", {})
        for key, item in value.items():
            inner = properties.get(key) or (properties.get(_camel(key)) if self.snake_case else None)
            place = f"{where}.{key}"
            if inner is None:
                inner = schema.get("additionalProperties")
                if inner is None:
                    yield Problem(place, "unknown field")
                    continue
            yield from self.value(inner, item, place)
        if self.method_id is not None:
            yield from self._missing(properties, value, where)

    def _missing(self, properties: Mapping[str, Schema], value: Schema, where: str) -> Iterator[Problem]:
        for name, inner in properties.items():
            if self.method_id in inner.get("annotations", {}).get("required", ()) and name not in value:
                yield Problem(f"{where}.{name}", f"required by {self.method_id} and missing")

    def _array(self, schema: Schema, value: object, where: str) -> Iterator[Problem]:
        if not isinstance(value, list):
            yield Problem(where, f"{_name(value)}, not an array")
            return
        for index, item in enumerate(value):
            yield from self.value(schema["items"], item, f"{where}[{index}]")

    def _boolean(self, _schema: Schema, value: object, where: str) -> Iterator[Problem]:
        if not isinstance(value, bool):
            yield Problem(where, f"{_name(value)}, not a boolean")

    def _integer(self, schema: Schema, value: object, where: str) -> Iterator[Problem]:
        if isinstance(value, bool) or not isinstance(value, int):
            yield Problem(where, f"{_name(value)}, not an integer")
            return
        low, high = INTEGER_RANGES[schema.get("format", "int32")]
        low, high = max(low, int(schema.get("minimum", low))), min(high, int(schema.get("maximum", high)))
        if not low <= value <= high:
            yield Problem(where, f"{value} is outside {low}..{high}")

    def _number(self, _schema: Schema, value: object, where: str) -> Iterator[Problem]:
        spelled = isinstance(value, str) and value in ("NaN", "Infinity", "-Infinity")
        number = isinstance(value, int | float) and not isinstance(value, bool) and math.isfinite(value)
        if not (spelled or number):
            yield Problem(where, f"{_name(value)}, not a number")

    def _string(self, schema: Schema, value: object, where: str) -> Iterator[Problem]:
        form = schema.get("format", "")
        if form in ("int64", "uint64"):
            yield from self._long(form, value, where)
            return
        if "enum" in schema and self.enum_numbers and isinstance(value, int) and not isinstance(value, bool):
            if value < 0:
                yield Problem(where, f"{value} is no enum number")
            return
        if not isinstance(value, str):
            yield Problem(where, f"{_name(value)}, not a string")
            return
        if "enum" in schema and value not in schema["enum"]:
            yield Problem(where, f"{value!r} is not one of its {len(schema['enum'])} enum values")
        if "pattern" in schema and not re.fullmatch(schema["pattern"], value):
            yield Problem(where, f"{value!r} does not match {schema['pattern']}")
        if form in FORMATS and not FORMATS[form](value):
            yield Problem(where, f"{value!r} is not a {form}")

    def _long(self, form: str, value: object, where: str) -> Iterator[Problem]:
        low, high = INTEGER_RANGES[form]
        if isinstance(value, int) and not isinstance(value, bool):
            if self.strict_int64:
                yield Problem(where, f"{value} is a JSON number; Google writes {form} as a string")
            number = value
        elif isinstance(value, str) and re.fullmatch(r"-?\d+", value):
            number = int(value)
        else:
            yield Problem(where, f"{value!r} is not an {form}")
            return
        if not low <= number <= high:
            yield Problem(where, f"{number} is outside {low}..{high}")


def _camel(key: str) -> str:
    return re.sub(r"_([a-z0-9])", lambda match: match[1].upper(), key)


def _name(value: object) -> str:
    return f"{value!r:.60} is {type(value).__name__}"


def _is_datetime(value: str) -> bool:
    if not re.fullmatch(r"\d{4}-\d\d-\d\d[Tt]\d\d:\d\d:\d\d(\.\d{1,9})?([Zz]|[+-]\d\d:\d\d)", value):
        return False
    return _parses(lambda: datetime.fromisoformat(re.sub(r"\.\d+", "", value).upper().replace("Z", "+00:00")))


def _is_date(value: str) -> bool:
    return _parses(lambda: date.fromisoformat(value))


def _is_base64(value: str) -> bool:
    text = value.replace("-", "+").replace("_", "/")
    return _parses(lambda: base64.b64decode(text + "=" * (-len(text) % 4), validate=True))


def _parses(read: Callable[[], object]) -> bool:
    try:
        read()
    except (ValueError, binascii.Error):
        return False
    return True


FORMATS: Mapping[str, Callable[[str], bool]] = {
    "google-datetime": _is_datetime,
    "date-time": _is_datetime,
    "date": _is_date,
    "google-duration": lambda value: re.fullmatch(r"-?\d+(\.\d{1,9})?s", value) is not None,
    "google-fieldmask": lambda value: re.fullmatch(r"[\w.*]*(,[\w.*]+)*", value) is not None,
    "byte": _is_base64,
}
