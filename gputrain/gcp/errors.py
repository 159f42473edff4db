"""Errors that only callers of Google's APIs tell apart."""

from __future__ import annotations

from typing import Any

from gputrain.errors import ProviderError, RequestError, TransientError


class MissingError(RequestError):
    """What was asked for does not exist."""

    kind = "missing"


class PreconditionError(RequestError):
    """The resource is not in the state the call required: it exists already, or has changed."""

    kind = "changed"


class UnclearError(TransientError):
    """No answer, or one that does not say what was done: look before a write is repeated."""

    kind = "unclear"


class UndoneError(TransientError):
    """A write has failed in passing, and nothing is left of it: the next one is another."""

    kind = "undone"


class TooLargeError(ProviderError):
    """An answer is larger than what is kept in such a place, and was not read."""


def unlike_google(what: str, why: str, raw: Any = None) -> UnclearError:
    """The error for an answer that Google does not give."""
    fix = "check what stands between this machine and Google: a proxy may answer for it"
    return UnclearError(what, why=why, fix=fix, raw=raw)
