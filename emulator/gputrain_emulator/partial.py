"""Replies as the client asked for them: ``fields=`` partial responses and JSON on the wire."""

from __future__ import annotations

import json
from collections.abc import Mapping
from typing import Any

from gputrain_emulator.call import Reply

Tree = dict[str, "Tree"]

_compact = json.JSONEncoder(separators=(",", ":")).encode  # made once: json.dumps makes one a call


def render(reply: Reply, query: Mapping[str, list[str]]) -> Reply:
    """``reply`` with its body as bytes, cut down to ``fields`` when the query names them."""
    if not isinstance(reply.body, dict):
        return reply
    document: Any = reply.body
    masks = query.get("fields") or query.get("$fields")
    if masks and reply.status < 300 and masks[-1] not in ("", "*"):
        document = _pick(document, parse(masks[-1]))
    pretty = query.get("prettyPrint", query.get("$prettyPrint", ["false"]))[-1] == "true"
    text = json.dumps(document, indent=2) if pretty else _compact(document)
    return Reply(
        status=reply.status, body=text.encode(), content_type=reply.content_type, headers=reply.headers
    )


def parse(mask: str) -> Tree:
    """``items(name,disks/source),nextPageToken`` as a tree of names."""
    tree: Tree = {}
    stack = [tree]
    here = tree
    for piece in _tokens(mask):
        if piece == ",":
            here = stack[-1]
        elif piece == "(":
            stack.append(here)
        elif piece == ")":
            if len(stack) > 1:
                here = stack.pop()
        elif piece != "/":
            here = here.setdefault(piece, {})
    return tree


def _tokens(mask: str) -> list[str]:
    tokens: list[str] = []
    for char in mask:
        if char in ",()/":
            tokens.append(char)
        elif tokens and tokens[-1] not in ",()/":
            tokens[-1] += char
        else:
            tokens.append(char)
    return tokens


def _pick(value: Any, tree: Tree) -> Any:
    if not tree or ("*" in tree and not tree["*"]):
        return value
    if isinstance(value, list):
        return [_pick(item, tree) for item in value]
    if not isinstance(value, dict):
        return value
    every = tree.get("*")
    return {
        key: _pick(item, tree.get(key, every or {})) for key, item in value.items() if key in tree or every
    }
