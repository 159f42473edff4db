"""Collects every fault of what somebody wrote, so that they read them all at once."""

from __future__ import annotations

from collections.abc import Callable
from typing import TypeVar

from gputrain.errors import Fault, SpecError
from gputrain.secrets import HIDDEN, looks_secret, redact

T = TypeVar("T")
_SHOWN = 80


class FaultCollector:
    """Faults found so far; `raise_if_any` ends the collecting.

    Args:
        of: what has the faults: ``the spec``, ``VertexAI(...)``.
    """

    def __init__(self, of: str) -> None:
        self._of = of
        self.faults: list[Fault] = []

    def add(self, field: str, value: object, allowed: str, fix: str) -> None:
        """Record that ``field`` holds ``value`` where only ``allowed`` will do."""
        self.faults.append(Fault(field=field, value=shown(value, name=field), allowed=allowed, fix=fix))

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
        """``read(value)``, or None and a fault where it raises ValueError."""
        try:
            return read(value)
        except SpecError as error:  # it knows its own faults
            self.faults += error.faults
        except ValueError as error:
            self.add(field, value, f"{allowed} ({error})" if str(error) else allowed, fix)
        return None

    def raise_if_any(self) -> None:
        """Raise SpecError with everything collected."""
        if not self.faults:
            return
        faults = tuple(self.faults)
        text = "\n".join(f"  {fault}" for fault in faults)
        what = f"{self._of} has {len(faults)} fault{'s' if len(faults) > 1 else ''}:\n{text}"
        raise SpecError(what, faults=faults)


def shown(value: object, *, name: str = "") -> str:
    """A value as an error may show it: short, and never a secret."""
    if isinstance(value, str) and looks_secret(
        value, name=name.rpartition("[")[2].rstrip("]'\"").lstrip("'\"")
    ):
        return HIDDEN
    text = redact(repr(value))  # before it is cut: half a credential has another form
    return text if len(text) <= _SHOWN else f"{text[: _SHOWN - 3]}..."
