"""Projects, service accounts and secrets, as far as doctor and a container read them.

Resource Manager v1 and v3 `projects.get` and `testIamPermissions`, IAM v1 `serviceAccounts`, Secret Manager
v1 `versions.access`.
"""

from __future__ import annotations

import base64
import re
import zlib
from typing import Any

from google_crc32c import value as crc32c

from gputrain_emulator.call import Call
from gputrain_emulator.clock import EPOCH, zulu_time
from gputrain_emulator.errors import ApiError, Style, error_info
from gputrain_emulator.routes import Service
from gputrain_emulator.world import Accounts, Project, api_disabled, unknown_project

MAX_PERMISSIONS = 100
_TEST = "iam.TestIamPermissionsRequest"
_GET = "resourcemanager.projects.get"
_CREATED = zulu_time(EPOCH - 90 * 24 * 3600)

RESOURCE_MANAGER = Service(name="cloudresourcemanager", style=Style.PLATFORM)
IAM = Service(name="iam", style=Style.PLATFORM)
SECRETS = Service(name="secretmanager", style=Style.PLATFORM)


@RESOURCE_MANAGER.route("GET", "/v1/projects/{project}", "cloudresourcemanager.projects.get", permission=_GET)
def get_v1(call: Call) -> dict[str, Any]:
    project = call.owner
    names = {"projectNumber": project.number, "projectId": project.id, "name": project.id}
    return {**names, "lifecycleState": "ACTIVE", "createTime": _CREATED}


@RESOURCE_MANAGER.route(
    "GET", "/v3/projects/{project}", "cloudresourcemanager.projects.get.v3", permission=_GET
)
def get_v3(call: Call) -> dict[str, Any]:
    project = call.owner
    names = {"name": f"projects/{project.number}", "projectId": project.id, "displayName": project.id}
    return {**names, "state": "ACTIVE", "createTime": _CREATED, "etag": 'W/"1"'}


@RESOURCE_MANAGER.route(
    "POST", "/v1/projects/{project}:testIamPermissions",
    "cloudresourcemanager.projects.testIamPermissions", permission="-", body=_TEST,
)  # fmt: skip
@RESOURCE_MANAGER.route(
    "POST", "/v3/projects/{project}:testIamPermissions",
    "cloudresourcemanager.projects.testIamPermissions.v3", permission="-", body=_TEST,
)  # fmt: skip
def test_permissions(call: Call) -> Any:
    """Those of the asked ones that the caller has."""
    asked = call.body.get("permissions", [])
    if not asked or len(asked) > MAX_PERMISSIONS:
        raise ApiError(400, f"Between 1 and {MAX_PERMISSIONS} permissions are needed, got {len(asked)}.")
    for permission in asked:
        if not re.fullmatch(r"[A-Za-z0-9-]+(\.[A-Za-z0-9_-]+){2,}", permission):
            raise ApiError(400, f"Permission {permission} is not valid.")
    held = [permission for permission in asked if call.caller.may(permission)]
    return {"permissions": held} if held else {}


@IAM.route("GET", "/v1/projects/{owner}/serviceAccounts/{account}", "iam.serviceAccounts.get")
def get_account(call: Call) -> dict[str, Any]:
    email, project = _account(call)
    unique = str(10**20 + zlib.crc32(email.encode()))
    return {
        "name": f"projects/{project.id}/serviceAccounts/{email}",
        "projectId": project.id,
        "uniqueId": unique,
        "email": email,
        "displayName": email.partition("@")[0],
        "etag": base64.b64encode(unique.encode()).decode(),
        "oauth2ClientId": unique,
        **({"disabled": True} if email in call.world.part(Accounts).disabled else {}),
    }


@IAM.route(
    "POST", "/v1/projects/{owner}/serviceAccounts/{account}:testIamPermissions",
    "iam.serviceAccounts.testIamPermissions", permission="-", body=_TEST,
)  # fmt: skip
def test_account(call: Call) -> Any:
    _account(call)
    return test_permissions(call)


@SECRETS.route(
    "GET",
    "/v1/projects/{project}/secrets/{secret}/versions/{version}:access",
    "secretmanager.versions.access",
)
def access_secret(call: Call) -> dict[str, Any]:
    project, secret, version = call.owner, call.params["secret"], call.params["version"]
    versions = call.world.part(Accounts).secrets.get((project.id, secret), [])
    number = str(len(versions)) if version == "latest" else version
    if not re.fullmatch("[0-9]{1,9}", number) or not 1 <= int(number) <= len(versions):
        name = f"projects/{project.number}/secrets/{secret}/versions/{version}"
        raise ApiError(404, f"Secret Version [{name}] not found.")
    data = versions[int(number) - 1]
    return {
        "name": f"projects/{project.number}/secrets/{secret}/versions/{number}",
        "payload": {"data": base64.b64encode(data).decode(), "dataCrc32c": str(crc32c(data))},
    }


def _account(call: Call) -> tuple[str, Project]:
    """The account that the path names, and its project: ``-`` leaves that to the e-mail."""
    email, name = call.params["account"], call.params["owner"]
    project = call.world.find_project(email.partition("@")[2].partition(".")[0] if name == "-" else name)
    if project is None:
        raise unknown_project(name, Style.PLATFORM)
    if "iam" not in project.apis:
        raise api_disabled("iam", project, Style.PLATFORM)
    if email in call.world.part(Accounts).missing or "@" not in email:
        full = f"projects/{project.id}/serviceAccounts/{email}"
        detail = error_info("ACCOUNT_NOT_FOUND", "iam.googleapis.com", resource=full)
        raise ApiError(404, f"Unknown service account: {email}", details=[detail])
    return email, project


SERVICES = (RESOURCE_MANAGER, IAM, SECRETS)
