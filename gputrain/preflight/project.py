"""Who calls, for which project, and which of its APIs are on."""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from typing import Any

import attrs

from gputrain.errors import PermissionDeniedError, ProviderError
from gputrain.gcp import Access, Api, MissingError
from gputrain.gcp.forms import mappings, texts
from gputrain.preflight.checks import Check, Finding
from gputrain.preflight.examine import PATIENCE, Question

Json = dict[str, Any]


@attrs.frozen(kw_only=True)
class NeededApi:
    """One API that jobs need."""

    name: str
    """Such as ``compute.googleapis.com``."""
    purpose: str
    is_optional: bool = False
    """True where jobs run without it, and something stays unknown."""


CLOUD_QUOTAS = NeededApi(
    name="cloudquotas.googleapis.com", purpose="tell the quotas of H100 and newer", is_optional=True
)


def read(access: Access, api: Api, path: str, *, action: str, **options: Any) -> Json:
    """One patient GET of an API.

    Raises:
        ProviderError: these endpoints have no such API.
        GputrainError: as the API answers.
    """
    return _call(access, "GET", api, path, action=action, **options)


def held_permissions(
    access: Access, api: Api, path: str, permissions: Sequence[str], *, action: str
) -> frozenset[str]:
    """Those of the permissions that we have, by an API's ``testIamPermissions``."""
    body = _call(access, "POST", api, path, action=action, json={"permissions": list(permissions)})
    return frozenset(texts(body.get("permissions")))


def credentials(access: Access) -> Question:
    """Whether there are credentials, and a token can be had for them."""

    def ask() -> Iterator[Check]:
        who = access.sign_in(policy=PATIENCE)
        yield Check(subject="credentials", finding=Finding.OK, why=who)

    return Question(subject="credentials", ask=ask)


def project(access: Access) -> Question:
    """Whether the project is there and alive."""
    name, subject = access.project, f"project {access.project}"

    def ask() -> Iterator[Check]:
        action = f"look at the project {name}"
        try:
            found = read(access, Api.RESOURCEMANAGER, f"/v3/projects/{name}", action=action)
        except (PermissionDeniedError, MissingError) as error:
            yield _unseen(access, subject, error)
            return
        state = str(found.get("state", ""))
        if state == "ACTIVE":
            yield Check(subject=subject, finding=Finding.OK, why=str(found.get("name", "")))
        else:
            fix = f"gcloud projects undelete {name}"
            yield Check(subject=subject, finding=Finding.FAULT, why=f"it is {state}", fix=fix)

    return Question(subject=subject, ask=ask)


def _unseen(access: Access, subject: str, refusal: PermissionDeniedError | MissingError) -> Check:
    """Google answers alike for a project that is not there and for one that may not be seen; but whoever has
    any permission in a project may ask which ones.
    """
    path = f"/v3/projects/{access.project}:testIamPermissions"
    asked = ("resourcemanager.projects.get",)
    try:
        held_permissions(access, Api.RESOURCEMANAGER, path, asked, action="test a permission")
    except (PermissionDeniedError, MissingError):
        return Check(
            subject=subject,
            finding=Finding.FAULT,
            why="there is no such project, or these credentials have no part in it",
            fix="gcloud projects list",
        )
    return Check(subject=subject, finding=Finding.OK, why=f"it is there; more may not be seen: {refusal.why}")


def apis(access: Access, needed: Sequence[NeededApi]) -> Question:
    """Whether the APIs are on; one check each."""

    def ask() -> Iterator[Check]:
        parent = f"projects/{access.project}/services"
        names = [f"{parent}/{one.name}" for one in needed]
        action = "see which APIs are on"
        body = read(
            access, Api.SERVICEUSAGE, f"/v1/{parent}:batchGet", action=action, params={"names": names}
        )
        told = mappings(body.get("services"))
        states = {str(one.get("name", "")).rpartition("/")[2]: one.get("state") for one in told}
        for one in needed:
            yield _api_check(access.project, one, states.get(one.name))

    return Question(subject="APIs", ask=ask)


def _api_check(project: str, needed: NeededApi, state: object) -> Check:
    if state == "ENABLED":
        return Check(subject=needed.name, finding=Finding.OK, why="on", group="APIs on")
    if state != "DISABLED":
        return Check(subject=needed.name, finding=Finding.UNKNOWN, why="whether it is on is not told")
    return Check(
        subject=needed.name,
        finding=Finding.UNKNOWN if needed.is_optional else Finding.FAULT,
        why=f"it is off; it is needed to {needed.purpose}",
        fix=f"gcloud services enable {needed.name} --project {project}",
    )


def _call(access: Access, method: str, api: Api, path: str, *, action: str, **options: Any) -> Json:
    base = access.url(api)
    if not base:
        raise ProviderError(f"could not {action}", why=f"these endpoints have no {api.value}")
    return access.document(method, base + path, action=action, policy=PATIENCE, **options)
