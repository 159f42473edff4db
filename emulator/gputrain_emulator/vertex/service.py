"""The handlers of `aiplatform.v1` that custom jobs need."""

from __future__ import annotations

import copy
import re
from collections.abc import Callable

from gputrain_emulator import messages, partial, query
from gputrain_emulator.call import Call, page
from gputrain_emulator.clock import parse_time, zulu_time
from gputrain_emulator.errors import ApiError, Style
from gputrain_emulator.query import ORDER, FilterError, Leaf, is_like
from gputrain_emulator.routes import Service
from gputrain_emulator.vertex import machines, offers
from gputrain_emulator.vertex.checks import check, listed, precondition
from gputrain_emulator.vertex.machines import Json
from gputrain_emulator.vertex.state import Job, Vertex
from gputrain_emulator.vertex.states import TERMINAL

SERVICE = Service("aiplatform", Style.PLATFORM, is_tabled=True)

_HOST = re.compile(r"([a-z0-9-]+)-aiplatform\.googleapis\.com")
_NAME = re.compile(r"projects/[^/]+/locations/([^/]+)(?:/customJobs/([^/]+))?")


@SERVICE.method("aiplatform.customJobs.create", pool="aiplatform.job_writes")
def create(call: Call) -> Json:
    vertex, region = call.world.part(Vertex), _region(call)
    call.world.rates.charge("aiplatform.requests", call.owner, region)  # besides its own 60 a minute
    if any("pythonPackageSpec" in pool for pool in call.body.get("jobSpec", {}).get("workerPoolSpecs", ())):
        raise ApiError.unimplemented("aiplatform.customJobs.create with a pythonPackageSpec")
    check(call, region)
    job = vertex.create(call.owner, region, _with_defaults(call.body), caller=call.caller.email)
    return _shown(job, call.world.clock.now())


@SERVICE.method("aiplatform.customJobs.get", pool="aiplatform.requests")
def get(call: Call) -> Json:
    return _shown(_job(call), call.world.clock.now())


@SERVICE.method("aiplatform.customJobs.list", pool="aiplatform.requests")
def list_jobs(call: Call) -> Json:
    """Newest first."""
    region, now = _region(call), call.world.clock.now()
    wanted = _matcher(call.query.get("filter", ""))
    size = int(call.query.get("pageSize", 0))
    if size < 0:
        raise listed(("page_size", "Must be greater than or equal to 0."))
    mask = call.query.get("readMask", "").replace(" ", "").replace(".", "/")
    partial.check_tree(messages.message("google.cloud.aiplatform.v1.CustomJob"), partial.parse(mask))
    seen = [
        job
        for job in call.world.part(Vertex).jobs.values()
        if (job.project, job.region) == (call.owner, region) and call.shows(job.created) and wanted(job)
    ]
    token, size = call.query.get("pageToken", ""), min(size or MAX_PAGE, MAX_PAGE)
    try:
        jobs, token = page(seen, lambda job: job.serial, token, size, newest_first=True)
    except ValueError:
        raise ApiError(400, "The page token is invalid.") from None
    shown = {"customJobs": [_picked(_shown(job, now), mask) for job in jobs]} if jobs else {}
    return {**shown, **({"nextPageToken": token} if token else {})}


@SERVICE.method("aiplatform.customJobs.cancel", pool="aiplatform.requests")
def cancel(call: Call) -> Json:
    vertex, job = call.world.part(Vertex), _job(call)
    if job.state in TERMINAL:
        return {}
    call.world.ledger.write("cancel", job.name, caller=call.caller.email)
    vertex.cancel(job)
    return {}


@SERVICE.method("aiplatform.customJobs.delete", pool="aiplatform.job_writes")
def delete(call: Call) -> Json:
    vertex, job = call.world.part(Vertex), _job(call)
    call.world.rates.charge("aiplatform.requests", call.owner, job.region)
    if job.state not in TERMINAL:
        raise precondition(
            f"The CustomJob {job.name} is in state {job.state.value}. Only jobs that have ended can be "
            "deleted; cancel it first."
        )
    del vertex.jobs[job.id]
    call.world.ledger.write("delete", job.name, caller=call.caller.email)
    now = zulu_time(call.world.clock.now())
    id_ = call.world.new_id()
    name = f"projects/{job.project.number}/locations/{job.region}/operations/{id_}"
    kind = "type.googleapis.com/google.cloud.aiplatform.v1.DeleteOperationMetadata"
    metadata = {"@type": kind, "genericMetadata": {"createTime": now, "updateTime": now}}
    operation = {"name": name, "metadata": metadata}
    empty = {"@type": "type.googleapis.com/google.protobuf.Empty"}
    vertex.operations[id_] = {**operation, "done": True, "response": empty}
    return operation


@SERVICE.method("aiplatform.operations.get", permission="-")
@SERVICE.method("aiplatform.operations.wait", permission="-")
def get_operation(call: Call) -> Json:
    name = call.params["name"]
    found = call.world.part(Vertex).operations.get(name.rpartition("/")[2], {"name": ""})
    if not found["name"].startswith(f"projects/{call.owner.number}/"):
        raise ApiError(404, f"Operation {name} is not found.")
    return found


