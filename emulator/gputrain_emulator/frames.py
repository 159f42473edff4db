"""Which requests are for us."""

from __future__ import annotations

import functools
import ipaddress
import re
from collections.abc import Iterable, Mapping

from gputrain_emulator.errors import ApiError


def headers(sent: Iterable[tuple[str, str]]) -> dict[str, str]:
    """The headers of a request, names in lower case."""
    found = {name.lower(): value for name, value in sent}
    if "transfer-encoding" in found:
        raise ApiError(501, "Chunked request bodies are not implemented by this emulator.")
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
