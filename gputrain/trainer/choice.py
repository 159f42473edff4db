"""The backends of a trainer: each one a backend, each kind once."""

from __future__ import annotations

import inspect
from collections.abc import Sequence
from typing import Any

from gputrain.backends.abilities import lacks
from gputrain.backends.base import Backend
from gputrain.errors import Fault, SpecError

_PAGE = "docs/howto/write-a-backend.md says what a backend has"


def chosen(backends: object) -> dict[str, Backend]:
    """The backends by name, in the order given.

    Raises:
        SpecError: with everything among them that is none, or none at all, or a kind twice.
    """
    listed = _listed(backends)
    faults = tuple(_fault(one) for one in listed if isinstance(one, type) or lacks(one))
    if faults:
        text = "\n".join(f"  {fault}" for fault in faults)
        raise SpecError(f"Trainer(...) takes backends:\n{text}", faults=faults)
    named = {backend.name: backend for backend in listed}
    if not listed or len(named) != len(listed):
        names = ", ".join(backend.name for backend in listed) or "none"
        fault = Fault(field="backends", value=names, allowed="one or more, each kind once", fix="Trainer()")
        raise SpecError(f"a trainer takes one or more backends, each kind once; got {names}", faults=(fault,))
    return named


def _listed(value: object) -> tuple[Any, ...]:
    if isinstance(value, Sequence) and not isinstance(value, str):
        return tuple(value)
    return (value,)


def _fault(value: object) -> Fault:
    if isinstance(value, type):
        if not lacks(value):
            allowed, fix = "a backend, not its class", f"Trainer({_made(value)})"
        else:
            allowed, fix = "a backend", _PAGE
        return Fault(field="backends", value=value.__name__, allowed=allowed, fix=fix)
    if isinstance(value, str):
        allowed = "a backend, not its name"
        return Fault(field="backends", value=repr(value), allowed=allowed, fix="Trainer(Local())")
    missing = ", ".join(lacks(value))
    return Fault(field="backends", value=repr(value), allowed=f"a backend; it has no {missing}", fix=_PAGE)


def _made(kind: type) -> str:
    """How one is written, with the arguments that have to be there."""
    needed = (one for one in inspect.signature(kind).parameters.values() if one.default is one.empty)
    return f"{kind.__name__}({', '.join(f'{one.name}=...' for one in needed)})"
