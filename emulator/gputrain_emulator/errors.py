"""Google's error envelopes, one shape for each family of services."""

from __future__ import annotations

import enum
from collections.abc import Mapping, Sequence
from typing import Any

from gputrain_emulator import tables

_STATUSES = {int(row["status"]): (row["canonical"], row["reason"]) for row in tables.records("statuses.csv")}


class Style(enum.Enum):
    """How a service family writes its errors."""

    COMPUTE = "compute"
    """``errors[]`` with old-style reasons; ``status`` and ``details`` only where there are details."""
    STORAGE = "storage"
    """``errors[]`` with old-style reasons, never a ``status``."""
    PLATFORM = "platform"
    """google.rpc.Status as JSON: ``code``, ``message``, ``status``, ``details``."""
    OAUTH = "oauth"
    """``{"error": ..., "error_description": ...}``."""


class ApiError(Exception):
    """A refusal in Google's words; raised by handlers, written by the server.

    Args:
        status: HTTP status.
        message: Google's own sentence.
        reason: old-style reason (``quotaExceeded``), or the OAuth error name.
        domain: ``global`` or ``usageLimits``.
        canonical: google.rpc.Code name, where it is not the usual one of ``status``.
        details: google.rpc details, each with its ``@type``.
        headers: extra response headers, such as ``Retry-After``.
    """

    def __init__(
        self,
        status: int,
        message: str,
        *,
        reason: str = "",
        domain: str = "global",
        canonical: str = "",
        details: Sequence[Mapping[str, Any]] = (),
        headers: Mapping[str, str] | None = None,
    ) -> None:
        super().__init__(message)
        self.status = status
        self.message = message
        usual, usual_reason = _STATUSES.get(status, ("UNKNOWN", "invalid"))
        self.reason = reason or usual_reason
        self.domain = domain
        self.canonical = canonical or usual
        self.details = tuple(details)
        self.headers = dict(headers or {})

    @classmethod
    def unimplemented(cls, method: str) -> ApiError:
        """What Google has and the emulator does not."""
        return cls(501, f"Method {method} is not implemented by this emulator.", reason="notImplemented")

    def body(self, style: Style) -> dict[str, Any]:
        """The response document in the words of ``style``."""
        if style is Style.OAUTH:
            return {"error": self.reason, "error_description": self.message}
        error: dict[str, Any] = {"code": self.status, "message": self.message}
        if style is not Style.PLATFORM:
            error["errors"] = [{"message": self.message, "domain": self.domain, "reason": self.reason}]
        if style is Style.PLATFORM or (style is Style.COMPUTE and self.details):
            error["status"] = self.canonical
        if self.details and style is not Style.STORAGE:
            error["details"] = [dict(detail) for detail in self.details]
        return {"error": error}


def error_info(reason: str, domain: str, style: Style = Style.PLATFORM, **facts: str) -> dict[str, Any]:
    """A google.rpc.ErrorInfo detail; Compute Engine calls the map of its facts ``metadatas``."""
    return {
        "@type": "type.googleapis.com/google.rpc.ErrorInfo",
        "reason": reason,
        "domain": domain,
        "metadatas" if style is Style.COMPUTE else "metadata": facts,
    }


def bad_request(problems: Sequence[tuple[str, str]]) -> ApiError:
    """One 400 for all ``(field path, sentence)`` problems of a request."""
    violations = [
        {"field": field, "description": text} if field else {"description": text} for field, text in problems
    ]
    detail = {"@type": "type.googleapis.com/google.rpc.BadRequest", "fieldViolations": violations}
    return ApiError(400, "\n".join(text for _, text in problems), details=[detail])
