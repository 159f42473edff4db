"""The handlers of `aiplatform.v1` that custom jobs need; gRPC and REST both end here."""

from __future__ import annotations

import re
from typing import Any

from gputrain_emulator import messages, partial
from gputrain_emulator.call import Call
from gputrain_emulator.clock import zulu_time
from gputrain_emulator.errors import ApiError, Style, bad_request
from gputrain_emulator.messages import Record
from gputrain_emulator.rates import platform_rate_limited
from gputrain_emulator.routes import Service
from gputrain_emulator.storage import Storage
from gputrain_emulator.vertex import machines, offers
from gputrain_emulator.vertex.checks import Place, check, listed
from gputrain_emulator.vertex.listing import custom_job, matcher, page_of, picked, with_defaults
from gputrain_emulator.vertex.machines import InvalidJobError
from gputrain_emulator.vertex.state import Vertex
from gputrain_emulator.vertex.states import TERMINAL, Ask, Job, needs_of

SERVICE = Service("aiplatform", Style.PLATFORM, is_tabled=True)

_HOST = re.compile(r"([a-z0-9-]+)-aiplatform\.googleapis\.com")
_NAME = re.compile(r"projects/[^/]+/locations/([^/]+)(?:/customJobs/([^/]+))?")


@SERVICE.method("aiplatform.customJobs.create", pool="aiplatform.job_writes")
def create(call: Call) -> dict[str, Any]:
    vertex, region = call.world.part(Vertex), _region(call)
    _count_request(call, region)
    if "jobSpec" not in call.body:
        raise _refusal(listed(("job_spec", "Required field is not set.")))
    if any("pythonPackageSpec" in pool for pool in call.body["jobSpec"].get("workerPoolSpecs", ())):
        raise ApiError.unimplemented("aiplatform.customJobs.create with a pythonPackageSpec")
    message = Record(messages.message("google.cloud.aiplatform.v1.CustomJob"), call.body)
    try:
        check(message, _place(call, region))
    except InvalidJobError as error:
        raise _refusal(error) from None
    needs = needs_of(call.owner.id, region, machines.needs(message.job_spec))
    vertex.shares.check(needs, vertex.settings.over_quota)
    job = vertex.create(
        call.owner,
        region,
        with_defaults(call.body, message),
        _ask(message.job_spec),
        caller=call.caller.email,
        needs=needs,
        machines=_machines(message.job_spec),
    )
    return custom_job(job, call.world.clock.now())


@SERVICE.method("aiplatform.customJobs.get", pool="aiplatform.requests")
def get(call: Call) -> dict[str, Any]:
    return custom_job(_job(call), call.world.clock.now())


@SERVICE.method("aiplatform.customJobs.list", pool="aiplatform.requests")
def list_jobs(call: Call) -> dict[str, Any]:
    region = _region(call)
    now = call.world.clock.now()
    wanted = matcher(call.query.get("filter", ""))
    size = int(call.query.get("pageSize", 0))
    if size < 0:
        raise _refusal(listed(("page_size", "Must be greater than or equal to 0.")))
    mask = call.query.get("readMask", "")
    partial.check_tree(
        messages.message("google.cloud.aiplatform.v1.CustomJob"),
        partial.parse(mask.replace(" ", "").replace(".", "/")),
    )
    seen = [
        job
        for job in call.world.part(Vertex).of(call.owner, region)
        if not (call.stale_s and job.life.created > now - call.stale_s) and wanted(job)
    ]
    jobs, token = page_of(seen, size, call.query.get("pageToken", ""))
    shown = [picked(custom_job(job, now), mask) for job in jobs]
    return {**({"customJobs": shown} if shown else {}), **({"nextPageToken": token} if token else {})}


@SERVICE.method("aiplatform.customJobs.cancel", pool="aiplatform.requests")
def cancel(call: Call) -> dict[str, Any]:
    vertex, job = call.world.part(Vertex), _job(call)
    if job.life.state in TERMINAL:
        if vertex.settings.refuse_cancel_of_ended:
            raise _precondition(f"The CustomJob {job.name} is in state {job.life.state.value}.")
        return {}
    call.world.ledger.write("cancel", job.name, caller=call.caller.email)
    vertex.cancel(job)
    return {}


