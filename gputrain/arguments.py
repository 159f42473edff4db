"""Arguments of public calls that are no fields of a spec: read by rows, before anything is made."""

from __future__ import annotations

import difflib
import functools
import inspect
from collections.abc import Callable, Mapping, Sequence
from typing import Any, ParamSpec, TypeVar

from gputrain import fields
from gputrain.errors import SpecError
from gputrain.fields import FaultCollector, Field, read, read_whole

T = TypeVar("T")
P = ParamSpec("P")


def function(value: Any) -> Any:
    """What can be called."""
    if not callable(value):
        raise ValueError
    return value


def _event(value: Any) -> Any:
    if isinstance(value, type) or not callable(getattr(value, "is_set", None)):
        raise ValueError
    return value


def _beginning(value: Any) -> str:
    return value if value == "" else fields.text(value)


ROWS = {
    "idempotency_key": Field(
        fields.text, "a text that says something", "leave it out, and a job of its own is made each time"
    ),
    "stop": Field(_event, "an event that another thread sets", "give a threading.Event"),
    "on_change": Field(function, "a function of a JobEvent", "give print, to begin with"),
    "listener": Field(function, "a function of a JobEvent", "give print, to begin with", is_needed=True),
    "name": Field(_beginning, "a text, with which ids begin", "name='bert'", is_needed=True),
    "arguments": Field(function, "a function of a point", "arguments=lambda point: [str(point['lr'])]"),
    "path": Field(fields.path, "the path of a file", "path='scan.html'", is_needed=True),
    "told": Field(function, "a function of one line", "give print, to begin with"),
    "create_repository": Field(fields.instance(bool), "True or False", "leave it out", is_needed=True),
    "now": Field(function, "a function that tells the time", "leave it out", is_needed=True),
    "sleep": Field(function, "a function of seconds", "leave it out", is_needed=True),
}
"""How each is read; one that is not needed may be None."""


def check(call: str, **given: Any) -> dict[str, Any]:
    """The arguments of a call as they are read; those that cannot be are refused, all of them at once.

    Raises:
        SpecError: with all faults.

    >>> check("submit(...)", stop=None, on_change=3)
    Traceback (most recent call last):
    gputrain.errors.SpecError: submit(...) has 1 fault:
      on_change=3: a function of a JobEvent. Fix: give print, to begin with
    """
    return read_whole(call, ROWS, given)


def refusing(rows: Mapping[str, Field]) -> Callable[[Callable[P, T]], Callable[P, T]]:
    """Has a call, mostly a constructor, refuse what it lacks and does not take as what it cannot read.

    >>> class Bed:
    ...     @refusing({"legs": Field(fields.whole(3, 8), "3 to 8", "legs=4")})
    ...     def __init__(self, *, legs: int) -> None: ...
    >>> Bed()
    Traceback (most recent call last):
    gputrain.errors.SpecError: Bed(...) has 1 fault:
      legs=None: 3 to 8. Fix: legs=4
    """

    def decorated(call: Callable[P, T]) -> Callable[P, T]:
        signature = inspect.signature(call)

        @functools.wraps(call)
        def checked(*unnamed: P.args, **named: P.kwargs) -> T:
            try:
                signature.bind(*unnamed, **named)
            except TypeError as error:
                misfit = error
            else:
                return call(*unnamed, **named)
            _refuse_call(call, rows, unnamed, named)
            raise misfit

        return checked

    return decorated


def _refuse_call(
    call: Callable[..., object],
    rows: Mapping[str, Field],
    unnamed: Sequence[Any],
    named: Mapping[str, Any],
) -> None:
    """Raise SpecError with all that is wrong with the arguments of a call."""
    taken = dict(inspect.signature(call).parameters)
    of = 1 if taken.pop("self", None) else 0
    faults = FaultCollector(f"{type(unnamed[0]).__name__ if of else call.__name__}(...)")
    is_open = any(one.kind is one.VAR_KEYWORD for one in taken.values())
    in_order = [name for name, one in taken.items() if one.kind is one.POSITIONAL_OR_KEYWORD]
    fix = "write its name before it" if is_open else f"one of {', '.join(taken)}"
    for value in unnamed[of + len(in_order) :]:
        faults.add("an argument", value, "one with its name", fix)
    if is_open:  # it reads by itself what has a name
        try:
            call(*unnamed[: of + len(in_order)], **named)
        except SpecError as error:
            faults.faults += error.faults
    else:
        _read_named(taken, rows, {**named, **dict(zip(in_order, unnamed[of:]))}, faults)
    faults.raise_if_any()


def _read_named(
    taken: Mapping[str, inspect.Parameter],
    rows: Mapping[str, Field],
    given: Mapping[str, Any],
    faults: FaultCollector,
) -> None:
    """All that is wrong with what was given by name: it is not taken, it is missing, or it cannot be read."""
    for name in (one for one in given if one not in taken):
        near = difflib.get_close_matches(name, taken, n=1)
        fix = f"did you mean {near[0]}?" if near else "leave it out"
        faults.add(name, given[name], "no such argument", fix)
    for name, row in ((one, rows[one]) for one in taken if one in rows and one not in given):
        is_due = row.unless not in given if row.unless else taken[name].default is inspect.Parameter.empty
        faults.check(not is_due, name, None, row.allowed, row.fix)
    read(rows, {name: value for name, value in given.items() if name in taken}, faults)
