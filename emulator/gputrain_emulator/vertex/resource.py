"""A custom job as JSON: what the service fills in at creation, and what it shows at a given moment."""

from __future__ import annotations

import copy
from typing import Any

from gputrain_emulator.clock import zulu_time
from gputrain_emulator.messages import Record
from gputrain_emulator.vertex import machines
from gputrain_emulator.vertex.job import Job

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
