"""Read what people write into fields: collect every error, and say what to write instead.

Specs, backend settings, arguments of calls and sections of a file are read by the same readers.
"""

from __future__ import annotations

import enum
import os
import re
from collections.abc import Callable, Mapping, Sequence
from typing import Any, TypeVar

import attrs

from gputrain.errors import FieldError, SpecError
from gputrain.text import HIDDEN, looks_secret, redact

T = TypeVar("T")
Reader = Callable[[Any], Any]
"""Returns a value as it is kept; raises ValueError, with a reason where that helps."""
SHOWN = 80
"""Characters of a value in an error; a longer one is cut in the middle."""


class Errors:
    """Field errors collected so far, about ``the spec`` or ``VertexAI(...)``."""

    def __init__(self, of: str) -> None:
        self._of = of
        self.faults: list[FieldError] = []

    def add(self, field: str, value: object, expected: str, fix: str, *, problem: str = "") -> None:
        """Record an error; secrets are hidden."""
        texts = {"field": field, "expected": expected, "fix": fix, "problem": problem}
        shown = {name: redact(one) for name, one in texts.items()}
        self.faults.append(FieldError(value=short_repr(value, name=field), **shown))

    def check(
        self, holds: bool, field: str, value: object, expected: str, fix: str, *, problem: str = ""
    ) -> None:
        if not holds:
            self.add(field, value, expected, fix, problem=problem)

    def is_clean(self, *fields: str) -> bool:
        """Whether none of these fields has an error."""
        return not any(one.field in fields for one in self.faults)

    def parse(
        self, field: str, value: object, read: Callable[[object], T], expected: str, fix: str
    ) -> T | None:
        """``read(value)``; where that raises, record an error and return None."""
        try:
            return read(value)
        except SpecError as error:
            if not error.faults:
                raise
            self.faults += error.faults
        except (ValueError, TypeError, ArithmeticError) as error:
            problem = f"{short_repr(value, name=field)} is not valid ({error})" if str(error) else ""
            self.add(field, value, expected, fix, problem=problem)
        return None

    def raise_if_any(self, kind: type[SpecError] = SpecError, **facts: Any) -> None:
        if self.faults:
            lines = "".join(f"\n  {fault}" for fault in self.faults)
            text = f"{self._of} is not valid:{lines}" if self._of else lines.strip()
            raise kind(text, faults=tuple(self.faults), **facts)


def invalid(
    field: str, value: object, expected: str, fix: str, *, problem: str = "", what: str = ""
) -> SpecError:
    """The error of one field; ``what`` comes before it."""
    errors = Errors(what)
    errors.add(field, value, expected, fix, problem=problem)
    return SpecError(": ".join(filter(None, [what, str(errors.faults[0])])), faults=tuple(errors.faults))


def short_repr(value: object, *, name: str = "") -> str:
    """A value as an error shows it: short, without secrets. ``name``: its field, as in ``env['TOKEN']``."""
    bare = name.rpartition("[")[2].strip("]'\"")
    try:
        if isinstance(value, str) and looks_secret(value, name=bare):
            return HIDDEN
        text = redact(repr(value))  # before it is cut: half a credential has another form
    except ValueError:  # an integer of 5000 digits has no repr
        text = f"<{type(value).__name__}>"
    half = (SHOWN - 3) // 2
    return text if len(text) <= SHOWN else f"{text[:half]}...{text[-half:]}"  # of a path the end counts


@attrs.frozen
class Field:
    """How one field is read, and what to say where that fails."""

    read: Reader
    expected: str
    fix: str
    is_needed: bool = False
    """Read None as any other value; otherwise None stays None."""


def field(
    read: Reader,
    expected: str,
    fix: str,
    *,
    default: Any = None,
    is_needed: bool = False,
    show: bool | Callable[[Any], str] = True,
) -> Any:
    """An attrs field that carries how it is read; ``show`` is its repr."""
    row = Field(read, expected, fix, is_needed=is_needed)
    return attrs.field(default=default, repr=show, metadata={Field: row})


def read_fields(kind: type, given: Mapping[str, Any], errors: Errors) -> dict[str, Any]:
    """Every `field` of an attrs class as it is read, with defaults for those that are not given."""
    found = attrs.fields(kind)
    rows = {one.name: one.metadata[Field] for one in found}
    return read(rows, {one.name: given.get(one.name, one.default) for one in found}, errors)


def read(rows: Mapping[str, Field], given: Mapping[str, Any], errors: Errors) -> dict[str, Any]:
    """Every field as its row reads it; None, and an error, for what cannot be read."""
    found = dict(given)
    for name, value in given.items():
        row = rows.get(name)
        if row is not None and (row.is_needed or value is not None):
            found[name] = errors.parse(name, value, row.read, row.expected, row.fix)
    return found


