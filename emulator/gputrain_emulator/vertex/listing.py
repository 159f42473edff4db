"""Custom jobs as JSON, and customJobs.list: the filter's fields, the order (newest first) and the pages."""

from __future__ import annotations

import base64
import binascii
import copy
import re
from collections.abc import Callable, Sequence
from typing import Any

from gputrain_emulator import query
from gputrain_emulator.clock import parse_time, zulu_time
from gputrain_emulator.errors import ApiError
from gputrain_emulator.messages import Record
from gputrain_emulator.query import ORDER, FilterError, Leaf, is_like
from gputrain_emulator.vertex import machines
from gputrain_emulator.vertex.states import Job

_OUTPUT_ONLY = ("name", "state", "createTime", "startTime", "endTime", "updateTime", "error", "webAccessUris")
_TIMES = {
    "create_time": "createTime",
    "start_time": "startTime",
    "end_time": "endTime",
    "update_time": "updateTime",
}


def with_defaults(body: dict[str, Any], message: Record) -> dict[str, Any]:
    """The request's job with the service's defaults: the disk of every pool, output fields dropped."""
    document = copy.deepcopy({key: value for key, value in body.items() if key not in _OUTPUT_ONLY})
    pools = document["jobSpec"].get("workerPoolSpecs", [])
    for pool, spec in zip(pools, message.job_spec.worker_pool_specs):
        if not spec.machine_spec.machine_type:
            continue
        disk = pool.setdefault("diskSpec", {})
        disk.setdefault("bootDiskType", machines.default_disk(spec.machine_spec))
        disk.setdefault("bootDiskSizeGb", 100)
    return document


def custom_job(job: Job, now: float) -> dict[str, Any]:
    """The CustomJob as a reader sees it at `now`."""
    times = job.times()
    shown = {
        "name": job.name,
        **job.document,
        "state": job.life.state.value,
        **{json: zulu_time(times[name]) for name, json in _TIMES.items() if name in times},
    }
    if shown["state"] == "JOB_STATE_RUNNING" and shown["jobSpec"].get("enableWebAccess"):
        number = job.name.rpartition("/")[2]
        shown["webAccessUris"] = {
            "workerpool0-0": f"https://{number}-dot-us-central1.aiplatform-training.googleusercontent.com"
        }
    error = job.life.visible_error(now)
    if error is not None:
        shown["error"] = {"code": error.code, "message": error.message}
    return shown


def picked(document: dict[str, Any], mask: str) -> dict[str, Any]:
    """Only the top-level fields that a read mask names; an empty one or `*` names them all."""
    names = {part.strip().partition(".")[0] for part in mask.split(",") if part.strip()}
    if not names or "*" in names:
        return document
    wanted = {_camel(name) for name in names}
    return {key: value for key, value in document.items() if key in wanted}


def _camel(name: str) -> str:
    head, *rest = name.split("_")
    return head + "".join(part.title() for part in rest)


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