@SERVICE.method("aiplatform.customJobs.delete", pool="aiplatform.job_writes")
def delete(call: Call) -> dict[str, Any]:
    vertex, job = call.world.part(Vertex), _job(call)
    _count_request(call, job.region)
    if job.life.state not in TERMINAL:
        raise _precondition(
            f"The CustomJob {job.name} is in state {job.life.state.value}. Only jobs that have ended can be "
            "deleted; cancel it first."
        )
    del vertex.jobs[job.id]
    call.world.ledger.write("delete", job.name, caller=call.caller.email)
    now = zulu_time(call.world.clock.now())
    name = f"projects/{job.project.number}/locations/{job.region}/operations/{call.world.new_id()}"
    operation = {
        "name": name,
        "metadata": {
            "@type": "type.googleapis.com/google.cloud.aiplatform.v1.DeleteOperationMetadata",
            "genericMetadata": {"createTime": now, "updateTime": now},
        },
    }
    vertex.operations[name] = {
        **operation,
        "done": True,
        "response": {"@type": "type.googleapis.com/google.protobuf.Empty"},
    }
    return operation


@SERVICE.method("aiplatform.operations.get", permission="-")
@SERVICE.method("aiplatform.operations.wait", permission="-")
def get_operation(call: Call) -> dict[str, Any]:
    name = call.params["name"]
    ident = name.rpartition("/")[2]
    found = call.world.part(Vertex).operations
    for known, operation in found.items():
        if known.rpartition("/")[2] == ident and known.startswith(f"projects/{call.owner.number}/"):
            return operation
    raise ApiError(404, f"Operation {name} is not found.")


@SERVICE.method("aiplatform.tensorboards.get", pool="aiplatform.requests")
def get_tensorboard(call: Call) -> dict[str, Any]:
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


def _count_request(call: Call, region: str) -> None:
    """Creates and deletes count among all requests too, besides their own 60 a minute."""
    if call.world.rates.count("aiplatform.requests", call.owner.id, region):
        raise platform_rate_limited("aiplatform", "aiplatform.requests", call.owner.number)


def _place(call: Call, region: str) -> Place:
    vertex, storage = call.world.part(Vertex), call.world.part(Storage)
    return Place(
        region=region,
        may_act_as=lambda account: (
            account not in vertex.forbidden_accounts and call.caller.may("iam.serviceAccounts.actAs")
        ),
        bucket_location=storage.location,
        has_persistent_resource=lambda name: (call.owner.id, region, name) in vertex.persistent_resources,
    )


def _ask(spec: Record) -> Ask:
    scheduling = spec.scheduling
    strategy = scheduling.strategy
    return Ask(
        replicas=tuple(
            f"workerpool{at}-{index}"
            for at, pool in enumerate(spec.worker_pool_specs)
            for index in range(pool.replica_count)
        ),
        spot=strategy in (machines.SPOT, machines.LOW_COST),
        flex_start=strategy == machines.FLEX_START,
        timeout_s=scheduling.timeout or None,
        max_wait_s=scheduling.max_wait_duration if scheduling.has("max_wait_duration") else None,
        restart_job_on_worker_restart=scheduling.restart_job_on_worker_restart,
        disable_retries=scheduling.disable_retries,
    )


def _machines(spec: Record) -> dict[str, int]:
    found: dict[str, int] = {}
    if not spec.persistent_resource_id:
        for pool in spec.worker_pool_specs:
            kind = pool.machine_spec.machine_type
            if kind:
                found[kind] = found.get(kind, 0) + pool.replica_count
    return found


def _refusal(error: InvalidJobError) -> ApiError:
    if error.precondition:
        return _precondition(error.message)
    details = bad_request(error.fields).details if error.fields else ()
    return ApiError(400, error.message, details=details)


def _precondition(message: str) -> ApiError:
    return ApiError(400, message, canonical="FAILED_PRECONDITION")