def read_whole(of: str, rows: Mapping[str, Field], given: Mapping[str, Any]) -> dict[str, Any]:
    """As `read`; raises SpecError with all errors."""
    errors = Errors(of)
    found = read(rows, given, errors)
    errors.raise_if_any()
    return found


def is_text(value: object) -> bool:
    """Whether it is a str that command lines and requests can carry: no NUL, no lone surrogate."""
    return isinstance(value, str) and not re.search(r"[\0\ud800-\udfff]", value)


def reader(holds: Callable[[Any], bool], make: Callable[[Any], Any] = lambda value: value) -> Reader:
    """Reads a value for which ``holds``."""

    def read_value(value: Any) -> Any:
        if not holds(value):
            raise ValueError
        return make(value)

    return read_value


text = reader(lambda value: is_text(value) and bool(value.strip()), str)
"""A text that is not blank."""
function = reader(callable)
"""A callable."""


def path(value: Any) -> str:
    """A path, as text or as an object."""
    found = os.fspath(value) if isinstance(value, os.PathLike) else value
    if found is not value and str(found).startswith("gs:"):
        raise ValueError("a path object folds the slashes of gs://")
    return str(text(found))


def matching(pattern: str | re.Pattern[str]) -> Reader:
    """A text that matches the pattern as a whole."""
    form = re.compile(pattern)
    return reader(lambda value: bool(form.fullmatch(text(value))), str)


def named(pattern: str = "{word}(?:[/:@]{word})*") -> Reader:
    """A name, or a path of names, without characters that shells or URLs read otherwise.

    ``{word}`` stands for letters, digits and ``._+~-``, starting with a letter or a digit.
    """
    return matching(re.compile(pattern.replace("{word}", r"[A-Za-z0-9][\w.+~-]*"), re.ASCII))


def _items(value: Any) -> Sequence[Any]:
    if isinstance(value, (str, bytes)) or not isinstance(value, Sequence):
        raise ValueError
    return value


def texts(value: Any) -> tuple[str, ...]:
    """A list of texts, some of which may be empty."""
    for number, one in enumerate(_items(value)):
        if not is_text(one):
            raise ValueError(f"item {number} is {short_repr(one)}")
    return tuple(map(str, value))


def many(read_one: Reader, *, or_one: bool = False, least: int = 0) -> Reader:
    """A list of items without duplicates; with ``or_one``, also one item without a list."""

    def read_list(value: Any) -> tuple[Any, ...]:
        is_one = or_one and isinstance(value, (str, enum.Enum))
        found = tuple(dict.fromkeys(read_one(one) for one in ((value,) if is_one else _items(value))))
        if len(found) < least:
            raise ValueError
        return found

    return read_list


def some(read_one: Reader) -> Reader:
    return many(read_one, or_one=True, least=1)


def whole(low: int, high: int) -> Reader:
    """A whole number from ``low`` to ``high``."""
    return reader(lambda value: type(value) is int and low <= value <= high, int)


def number(low: float, high: float) -> Reader:
    """A number between ``low`` and ``high``, both excluded."""
    return reader(lambda value: type(value) in (int, float) and low < value < high, float)


def word(*known: str) -> Reader:
    return reader(lambda value: isinstance(value, str) and value in known, str)


def one_of(kind: type[enum.Enum]) -> Reader:
    """A member of an enum, or its value."""
    values = {one.value for one in kind}
    return reader(lambda value: isinstance(value, kind) or (isinstance(value, str) and value in values), kind)


def words(kind: type[enum.Enum]) -> str:
    """The values of an enum, as a text."""
    return "one of " + ", ".join(f"'{one.value}'" for one in kind)


def instance(kind: type[Any]) -> Reader:
    return reader(lambda value: isinstance(value, kind))


_CLOCK = Field(function, "a function", "leave it out", is_needed=True)
ARGUMENTS = {
    "idempotency_key": Field(text, "a text that is not blank", "leave it out for a new job each time"),
    "stop": Field(
        reader(lambda value: not isinstance(value, type) and callable(getattr(value, "is_set", None))),
        "an event that another thread sets",
        "threading.Event()",
    ),
    "on_change": Field(function, "a function of a JobEvent", "print"),
    "name": Field(
        lambda value: value if value == "" else text(value),
        "the beginning of a job's id",
        "name='bert'",
        is_needed=True,
    ),
    "now": _CLOCK,
    "sleep": _CLOCK,
}
"""Arguments of calls that make a job or list jobs; a wrong one of another call is a Python error."""


def check(call: str, **given: Any) -> dict[str, Any]:
    """The arguments of a call as they are read; raises SpecError with all errors."""
    return read_whole(call, ARGUMENTS, given)
