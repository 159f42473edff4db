"""One call of one method, as a handler sees it, and what it may answer."""

from __future__ import annotations

import base64
import json
from collections.abc import Callable, Iterable, Mapping, Sequence
from dataclasses import dataclass, field
from typing import TYPE_CHECKING, Any, TypeVar

from gputrain_emulator.errors import ApiError, Style

if TYPE_CHECKING:
    from gputrain_emulator.world import Caller, Project, World


T = TypeVar("T")

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

    def shows(self, created: float) -> bool:
        """Whether a list shows what was made then, as it may lag."""
        return not self.stale_s or created <= self.world.clock.now() - self.stale_s


@dataclass(frozen=True, kw_only=True)
class Reply:
    """An answer that is more than a JSON document: other status, other bytes, headers."""

    status: int = 200
    body: bytes | dict[str, Any] = b""
    content_type: str = "application/json; charset=UTF-8"
    headers: Mapping[str, str] = field(default_factory=dict)


def refusal(error: ApiError, style: Style = Style.PLATFORM) -> Reply:
    """An error as a service of that style writes it, as bytes."""
    return Reply(status=error.status, body=json.dumps(error.body(style), indent=1).encode())


def page(
    items: Iterable[T],
    place: Callable[[T], Any],
    token: str,
    size: int,
    *,
    newest_first: bool = False,
    of: object = "",
) -> tuple[list[T], str]:
    """The items that come after those of the pages before, and the token of the next page ("" at the end).

    A token names the place of the last item shown, so what is made or removed between two pages neither hides
    an item nor shows one twice. It is good for the list `of` alone.

    Raises:
        ValueError: the token is none.
    """
    placed = sorted(((place(item), item) for item in items), key=lambda one: one[0], reverse=newest_first)
    if token:
        try:
            asked, last = json.loads(base64.urlsafe_b64decode(token.encode()))
            placed = [one for one in placed if (one[0] < last if newest_first else one[0] > last)]
        except (TypeError, RecursionError) as error:
            raise ValueError(str(error)) from None
        if asked != of:
            raise ValueError("the token is another list's")
    shown = placed[:size]
    more = json.dumps([of, shown[-1][0]]) if len(shown) < len(placed) else ""
    return [item for _, item in shown], base64.urlsafe_b64encode(more.encode()).decode()


def numbered(call: Call, name: str, found: Sequence[Any], *, default: int, most: int) -> dict[str, Any]:
    """The page of `found` that a query asks for, as `{name: [...], "nextPageToken": ...}`.

    Raises:
        ApiError: 400 for a token that is none, or a negative size.
    """
    size = int(call.query.get("pageSize") or 0)
    try:
        if size < 0:
            raise ValueError
        shown, token = page(
            enumerate(found), lambda one: one[0], call.query.get("pageToken", ""), min(size or default, most)
        )
    except ValueError:
        raise ApiError(400, "Request contains an invalid argument.") from None
    rest = {"nextPageToken": token} if token else {}
    return {**({name: [item for _, item in shown]} if shown else {}), **rest}
