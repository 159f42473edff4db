"""Service Usage v1: which APIs of a project are on."""

from __future__ import annotations

import functools
from typing import Any

from gputrain_emulator import tables
from gputrain_emulator.call import Call
from gputrain_emulator.errors import ApiError, Style, error_info
from gputrain_emulator.routes import Service
from gputrain_emulator.shapes import integer, read
from gputrain_emulator.world import TITLES, Project, World, unknown_project

MAX_BATCH = 30  # services.batchGet and batchEnable take this many names (serviceusage v1 discovery document)


@functools.cache
def known() -> tuple[str, ...]:
    """Every API that can be switched on."""
    return tuple(row[0] for row in tables.rows("services.tsv"))


SERVICE = Service(name="serviceusage", style=Style.PLATFORM)


@SERVICE.route(
    "GET",
    "/v1/projects/{project}/services/{service}",
    "serviceusage.services.get",
    query=frozenset(),
)
def get(call: Call) -> dict[str, Any]:
    return _service(call.owner, call.params["service"], whole=True)


@SERVICE.route(
    "GET",
    "/v1/projects/{project}/services",
    "serviceusage.services.list",
    query=frozenset({"filter", "pageSize", "pageToken"}),
)
def list_services(call: Call) -> dict[str, Any]:
    wanted = call.query.get("filter", "")
    if wanted not in ("", "state:ENABLED", "state:DISABLED"):
        raise ApiError(400, f"Invalid filter: {wanted}")
    found = [_service(call.owner, f"{name}.googleapis.com") for name in known()]
    found = [one for one in found if not wanted or one["state"] == wanted.partition(":")[2]]
    start = integer({"pageToken": call.query.get("pageToken", "")}, "pageToken", 0)
    size = min(integer(call.query, "pageSize", 50) or 50, 200)
    rest = {"nextPageToken": str(start + size)} if start + size < len(found) else {}
    return {"services": found[start : start + size], **rest}


@SERVICE.route(
    "GET",
    "/v1/projects/{project}/services:batchGet",
    "serviceusage.services.batchGet",
    permission="serviceusage.services.get",
    query=frozenset({"names"}),
)
def batch_get(call: Call) -> dict[str, Any]:
    names = call.query_all.get("names", [])
    if not 1 <= len(names) <= MAX_BATCH:
        raise ApiError(400, f"Between 1 and {MAX_BATCH} names are needed, got {len(names)}.")
    return {"services": [_service(_owner_of(call, name), name.rpartition("/")[2]) for name in names]}


@SERVICE.route(
    "POST",
    "/v1/projects/{project}/services/{service}:enable",
    "serviceusage.services.enable",
    query=frozenset(),
)
def enable(call: Call) -> dict[str, Any]:
    return _switched(call, [call.params["service"]], on=True)


@SERVICE.route(
    "POST",
    "/v1/projects/{project}/services:batchEnable",
    "serviceusage.services.batchEnable",
    permission="serviceusage.services.enable",
    query=frozenset(),
)
def batch_enable(call: Call) -> dict[str, Any]:
    asked = read({"serviceIds": [str]}, call.raw_body).get("serviceIds", [])
    if not 1 <= len(asked) <= MAX_BATCH:
        raise ApiError(400, f"Between 1 and {MAX_BATCH} service ids are needed, got {len(asked)}.")
    return _switched(call, asked, on=True, is_batch=True)


@SERVICE.route(
    "GET", "/v1/operations/{operation}", "serviceusage.operations.get", permission="-", query=frozenset()
)
def get_operation(call: Call) -> dict[str, Any]:
    found = call.world.part(Operations).kept.get(f"operations/{call.params['operation']}")
    if found is None:
        raise ApiError(404, f"Operation operations/{call.params['operation']} is not found.")
    return found


@SERVICE.route(
    "POST",
    "/v1/projects/{project}/services/{service}:disable",
    "serviceusage.services.disable",
    query=frozenset(),
)
def disable(call: Call) -> dict[str, Any]:
    return _switched(call, [call.params["service"]], on=False)


class Operations:
    """What was switched, as operations tell it."""

    def __init__(self, _: World) -> None:
        self.kept: dict[str, dict[str, Any]] = {}


def _switched(call: Call, hosts: list[str], *, on: bool, is_batch: bool = False) -> dict[str, Any]:
    shorts = [_short(call.owner, host) for host in hosts]
    word = "Enable" if on else "Disable"
    for short in shorts:
        (call.owner.apis.add if on else call.owner.apis.discard)(short)
        target = f"projects/{call.owner.id}/services/{short}"
        call.world.ledger.write(word.lower(), target, caller=call.caller.email)
    told = [_service(call.owner, host) for host in hosts]
    response = f"{'BatchEnable' if is_batch else word}Service{'s' if is_batch else ''}Response"
    operation: dict[str, Any] = {
        "name": f"operations/acf.p2-{call.owner.number}-{call.world.new_id()}",
        "metadata": {
            "@type": "type.googleapis.com/google.api.serviceusage.v1.OperationMetadata",
            "resourceNames": [f"projects/{call.owner.number}/services/{host}" for host in hosts],
        },
        "done": True,
        "response": {
            "@type": f"type.googleapis.com/google.api.serviceusage.v1.{response}",
            **({"services": told} if is_batch else {"service": told[0]}),
        },
    }
    call.world.part(Operations).kept[operation["name"]] = operation
    return operation


def _owner_of(call: Call, name: str) -> Project:
    parts = name.split("/")
    if len(parts) != 4 or parts[0] != "projects" or parts[2] != "services":
        raise ApiError(400, f"Invalid service name: {name}")
    found = call.world.find_project(parts[1])
    if found is None:
        raise unknown_project(parts[1], Style.PLATFORM)
    if found is not call.owner:
        raise ApiError(400, "All services must belong to the parent of the request.")
    return found


def _service(project: Project, host: str, *, whole: bool = False) -> dict[str, Any]:
    short = _short(project, host)
    config: dict[str, Any] = {"name": host, "title": TITLES.get(short, f"{short} API")}
    if whole:
        config["documentation"] = {"summary": f"{config['title']} of the emulated cloud."}
    return {
        "name": f"projects/{project.number}/services/{host}",
        "config": config,
        "state": "ENABLED" if short in project.apis else "DISABLED",
        "parent": f"projects/{project.number}",
    }


def _short(project: Project, host: str) -> str:
    short = host.removesuffix(".googleapis.com")
    if not host.endswith(".googleapis.com") or (short not in known() and short not in project.apis):
        reason = "SERVICE_CONFIG_NOT_FOUND_OR_PERMISSION_DENIED"
        detail = error_info(reason, "serviceusage.googleapis.com", services=host)
        raise ApiError(403, f"Not found or permission denied for service(s): {host}.", details=[detail])
    return short


SERVICES = (SERVICE,)
