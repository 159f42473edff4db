"""The backends that a trainer is given; all that is wrong with them is reported at once."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any

from gputrain.backends import registry
from gputrain.backends.base import Backend
from gputrain.errors import FieldError, SpecError
from gputrain.fields import ARGUMENTS, Field, short_repr

_PAGE = "inherit gputrain.backends.base.Backend: docs/howto/write-a-backend.md"


def chosen(backends: object) -> dict[str, Backend]:
    """The backends by name, in the order given; this machine where it is None.

    Raises:
        SpecError: with everything among them that is none, or none at all, or a kind twice.
    """
    listed = _listed(registry.find("local")() if backends is None else backends)
    faults = tuple(_fault(one, "backends", "Trainer({})") for one in listed if not _is_backend(one))
    if faults:
        text = "\n".join(f"  {fault}" for fault in faults)
        raise SpecError(f"Trainer(...) takes backends:\n{text}", faults=faults)
    named = {backend.name: backend for backend in listed}
    if not listed or len(named) != len(listed):
        names = ", ".join(backend.name for backend in listed) or "none"
        fault = FieldError(
            field="backends", value=names, expected="one or more, each kind once", fix="Trainer()"
        )
        raise SpecError(f"a trainer takes one or more backends, each kind once; got {names}", faults=(fault,))
    return named


MADE_OF = {
    "backends": Field(chosen, "one or more, each kind once", "Trainer()", is_needed=True),
    **{name: ARGUMENTS[name] for name in ("now", "sleep")},
}
"""How each argument of a trainer is read."""


def _listed(value: object) -> tuple[Any, ...]:
    if isinstance(value, Sequence) and not isinstance(value, str):
        return tuple(value)
    return (value,)


def one_backend(value: Any) -> Backend:
    """The backend that a job is taken up with. Raises SpecError where it is none."""
    if not _is_backend(value):
        fault = _fault(value, "backend", "gputrain.attach(uri, backend={})")
        raise SpecError(f"a job is attached with a backend: {fault}", faults=(fault,))
    return value  # type: ignore[no-any-return]  # just seen to be one


def _is_backend(value: object) -> bool:
    return isinstance(value, Backend)


def _fault(value: object, field: str, written: str) -> FieldError:
    """What is wrong with a value that is no backend; of a class or a name, how such a backend is made."""
    kind = registry.find((*registry.nearest(value), "local")[0]) if isinstance(value, str) else value
    shown = value.__name__ if isinstance(value, type) else short_repr(value)
    if not (isinstance(kind, type) and issubclass(kind, Backend)):
        return FieldError(field=field, value=shown, expected="a backend", fix=_PAGE)
    needed = ", ".join(f"{one}=..." for one in registry.takes(kind).needed)
    expected = f"a backend, not its {'name' if isinstance(value, str) else 'class'}"
    return FieldError(
        field=field, value=shown, expected=expected, fix=written.format(f"{kind.__name__}({needed})")
    )
