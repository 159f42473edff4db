"""`Answer`: what an API said when it refused, in one form for REST and gRPC. Pure."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any

import attrs

CANONICAL: Mapping[int, str] = {
    400: "INVALID_ARGUMENT",
    401: "UNAUTHENTICATED",
    403: "PERMISSION_DENIED",
    404: "NOT_FOUND",
    409: "ALREADY_EXISTS",
    412: "FAILED_PRECONDITION",
    429: "RESOURCE_EXHAUSTED",
    499: "CANCELLED",
    500: "INTERNAL",
    501: "UNIMPLEMENTED",
    503: "UNAVAILABLE",
    504: "DEADLINE_EXCEEDED",
}
"""HTTP status to canonical code, for answers that carry the status alone. Source: google/rpc/code.proto."""


@attrs.frozen(kw_only=True)
class Answer:
    """A refusal; or, with ``status`` 0, no answer at all: nobody knows what was done."""

    status: int = 0
    canonical: str = ""
    """The code's name in google.rpc.Code, such as ``RESOURCE_EXHAUSTED``."""
    message: str = ""
    reasons: frozenset[str] = frozenset()
    """Every machine-readable word in it: ``errors[].reason``, ``errors[].code``, ``ErrorInfo.reason``."""
    metadata: Mapping[str, str] = attrs.field(factory=dict)
    """``ErrorInfo``'s map; Compute Engine spells it ``metadatas``."""
    retry_after_s: float | None = None
    raw: Any = attrs.field(default=None, repr=False)


def answer_of_json(
    body: Any, *, status: int = 0, retry_after_s: float | None = None, text: str = ""
) -> Answer:
    """The answer that a JSON error body holds: ``{"error": {...}}`` of any Google API, or an OAuth error.

    >>> answer_of_json({"error": {"code": 429, "message": "slow down"}}).canonical
    'RESOURCE_EXHAUSTED'
    """
    error = body.get("error") if isinstance(body, Mapping) else None
    if isinstance(error, str):  # OAuth: {"error": "invalid_grant", "error_description": "..."}
        message = str(body.get("error_description", error))
        return Answer(
            status=status,
            canonical=CANONICAL.get(status, ""),
            message=message,
            reasons=frozenset({error}),
            raw=body,
        )
    if not isinstance(error, Mapping):
        return Answer(
            status=status,
            canonical=CANONICAL.get(status, ""),
            message=text,
            retry_after_s=retry_after_s,
            raw=body if body else text,
        )
    code = int(error.get("code") or status)
    reasons, metadata = _words(error)
    return Answer(
        status=code,
        canonical=str(error.get("status") or CANONICAL.get(code, "")),
        message=str(error.get("message", "")),
        reasons=reasons,
        metadata=metadata,
        retry_after_s=retry_after_s,
        raw=body,
    )


def _words(error: Mapping[str, Any]) -> tuple[frozenset[str], Mapping[str, str]]:
    reasons: set[str] = set()
    metadata: dict[str, str] = {}
    for one in error.get("errors") or ():
        reasons |= {str(one[key]) for key in ("reason", "code") if one.get(key)}
    for detail in error.get("details") or ():
        if isinstance(detail, Mapping) and detail.get("reason"):
            reasons.add(str(detail["reason"]))
            found = detail.get("metadata") or detail.get("metadatas") or {}
            metadata |= {str(key): str(value) for key, value in found.items()}
    return frozenset(reasons), metadata
