"""Faults by name: what ``cloud.fail(METHOD, "lag", seconds=30)`` and ``POST /_emulator/fail`` order."""

from __future__ import annotations

from collections.abc import Callable, Mapping
from typing import Any

from gputrain_emulator import arguments
from gputrain_emulator.errors import ApiError
from gputrain_emulator.faults import (
    Delay,
    Double,
    DropAfterCommit,
    DropBeforeCommit,
    Fault,
    RawReply,
    Refuse,
    Stale,
    Trickle,
    Truncate,
    partial_page,
    server_error,
    unauthorized,
    unreachable,
)

_HTML = b"<!doctype html><html><body><h1>Sign in to this network</h1></body></html>"


def refused(permission: str = "the permission that it needs") -> Fault:
    """403: the caller may not."""
    return Refuse(error=ApiError(403, f"Required '{permission}' permission", reason="forbidden"))


def html(status: int = 200) -> Fault:
    """A page for people, as portals and proxies send it."""
    return RawReply(status=status, body=_HTML)


def other_json(text: str = "[]") -> Fault:
    """A 200 whose JSON is no document of the method's."""
    return RawReply(status=200, body=text.encode(), content_type="application/json; charset=UTF-8")


NAMED: Mapping[str, Callable[..., Fault]] = {
    "lag": Stale,
    "unreachable": unreachable,
    "half-list": partial_page,
    "refused": refused,
    "unauthorized": unauthorized,
    "error": server_error,
    "lost-before": DropBeforeCommit,
    "lost-after": DropAfterCommit,
    "late": Delay,
    "drip": Trickle,
    "cut": Truncate,
    "doubled": Double,
    "html": html,
    "json": other_json,
}
"""Each with the arguments that the table in the reference gives it."""


def named(name: str, **details: Any) -> Fault:
    """The fault called ``name``; raises TypeError or ValueError for details that it does not take."""
    arguments.check(NAMED[name], details)
    if details.get("seconds", 0) < 0:
        raise ValueError("a reply does not come before its time: seconds are no less than 0")
    if not 200 <= details.get("status", 200) < 600:
        raise ValueError("status is one that ends a request: 200 to 599")
    return NAMED[name](**details)
