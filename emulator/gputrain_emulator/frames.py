"""Which requests are for us, what two readers could read in two ways, and bodies read from connections."""

from __future__ import annotations

import functools
import ipaddress
import re
from collections.abc import Iterable, Mapping
from io import BufferedIOBase

from gputrain_emulator.errors import ApiError

_ONCE = frozenset({"host", "content-length", "transfer-encoding"})


def headers(sent: Iterable[tuple[str, str]]) -> dict[str, str]:
    """The headers of a request, names in lower case; raises ApiError for one that is framed in two ways.

    RFC 9112, 3.2 and 6.3: what a proxy and its server could understand differently is refused.
    """
    found: dict[str, str] = {}
    for name, value in sent:
        key = name.lower()
        if key in found and key in _ONCE:
            raise ApiError(400, f"The request has two headers {name}.")
        found[key] = value
    coding = found.get("transfer-encoding")
    if coding is not None and (coding.strip().lower() != "chunked" or "content-length" in found):
        raise ApiError(400, "Transfer-Encoding must be chunked, and stand without a Content-Length.")
    return found


def target(wanted: str) -> str:
    """Path and query of a request; raises ApiError 404 for one that is meant for another host."""
    if wanted.startswith("/"):
        return wanted
    found = re.fullmatch(r"https?://([^/?#]*)(/.*)?", wanted)
    if found is None or not is_ours(found[1]):
        raise ApiError(404, f"The requested URL {wanted[:200]} was not found on this server.")
    return found[2] or "/"


def require_loopback(host: str) -> None:
    """Raises ValueError for an address that others than this machine could reach."""
    if host != "localhost" and not _is_loopback(host):
        raise ValueError(
            f"the emulator binds to loopback only, not to {host}: it checks no keys and may run what comes"
        )


@functools.lru_cache(maxsize=64)
def is_ours(host: str) -> bool:
    """Whether a Host header may be answered: a web page that points its own name at this machine may not."""
    name = re.sub(r":[0-9]+$", "", host).strip("[]").lower()
    if not name or name == "localhost" or name == "metadata.google.internal":
        return True
    return name.endswith((".localhost", ".googleapis.com")) or _is_loopback(name)


def is_of_a_page(headers: Mapping[str, str]) -> bool:
    """Whether a browser sends it for some page; no client of Google's sends either header."""
    return "origin" in headers or headers.get("sec-fetch-site", "none").lower() not in ("none", "same-origin")


def _is_loopback(host: str) -> bool:
    try:
        return ipaddress.ip_address(host).is_loopback
    except ValueError:
        return False


def counted(file: BufferedIOBase, size: int) -> bytes:
    """So many bytes of a connection. Raises ApiError where it ends before."""
    body = file.read(size) if size else b""
    if len(body) != size:
        raise ApiError(400, "The request body ended early.")
    return body


def chunks(file: BufferedIOBase, limit: int) -> bytes:
    """A body whose length nobody knows before its end, at most ``limit`` bytes of it."""
    found: list[bytes] = []
    total = 0
    while size := _next_chunk(file):
        total += size
        refuse_above(limit, total)
        found.append(counted(file, size))
        file.readline(8)
    while file.readline(8192).strip():
        pass
    return b"".join(found)


def refuse_above(limit: int, size: int) -> None:
    """413 for more than is taken."""
    if size > limit:
        raise ApiError(413, f"Request payload size exceeds the limit: {limit} bytes.")


def _next_chunk(file: BufferedIOBase) -> int:
    line = file.readline(1024).partition(b";")[0].strip()
    if not re.fullmatch(rb"[0-9a-fA-F]{1,16}", line):
        raise ApiError(400, "Malformed chunk.")
    return int(line, 16)
