"""The names of methods that Google serves and the emulator does not, as far as their paths tell them."""

from __future__ import annotations

import re
from urllib.parse import unquote

_NAMES = {"GET": "get", "POST": "insert", "PUT": "update", "PATCH": "patch", "DELETE": "delete"}
_PLACE = r"(?:global|aggregated|(?:zones|regions)/[^/]+)"
_COMPUTE = re.compile(rf"/compute/(?:v1|beta|alpha)/projects/[^/]+/{_PLACE}/(.+)")
_STORAGE = re.compile(r"(?:/resumable)?(?:/upload|/download)?/storage/v1/(b/.+)")
_VERSION = re.compile(r"/(compute/)?(v\d\w*|alpha|beta)/")


def method_id(verb: str, path: str) -> str:
    """The id of a method of Compute Engine or Cloud Storage that no route has; "" for any other path."""
    verb = "GET" if verb == "HEAD" else verb
    if {"", ".", ".."} & {*unquote(path).strip("/").split("/")}:
        return ""
    for service, pattern in (("compute", _COMPUTE), ("storage", _STORAGE)):
        if (found := pattern.fullmatch(path)) and verb in _NAMES:
            *before, last = found[1].strip("/").split("/")
            if len(before) % 2 == 0:  # a collection, or what is done with an item: .../instances/i/start
                collection, name = (before[-2], last) if before and verb == "POST" else (last, _NAMES[verb])
                name = "list" if verb == "GET" else name
            else:
                collection, name = before[-1], last if verb == "POST" else _NAMES[verb]
            return f"{service}.{collection}.{name}"
    return ""


def released(path: str) -> tuple[str, str]:
    """A path of `beta` as the version that is served has it, and its own version; "" for any other path."""
    found = _VERSION.match(path)
    if found is None or found[2] in ("v1", "v2", "v3"):
        return "", ""
    return path.replace(found[2], "v1", 1), f"{found[1] or ''}{found[2]}"
