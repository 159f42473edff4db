"""One call of one method, as a handler sees it, and what it may answer."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass, field
from typing import TYPE_CHECKING, Any

from gputrain_emulator.routes import Method

if TYPE_CHECKING:
    from gputrain_emulator.world import Caller, Project, World


@dataclass(kw_only=True)
class Call:
    """A request that has been routed, authenticated and read.

    ``params`` holds the path's variables, ``query`` the query parameters and ``body`` the document, all in
    Google's JSON form (camelCase, 64-bit integers as strings); for hand-written routes ``body`` is None and
    ``raw_body`` the bytes.
    """

    world: World
    method: Method
    params: Mapping[str, str]
    query: Mapping[str, Any]
    body: dict[str, Any]
    raw_body: bytes = b""
    large: memoryview | None = None
    """The bytes where they are too many for the memory; ``raw_body`` is empty then."""
    headers: Mapping[str, str] = field(default_factory=dict)
    """Request headers, names in lower case."""
    caller: Caller
    project: Project | None = None
    base_url: str = ""
    """``http://127.0.0.1:PORT``, as the client addressed us."""
    path: str = ""
    query_all: Mapping[str, list[str]] = field(default_factory=dict)
    """Every value of every query parameter, as sent; ``query`` of a hand-written route holds the last of
    each."""
    stale_s: float = 0.0
    """Lists must show the world as it was this long ago."""

    @property
    def content(self) -> bytes | memoryview:
        """The bytes, however many they are."""
        return self.raw_body if self.large is None else self.large

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
    body: bytes | memoryview | dict[str, Any] = b""
    content_type: str = "application/json; charset=UTF-8"
    headers: Mapping[str, str] = field(default_factory=dict)
