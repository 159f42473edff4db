"""Bodies of answers, taken for JSON objects only where they are. Pure."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

from gputrain.gcp.errors import UnclearError
from gputrain.secrets import redacted

if TYPE_CHECKING:
    from gputrain.gcp.wire import Reply

Json = dict[str, Any]


def as_document(reply: Reply, action: str) -> Json:
    """The JSON object in an answer.

    Raises:
        UnclearError: it holds anything else.
    """
    try:
        body = reply.json()
    except (ValueError, RecursionError):
        body = reply.text[:200]
    if not isinstance(body, dict):
        raise UnclearError(
            f"could not {action}: the answer is not what was asked for",
            why=f"a JSON object was due, {_kind_of(body)} came",
            fix="check what stands between this machine and Google: a proxy may answer for it",
            raw=redacted(body),
        )
    return body


def _kind_of(body: object) -> str:
    return f"text beginning {body[:40]!r}" if isinstance(body, str) else type(body).__name__
