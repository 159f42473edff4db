"""Replies as the client asked for them: ``fields=`` partial responses, enums as numbers, JSON on the wire."""

from __future__ import annotations

import functools
import json
import re
from collections.abc import Mapping
from typing import Any

from gputrain_emulator import messages
from gputrain_emulator.call import Method, Reply
from gputrain_emulator.errors import ApiError

Tree = dict[str, "Tree"]

_compact = json.JSONEncoder(separators=(",", ":")).encode  # made once: json.dumps makes one a call


def check_form(method: Method, query: Mapping[str, list[str]]) -> None:
    """Raises ApiError where the answer is wanted in a form that there is not, or that is not made here."""
    if not query:
        return
    alt = (query.get("$alt") or query.get("alt") or [""])[-1]
    if alt.partition(";")[0] not in ("", "json") and not (alt == "media" and method.service == "storage"):
        if alt in ("proto", "media", "atom", "csv"):
            raise ApiError(501, f"Answers with alt={alt} are not implemented by this emulator.")
        raise ApiError(400, f"Invalid value '{alt[:80]}' for alt.", reason="invalidParameter")
    if query.get("callback") or query.get("$callback"):
        raise ApiError(501, "Answers that call back (JSONP) are not implemented by this emulator.")
    mask = (query.get("fields") or query.get("$fields") or [""])[-1]
    if mask and alt != "media":
        check_mask(method.response, mask)


@functools.lru_cache(256)
def check_mask(message: str, mask: str) -> None:
    """400 for a selection that is not well-formed, or names what the message has not."""
    if mask.count("(") != mask.count(")") or mask.endswith((",", "(", "/")):
        raise no_selection(mask)
    if message:
        check_tree(messages.message(message), parse(mask))


def check_tree(message: messages.Message, tree: Tree) -> None:
    """400 for a selection that names what the message has not."""
    for name, inner in tree.items():
        if name == "*":
            continue
        field = message.by_name.get(name)
        if field is None or (inner and field.kind not in ("message", "map")):
            raise no_selection(name)
        is_open = field.kind == "map" or field.type.startswith("google.protobuf.")
        if inner and not is_open:
            check_tree(field.message, inner)


def no_selection(what: str) -> ApiError:
    """400 for a selection, in Google's words."""
    return ApiError(400, f"Invalid field selection {what[:200]}", reason="invalidParameter")


def render(reply: Reply, query: Mapping[str, list[str]], message: str = "") -> Reply:
    """``reply`` with its body as bytes, cut down to ``fields`` when the query names them.

    Enums become numbers where the query wants that and the type of the document is known.
    """
    if not isinstance(reply.body, dict):
        return reply
    document: Any = reply.body
    alt = query.get("$alt", query.get("alt", [""]))[-1]
    if message and reply.status < 300 and "enum-encoding=int" in alt:
        document = _numbered(messages.message(message), document)
    masks = query.get("fields") or query.get("$fields")
    if masks and reply.status < 300 and masks[-1] not in ("", "*"):
        document = _pick(document, parse(masks[-1]))
    pretty = query.get("prettyPrint", query.get("$prettyPrint", ["false"]))[-1] == "true"
    text = json.dumps(document, indent=2) if pretty else _compact(document)
    return Reply(
        status=reply.status, body=text.encode(), content_type=reply.content_type, headers=reply.headers
    )


def _numbered(message: messages.Message, document: Any) -> Any:
    """The document with its enums as their numbers."""
    if not isinstance(document, dict) or message.name.startswith("google.protobuf."):
        return document
    return {key: _number(message.by_name.get(key), value) for key, value in document.items()}


def _number(field: messages.Field | None, value: Any) -> Any:
    if field is None:
        return value
    if isinstance(value, list):
        return [_number(field, item) for item in value]
    if field.kind == "enum":
        return field.enum.get(value, value)
    return _numbered(field.message, value) if field.kind == "message" else value


@functools.lru_cache(256)
def parse(mask: str) -> Tree:
    """``items(name,disks/source),nextPageToken`` as a tree of names, which nobody changes."""
    tree: Tree = {}
    stack = [tree]
    here = tree
    for piece in re.findall("[,()/]|[^,()/]+", mask):
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