@SERVICE.method("aiplatform.tensorboards.get", pool="aiplatform.requests")
def get_tensorboard(call: Call) -> Json:
    name = call.params["name"]
    shown = call.world.part(Vertex).tensorboards.get(name)
    if shown is None:
        raise ApiError(404, f"The Tensorboard {name} is not found.")
    return {"name": name, "displayName": shown}


def _region(call: Call) -> str:
    found = _NAME.match(call.params.get("parent") or call.params.get("name", ""))
    region = found.group(1) if found else ""
    if region not in offers.REGIONS:
        raise ApiError(404, f"Location {region} is not found or access is unauthorized.")
    host = _HOST.fullmatch(call.headers.get("host", "").partition(":")[0])
    if host is not None and host.group(1) != region:
        raise ApiError(400, f"The request for location {region} was sent to the endpoint of {host.group(1)}.")
    return region


def _job(call: Call) -> Job:
    region = _region(call)
    return call.world.part(Vertex).find(call.owner, region, call.params["name"].rpartition("/")[2])


_OUTPUT_ONLY = ("name", "state", "createTime", "startTime", "endTime", "updateTime", "error", "webAccessUris")


def _with_defaults(body: Json) -> Json:
    """The request's job with the service's defaults: the disk of every pool, output fields dropped."""
    document = copy.deepcopy({key: value for key, value in body.items() if key not in _OUTPUT_ONLY})
    for pool in document["jobSpec"].get("workerPoolSpecs", ()):
        machine = pool.get("machineSpec", {})
        if machine.get("machineType"):
            usual = {"bootDiskType": machines.default_disk(machine), "bootDiskSizeGb": 100}
            pool["diskSpec"] = {**usual, **pool.get("diskSpec", {})}
    return document


def _shown(job: Job, now: float) -> Json:
    """The CustomJob as a reader sees it at `now`."""
    state, error = job.state.value, job.visible_error(now)
    shown = {"name": job.name, **job.document, "state": state}
    shown.update({name: zulu_time(when) for name, when in job.times().items()})
    if state == "JOB_STATE_RUNNING" and shown["jobSpec"].get("enableWebAccess"):
        host = f"{job.id}-dot-us-central1.aiplatform-training.googleusercontent.com"
        shown["webAccessUris"] = {"workerpool0-0": f"https://{host}"}
    if error is not None:
        shown["error"] = {"code": error.code, "message": error.message}
    return shown


def _picked(document: Json, mask: str) -> Json:
    """Only the top-level fields that a read mask names; an empty one or `*` names them all."""
    wanted = {messages.camel(name.partition("/")[0]) for name in mask.split(",") if name}
    is_all = not wanted or "*" in wanted
    return document if is_all else {key: value for key, value in document.items() if key in wanted}


MAX_PAGE = 100
_EQUAL = ("=", "!=")
_OPERATORS = {
    "displayName": (*_EQUAL, ":"), "state": _EQUAL, "labels": (*_EQUAL, ":"),
    **dict.fromkeys(("createTime", "updateTime", "startTime", "endTime"), (*_EQUAL, "<", "<=", ">", ">=")),
}  # fmt: skip


def _matcher(text: str) -> Callable[[Job], bool]:
    """A test of jobs; raises ApiError 400 for what the list filter does not support."""
    try:
        return query.compiled(text, _leaf)
    except FilterError as error:
        raise ApiError(400, f"Invalid filter: {error}. Filter: {text}") from None


def _leaf(leaf: Leaf) -> Callable[[Job], bool]:
    name = messages.camel(leaf.path[0])
    if name not in _OPERATORS or (name != "labels" and len(leaf.path) > 1):
        raise FilterError(f"unsupported field '{'.'.join(leaf.path)}'")
    if leaf.operator not in _OPERATORS[name]:
        raise FilterError(f"unsupported operator '{leaf.operator}' for field '{leaf.path[0]}'")
    if name == "labels":
        return lambda job: _label(leaf, job.document.get("labels", {}))
    if name == "state":
        return lambda job: ORDER[leaf.operator](job.state.value, leaf.value)
    if name == "displayName":
        return lambda job: _text(leaf, str(job.document["displayName"]))
    try:
        wanted = parse_time(leaf.value)
    except ValueError:
        raise FilterError(f"invalid RFC 3339 time '{leaf.value}'") from None
    return lambda job: (when := job.times().get(name)) is not None and ORDER[leaf.operator](when, wanted)


def _label(leaf: Leaf, labels: dict[str, str]) -> bool:
    if len(leaf.path) == 1:  # labels:key
        return leaf.operator == ":" and leaf.value in labels
    value = labels.get(".".join(leaf.path[1:]))
    if value is None:
        return leaf.operator == "!="
    return (leaf.operator, leaf.value) == (":", "*") or _text(leaf, value)


def _text(leaf: Leaf, value: str) -> bool:
    return is_like(value, leaf.value) if leaf.operator == ":" else ORDER[leaf.operator](value, leaf.value)
