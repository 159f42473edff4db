"""Reads what people write into fields: one row a field, every fault collected.

A spec, the settings of a backend, the arguments of a question and the sections of a file are read by the same
rows, so that all of them refuse alike: every fault at once, with what is allowed and what to write.
"""

from __future__ import annotations

import enum
import os
import re
from collections.abc import Callable, Mapping, Sequence
from typing import Any, TypeVar

import attrs

from gputrain.errors import Fault, GputrainError, SpecError
from gputrain.secrets import HIDDEN, looks_secret, redact

T = TypeVar("T")
E = TypeVar("E", bound=enum.Enum)
SHOWN = 80
"""Characters of a value in an error; a longer one is cut, and ends in three dots without its quote."""


class FaultCollector:
    """Faults found so far, of ``the spec`` or ``VertexAI(...)``, or of what needs no heading: ``""``."""

    def __init__(self, of: str) -> None:
        self._of = of
        self.faults: list[Fault] = []

    def add(self, field: str, value: object, allowed: str, fix: str) -> None:
        """Record that ``field`` holds ``value`` where only ``allowed`` will do, and show no credential."""
        told = {"field": redact(field), "allowed": redact(allowed), "fix": redact(fix)}
        self.faults.append(Fault(value=shown(value, name=field), **told))

    def check(self, holds: bool, field: str, value: object, allowed: str, fix: str) -> None:
        """Record a fault unless ``holds``."""
        if not holds:
            self.add(field, value, allowed, fix)

    def is_clean(self, *fields: str) -> bool:
        """Whether none of these fields has a fault."""
        return not any(one.field in fields for one in self.faults)

    def parse(
        self, field: str, value: object, read: Callable[[object], T], allowed: str, fix: str
    ) -> T | None:
        """``read(value)``, or None and a fault where it stumbles: a reader is given whatever there is."""
        try:
            return read(value)
        except SpecError as error:  # it knows its own faults
            if not error.faults:  # it is of more than this field
                raise
            self.faults += error.faults
        except GputrainError:
            raise
        except Exception as error:  # noqa: BLE001  # a value's own methods may raise anything
            why = _words(error)
            self.add(field, value, f"{allowed} ({why})" if why else allowed, fix)
        return None

    def raise_if_any(self, kind: type[SpecError] = SpecError, **facts: Any) -> None:
        """Raise SpecError, or a kind of it with facts of its own, with everything collected."""
        if not self.faults:
            return
        faults = tuple(self.faults)
        text = "\n".join(f"  {fault}" if self._of else str(fault) for fault in faults)
        heading = f"{self._of} has {len(faults)} fault{'s' if len(faults) > 1 else ''}:\n" if self._of else ""
        what = heading + text
        raise kind(what, faults=faults, **facts)


def refused(field: str, value: object, allowed: str, fix: str, *, what: str = "") -> SpecError:
    """The error of one fault that stands alone; ``what`` is said before it."""
    faults = FaultCollector(what)
    faults.add(field, value, allowed, fix)
    return SpecError(": ".join(filter(None, [what, str(faults.faults[0])])), faults=tuple(faults.faults))


def shown(value: object, *, name: str = "") -> str:
    """A value as an error may show it: short, and never a secret."""
    bare = name.rpartition("[")[2].strip("]'\"")
    try:
        if isinstance(value, str) and looks_secret(value, name=bare):
            return HIDDEN
        text = redact(repr(value))  # before it is cut: half a credential has another form
    except Exception:  # noqa: BLE001  # an integer of 5000 digits has none, nor has what raises
        text = f"<{type(value).__name__}>"
    return text if len(text) <= SHOWN else f"{text[: SHOWN - 3]}..."


def said(error: BaseException) -> str:
    """The text of somebody else's error; empty where it cannot be had, for that may raise in its turn."""
    try:
        return str(error)
    except Exception:  # noqa: BLE001  # its own methods may raise anything
        return ""


def _words(error: Exception) -> str:
    """What an error of reading says; by its name where it is none that readers raise."""
    is_of_readers = isinstance(error, (ValueError, TypeError, ArithmeticError))
    return said(error) if is_of_readers else f"{type(error).__name__}: {said(error)}"


@attrs.frozen
class Field:
    """How one field is read: its reader, and what to say where it cannot be read."""

    read: Callable[[Any], Any]
    """Raises ValueError for what it cannot read; its text says more where that helps."""
    allowed: str
    fix: str
    is_needed: bool = False
    """None is read like any other value; otherwise it stays None."""
    unless: str = ""
    """Another field that stands for it: a constructor needs one of the two."""


def read(rows: Mapping[str, Field], given: Mapping[str, Any], faults: FaultCollector) -> dict[str, Any]:
    """Every field as its row reads it; what cannot be read becomes a fault and None.

    >>> faults = FaultCollector("a bed")
    >>> read({"legs": Field(whole(3, 8), "3 to 8", "legs=4")}, {"legs": 2}, faults)
    {'legs': None}
    >>> print(faults.faults[0])
    legs=2: 3 to 8. Fix: legs=4
    """
    return {name: _read_one(name, rows.get(name), value, faults) for name, value in given.items()}


