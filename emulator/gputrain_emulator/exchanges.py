"""What comes over the wire, and the log of it."""

from __future__ import annotations

import re
from collections import deque
from collections.abc import Iterator, Mapping
from dataclasses import dataclass, field, replace


@dataclass(kw_only=True)
class Request:
    """One request as it came over the wire; header names in lower case."""

    verb: str
    target: str
    headers: Mapping[str, str] = field(default_factory=dict)
    body: bytes = b""
    prefix: str = ""
    """``/_emulator/as/TOKEN`` where the client was given an address that holds its token."""


BEARER = re.compile(r"(/_emulator/as/([A-Za-z0-9_-]+))(/.*)")
"""An address for clients that send no token of their own: the path, the token, the path that is meant."""


def unwrapped(request: Request) -> Request:
    """The request that an address with a token in it stands for; any other one as it is."""
    found = BEARER.fullmatch(request.target)
    if found is None:
        return request
    prefix, token, target = found.groups()
    headers = dict(request.headers)
    if not headers.get("authorization"):
        headers["authorization"] = f"Bearer {token}"
    return replace(request, target=target, headers=headers, prefix=prefix)


@dataclass(frozen=True, kw_only=True)
class Seen:
    """One line of the request log."""

    verb: str
    path: str
    method: str
    caller: str
    status: int
    body: bytes
    """The request's body, as much of it as the log keeps (``RequestLog.body_bytes``)."""
    query: Mapping[str, list[str]] = field(default_factory=dict)
    reply: bytes = b""
    """The reply's body (as much of it); empty when the connection was dropped."""


class RequestLog:
    """The last requests, oldest first, and as much of each body as ``body_bytes`` says."""

    def __init__(self) -> None:
        self.body_bytes = 1 << 16
        self._seen: deque[Seen] = deque(maxlen=4096)

    def keep_everything(self) -> None:
        """Forget nothing, and cut nothing: for tests that judge every exchange."""
        self.body_bytes, self._seen = 1 << 40, deque()

    def append(self, seen: Seen) -> None:
        if max(len(seen.body), len(seen.reply)) > self.body_bytes:
            seen = replace(seen, body=seen.body[: self.body_bytes], reply=seen.reply[: self.body_bytes])
        self._seen.append(seen)

    def clear(self) -> None:
        self._seen.clear()

    def __iter__(self) -> Iterator[Seen]:
        return iter(self._seen.copy())
