"""Service Usage v1: which APIs of a project are on."""

from __future__ import annotations

import re
from typing import Any

from gputrain_emulator.call import Call, numbered
from gputrain_emulator.errors import ApiError, Style, error_info
from gputrain_emulator.routes import Service
from gputrain_emulator.world import DEFAULT_APIS, TITLES, Project

MAX_BATCH = 30  # services.batchGet takes this many names (serviceusage v1 discovery document)


KNOWN = sorted((*DEFAULT_APIS, "artifactregistry", "cloudbuild", "secretmanager"))
"""The APIs that can be switched on: those that are served."""


SERVICE = Service(name="serviceusage", style=Style.PLATFORM)


@SERVICE.route("GET", "/v1/projects/{project}/services/{service}", "serviceusage.services.get")
def get(call: Call) -> dict[str, Any]:
    return _service(call.owner, call.params["service"])


@SERVICE.route(
    "GET",
    "/v1/projects/{project}/services",
    "serviceusage.services.list",
    query="filter:string page_size:int32 page_token:string",
)
def list_services(call: Call) -> dict[str, Any]:
    wanted = call.query.get("filter", "")
    if wanted not in ("", "state:ENABLED", "state:DISABLED"):
        raise ApiError(400, f"Invalid filter: {wanted}")
    found = [_service(call.owner, f"{name}.googleapis.com") for name in KNOWN]
    found = [one for one in found if not wanted or one["state"] == wanted.partition(":")[2]]
    return numbered(call, "services", found, default=50, most=200)


@SERVICE.route(
    "GET",
    "/v1/projects/{project}/services:batchGet",
    "serviceusage.services.batchGet",
    permission="serviceusage.services.get",
    query="names:*string",
)
def batch_get(call: Call) -> dict[str, Any]:
    names = call.query.get("names", [])
    if not 1 <= len(names) <= MAX_BATCH:
        raise ApiError(400, f"Between 1 and {MAX_BATCH} names are needed, got {len(names)}.")
    found = [re.fullmatch(r"projects/([^/]+)/services/([^/]+)", name) for name in names]
    if any(one is None or call.world.find_project(one[1]) is not call.owner for one in found):
        raise ApiError(400, "All names must be services of the parent of the request.")
    return {"services": [_service(call.owner, one[2]) for one in found if one]}


@SERVICE.route("POST", "/v1/projects/{project}/services/{service}:enable", "serviceusage.services.enable")
def enable(call: Call) -> dict[str, Any]:
    """Switch an API on; the operation is done at once."""
    host, number = call.params["service"], call.owner.number
    short = _short(call.owner, host)
    call.owner.apis.add(short)
    call.world.ledger.write("enable", f"projects/{call.owner.id}/services/{short}", caller=call.caller.email)
    types = "type.googleapis.com/google.api.serviceusage.v1"
    return {
        "name": f"operations/acf.p2-{number}-{call.world.new_id()}",
        "metadata": {
            "@type": f"{types}.OperationMetadata",
            "resourceNames": [f"projects/{number}/services/{host}"],
        },
        "done": True,
        "response": {"@type": f"{types}.EnableServiceResponse", "service": _service(call.owner, host)},
    }


def _service(project: Project, host: str) -> dict[str, Any]:
    short = _short(project, host)
    return {
        "name": f"projects/{project.number}/services/{host}",
        "config": {"name": host, "title": TITLES.get(short, f"{short} API")},
        "state": "ENABLED" if short in project.apis else "DISABLED",
        "parent": f"projects/{project.number}",
    }


def _short(project: Project, host: str) -> str:
    short = host.removesuffix(".googleapis.com")
    if not host.endswith(".googleapis.com") or (short not in KNOWN and short not in project.apis):
        reason = "SERVICE_CONFIG_NOT_FOUND_OR_PERMISSION_DENIED"
        detail = error_info(reason, "serviceusage.googleapis.com", services=host)
        raise ApiError(403, f"Not found or permission denied for service(s): {host}.", details=[detail])
    return short


SERVICES = (SERVICE,)
