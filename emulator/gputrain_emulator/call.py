"""One call of one method, as a handler sees it, and what it may answer."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field
from typing import TYPE_CHECKING, Any

from gputrain_emulator.errors import ApiError, Style

if TYPE_CHECKING:
    from gputrain_emulator.world import Caller, Project, World


MAX_JSON_BODY = 10 << 20
"""Larger JSON requests are refused with 413 (Google's API front end: 10 MB, unverified)."""


@dataclass(frozen=True, kw_only=True)
class Method:
    """One method of one service, by the id that Google's discovery documents give it."""

    id: str
    service: str
    """``compute`` of ``compute.googleapis.com``."""
    style: Style
    verb: str
    template: str
    body: str | None = None
    """Name of the request's field that the body fills; ``*`` for the whole request; None for no body."""
    request: str = ""
    """Name of the request message: of the query, and of the body in it."""
    response: str = ""
    """Name of the response message; empty where no selection of fields is checked."""
    is_raw: bool = False
    """The handler reads the body itself, from ``call.raw_body``."""
    max_body: int = MAX_JSON_BODY


@dataclass(kw_only=True)
class Call:
    """A request that has been routed, authenticated and read.

    ``params`` holds the path's variables, ``query`` the query parameters and ``body`` the document, all in
    Google's JSON form (camelCase, 64-bit integers as strings).
    """

    world: World
    method: Method
    params: Mapping[str, str]
    query: Mapping[str, Any]
    body: dict[str, Any]
    raw_body: bytes = b""
    headers: Mapping[str, str] = field(default_factory=dict)
    """Request headers, names in lower case."""
    caller: Caller
    project: Project | None = None
    base_url: str = ""
    """``http://127.0.0.1:PORT``, as the client addressed us."""
    path: str = ""
    query_all: Mapping[str, list[str]] = field(default_factory=dict)
    """Every value of every query parameter, as sent."""
    stale_s: float = 0.0
    """Lists must show the world as it was this long ago."""

    @property
    def owner(self) -> Project:
        """The project the call is about; only for methods whose path names one."""
        if self.project is None:
            raise LookupError(f"{self.method.id} names no project")
        return self.project


@dataclass(frozen=True, kw_only=True)
class Reply:
    """An answer that is more than a JSON document: other status, other bytes, headers."""

    status: int = 200
    body: bytes | dict[str, Any] = b""
    content_type: str = "application/json; charset=UTF-8"
    headers: Mapping[str, str] = field(default_factory=dict)


def numbered(call: Call, name: str, found: Sequence[Any], *, default: int, most: int) -> dict[str, Any]:
    """The page of `found` that a query asks for, as `{name: [...], "nextPageToken": ...}`.

    Raises:
        ApiError: 400 for a token that is none, or a negative size.
    """
    token, size = str(call.query.get("pageToken") or "0"), int(call.query.get("pageSize") or 0)
    if not (token.isascii() and token.isdigit() and len(token) < 10) or size < 0:
        raise ApiError(400, "Request contains an invalid argument.")
    start, size = int(token), min(size or default, most)
    page = list(found[start : start + size])
    rest = {"nextPageToken": str(start + size)} if start + size < len(found) else {}
    return {**({name: page} if page else {}), **rest}
