"""customJobs.list: the filter's fields, the order (newest first) and the pages."""

from __future__ import annotations

import base64
import binascii
import re
from collections.abc import Callable, Sequence

from gputrain_emulator import query
from gputrain_emulator.clock import parse_time
from gputrain_emulator.errors import ApiError
from gputrain_emulator.query import ORDER, FilterError, Leaf, is_like
from gputrain_emulator.vertex.job import Job

MAX_PAGE = 100
_EQUAL = ("=", "!=")
_OPERATORS = {
    "display_name": (*_EQUAL, ":"),
    "state": _EQUAL,
    "labels": (*_EQUAL, ":"),
    **dict.fromkeys(
        ("create_time", "update_time", "start_time", "end_time"), (*_EQUAL, "<", "<=", ">", ">=")
    ),
}


def matcher(text: str) -> Callable[[Job], bool]:
    """A test of jobs; raises ApiError 400 for what the list filter does not support."""
    try:
        return query.compiled(text, _leaf)
    except FilterError as error:
        raise ApiError(400, f"Invalid filter: {error}. Filter: {text}") from None


def page_of(jobs: Sequence[Job], size: int, token: str) -> tuple[list[Job], str]:
    """The jobs of one page, newest first, and the token of the next one; stable while jobs are created."""
    size = min(size or MAX_PAGE, MAX_PAGE)
    before = _decode(token)
    found = [job for job in jobs if before is None or job.serial < before]
    found.sort(key=lambda job: -job.serial)
    if len(found) <= size:
        return found, ""
    return found[:size], base64.urlsafe_b64encode(b"%d" % found[size - 1].serial).decode()


def _decode(token: str) -> int | None:
    if not token:
        return None
    try:
        return int(base64.b64decode(token, altchars=b"-_", validate=True))
    except (binascii.Error, ValueError):
        raise ApiError(400, "The page token is invalid.") from None


def _leaf(leaf: Leaf) -> Callable[[Job], bool]:
    name = re.sub(r"([A-Z])", lambda found: "_" + found.group(1).lower(), leaf.path[0])
    if name not in _OPERATORS or (name != "labels" and len(leaf.path) > 1):
        raise FilterError(f"unsupported field '{'.'.join(leaf.path)}'")
    if leaf.operator not in _OPERATORS[name]:
        raise FilterError(f"unsupported operator '{leaf.operator}' for field '{name}'")
    if name == "labels":
        return lambda job: _label(leaf, job)
    if name == "state":
        return lambda job: ORDER[leaf.operator](job.life.state.value, leaf.value)
    if name == "display_name":
        return lambda job: _text(leaf, str(job.document["displayName"]))
    try:
        wanted = parse_time(leaf.value)
    except ValueError:
        raise FilterError(f"invalid RFC 3339 time '{leaf.value}'") from None
    return lambda job: (when := job.times().get(name)) is not None and ORDER[leaf.operator](when, wanted)


def _label(leaf: Leaf, job: Job) -> bool:
    labels = job.document.get("labels", {})
    if len(leaf.path) == 1:  # labels:key
        return leaf.operator == ":" and leaf.value in labels
    value = labels.get(".".join(leaf.path[1:]))
    if leaf.operator == ":" and leaf.value == "*":
        return value is not None
    if value is None:
        return leaf.operator == "!="
    return _text(leaf, value)


def _text(leaf: Leaf, value: str) -> bool:
    return is_like(value, leaf.value) if leaf.operator == ":" else ORDER[leaf.operator](value, leaf.value)
