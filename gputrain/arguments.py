"""Arguments of public calls that are no fields of a spec: read by rows, before anything is made."""

from __future__ import annotations

from typing import Any

from gputrain import fields
from gputrain.fields import FaultCollector, Field


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
    "told": Field(function, "a function of one line", "give print, to begin with"),
    "create_repository": Field(fields.instance(bool), "True or False", "leave it out", is_needed=True),
    "now": Field(function, "a function that tells the time", "leave it out", is_needed=True),
    "sleep": Field(function, "a function of seconds", "leave it out", is_needed=True),
}
"""How each is read; one that is not needed may be None."""


def check(call: str, **given: Any) -> None:
    """Refuse arguments of a call that cannot be read, all of them at once.

    Raises:
        SpecError: with all faults.

    >>> check("submit(...)", stop=None, on_change=3)
    Traceback (most recent call last):
    gputrain.errors.SpecError: submit(...) has 1 fault:
      on_change=3: a function of a JobEvent. Fix: give print, to begin with
    """
    faults = FaultCollector(call)
    fields.read(ROWS, given, faults)
    faults.raise_if_any()
