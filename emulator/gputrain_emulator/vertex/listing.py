"""customJobs.list: the filter's fields, the order (newest first) and the pages."""

from __future__ import annotations

import base64
import binascii
import re
from collections.abc import Callable, Sequence

from gputrain_emulator.clock import parse_time
from gputrain_emulator.errors import ApiError
from gputrain_emulator.patterns import is_like
from gputrain_emulator.query import Comparison, FilterError, Leaf, holds, leaves, parse
from gputrain_emulator.vertex.job import Job

MAX_PAGE = 100
_TIMES = ("create_time", "update_time", "start_time", "end_time")


def matcher(text: str) -> Callable[[Job], bool]:
    """A test of jobs; raises ApiError 400 for what the list filter does not support."""
    try:
        tree = parse(text)
        for leaf in leaves(tree):
            _check(leaf)
    except FilterError as error:
        raise ApiError(400, f"Invalid filter: {error}. Filter: {text}") from None
    return lambda job: holds(tree, lambda leaf: _true(leaf, job))


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


def _check(leaf: Leaf) -> None:
    if not isinstance(leaf, Comparison):
        raise FilterError("a field and an operator are needed")
    name = _name(leaf)
    allowed = {
        "display_name": ("=", "!=", ":"),
        "state": ("=", "!="),
        "labels": ("=", "!=", ":"),
        **dict.fromkeys(_TIMES, ("=", "!=", "<", "<=", ">", ">=")),
    }.get(name)
    if allowed is None:
        raise FilterError(f"unsupported field '{name}'")
    if leaf.operator not in allowed:
        raise FilterError(f"unsupported operator '{leaf.operator}' for field '{name}'")
    if name in _TIMES:
        _time(leaf.value)
    if name != "labels" and len(leaf.path) > 1:
        raise FilterError(f"unsupported field '{'.'.join(leaf.path)}'")


def _true(leaf: Leaf, job: Job) -> bool:
    assert isinstance(leaf, Comparison)
    name = _name(leaf)
    if name == "labels":
        return _label(leaf, job)
    if name == "state":
        return (job.life.state.value == leaf.value) is (leaf.operator == "=")
    if name == "display_name":
        return _text(leaf, str(job.document["displayName"]))
    when = job.times().get(name)
    return when is not None and _ordered(leaf.operator, when, _time(leaf.value))


def _label(leaf: Comparison, job: Job) -> bool:
    labels = job.document.get("labels", {})
    if len(leaf.path) == 1:  # labels:key
        return leaf.operator == ":" and leaf.value in labels
    value = labels.get(".".join(leaf.path[1:]))
    if leaf.operator == ":" and leaf.value == "*":
        return value is not None
    if value is None:
        return leaf.operator == "!="
    return _text(leaf, value)


def _text(leaf: Comparison, value: str) -> bool:
    if leaf.operator == ":":
        return is_like(value, leaf.value)
    return (value == leaf.value) is (leaf.operator == "=")


def _ordered(operator: str, value: float, wanted: float) -> bool:
    return {
        "=": value == wanted,
        "!=": value != wanted,
        "<": value < wanted,
        "<=": value <= wanted,
        ">": value > wanted,
        ">=": value >= wanted,
    }[operator]


def _time(text: str) -> float:
    try:
        return parse_time(text)
    except ValueError:
        raise FilterError(f"invalid RFC 3339 time '{text}'") from None


def _name(leaf: Comparison) -> str:
    return re.sub(r"([A-Z])", lambda found: "_" + found.group(1).lower(), leaf.path[0])
