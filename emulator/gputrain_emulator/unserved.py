"""What Google serves and the emulator does not, of any API and in any version: 501 by name, never 404."""

from __future__ import annotations

import functools
from typing import Any
from urllib.parse import unquote

from gputrain_emulator import tables


def method_id(verb: str, path: str) -> str:
    """Ids and version of Google's methods at a path that no route of ours has; "" where there are none.

    The table is read when it is first asked: most emulators never meet such a path.
    """
    segments = [unquote(segment) for segment in path.lstrip("/").split("/")]
    if {"", ".", ".."} & {*segments}:
        return ""
    verb = "GET" if verb == "HEAD" else verb
    last, _, custom = segments[-1].rpartition(":")
    found = _find(_tree(), [*segments[:-1], last], 0, (verb, custom)) if last else ""
    return found or _find(_tree(), segments, 0, (verb, ""))


def _find(node: dict[Any, Any], segments: list[str], at: int, end: tuple[str, str]) -> str:
    if at == len(segments):
        return str(node.get(end, ""))
    for step in (segments[at], "*"):
        if step in node and (found := _find(node[step], segments, at + 1, end)):
            return found
    rest = range(at + 1, len(segments) + 1) if "**" in node else ()
    return next(filter(None, (_find(node["**"], segments, after, end) for after in rest)), "")


@functools.cache
def _tree() -> dict[Any, Any]:
    """What follows each segment, ``*`` for any and ``**`` for some; at an end, ids by verb and custom."""
    root: dict[Any, Any] = {}
    for bases, verb, path, ids in tables.rows("unserved.tsv"):
        for base in bases.split() or [""]:
            head, _, custom = f"{base}{path}".partition(":")
            node = root
            for segment in head.split("/"):
                node = node.setdefault(segment, {})
            node[verb, custom] = f"{ids} of {base.strip('/') or head}"
    return root