def _read_one(name: str, row: Field | None, value: Any, faults: FaultCollector) -> Any:
    if row is None or (value is None and not row.is_needed):
        return value
    return faults.parse(name, value, row.read, row.allowed, row.fix)


def read_whole(of: str, rows: Mapping[str, Field], given: Mapping[str, Any]) -> dict[str, Any]:
    """As `read`, of what must be without a fault.

    Raises:
        SpecError: with all faults.
    """
    faults = FaultCollector(of)
    found = read(rows, given, faults)
    faults.raise_if_any()
    return found


def is_text(value: object) -> bool:
    """Whether it is text that command lines and requests can carry: no NUL, and no half of a letter."""
    return isinstance(value, str) and not re.search(r"[\0\ud800-\udfff]", value)


def text(value: Any) -> str:
    """A text that says something."""
    if not is_text(value) or not value.strip():
        raise ValueError
    return str(value)


def path(value: Any) -> str:
    """A path, as text or as an object; an object folds the slashes of a place in a bucket, so it is none."""
    found = os.fspath(value) if isinstance(value, os.PathLike) else value
    if found is not value and isinstance(found, str) and found.startswith("gs:"):
        raise ValueError("a path object cannot hold it")
    return text(found)


def matching(pattern: str | re.Pattern[str]) -> Callable[[Any], str]:
    """A text that is of the form as a whole."""
    form = re.compile(pattern)

    def read_text(value: Any) -> str:
        if not form.fullmatch(text(value)):
            raise ValueError
        return str(value)

    return read_text


def named(pattern: str = "{word}(?:[/:@]{word})*") -> Callable[[Any], str]:
    """A name, or a path of names, in which no shell and no URL reads anything else: ``{word}`` stands for
    letters, digits and ``._+~-``, of which the first is a letter or a digit.

    >>> named()("us-docker.pkg.dev/p/r/i:v1")
    'us-docker.pkg.dev/p/r/i:v1'
    """
    return matching(re.compile(pattern.replace("{word}", r"[A-Za-z0-9][\w.+~-]*"), re.ASCII))


def texts(value: Any) -> tuple[str, ...]:
    """A list of texts, some of which may be empty."""
    if isinstance(value, (str, bytes)) or not isinstance(value, Sequence):
        raise ValueError
    for number, one in enumerate(value):
        if not is_text(one):
            kind = "" if isinstance(one, str) else f" is {type(one).__name__}"
            raise ValueError(f"item {number}{kind}")
    return tuple(map(str, value))


def many(read_one: Callable[[Any], Any], *, or_one: bool = False) -> Callable[[Any], tuple[Any, ...]]:
    """A list, each item read by a reader; none twice. ``or_one``: one item may stand without its list."""

    def read_list(value: Any) -> tuple[Any, ...]:
        if or_one and isinstance(value, (str, enum.Enum)):
            return (read_one(value),)
        if isinstance(value, (str, bytes)) or not isinstance(value, Sequence):
            raise ValueError
        return tuple(dict.fromkeys(read_one(one) for one in value))

    return read_list


def some(read_one: Callable[[Any], Any]) -> Callable[[Any], tuple[Any, ...]]:
    """One or more items, each read by a reader; one may stand without its list."""
    read_list = many(read_one, or_one=True)

    def read_some(value: Any) -> tuple[Any, ...]:
        found = read_list(value)
        if not found:
            raise ValueError
        return found

    return read_some


def whole(low: int, high: int) -> Callable[[Any], int]:
    """A whole number within limits."""

    def read_number(value: Any) -> int:
        if isinstance(value, bool) or not isinstance(value, int) or not low <= value <= high:
            raise ValueError
        return int(value)

    return read_number


def number(low: float, high: float) -> Callable[[Any], float]:
    """A number above one limit and below another."""

    def read_number(value: Any) -> float:
        if isinstance(value, bool) or not isinstance(value, (int, float)) or not low < value < high:
            raise ValueError
        return float(value)

    return read_number


def word(*known: str) -> Callable[[Any], str]:
    """One of some words."""

    def read_word(value: Any) -> str:
        if not isinstance(value, str) or str(value) not in known:
            raise ValueError
        return str(value)

    return read_word


def one_of(kind: type[E]) -> Callable[[Any], E]:
    """One word of an enum, or its member."""

    def read_word(value: Any) -> E:
        return value if isinstance(value, kind) else kind(value)

    return read_word


def words(kind: type[enum.Enum]) -> str:
    """The words of an enum, as what is allowed."""
    return "one of " + ", ".join(f"'{one.value}'" for one in kind)


def instance(kind: type[Any]) -> Callable[[Any], Any]:
    """A value of a class; of ``bool``, True or False and nothing that merely counts as one."""

    def read_value(value: Any) -> Any:
        if not isinstance(value, kind):
            raise ValueError
        return value

    return read_value
