"""Who calls, for which project, which of its APIs are on, and whether we have every permission."""

from __future__ import annotations

import enum
from collections.abc import Iterator, Sequence
from typing import Any

import attrs

from gputrain.errors import PermissionDeniedError, ProviderError
from gputrain.gcp import Access, Api, MissingError
from gputrain.gcp.buckets import BUCKETS
from gputrain.gcp.forms import Json, mappings, texts
from gputrain.preflight.checks import Check, Question, fault, fine, unknown
from gputrain.retry import PATIENT


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
    return Question(
        subject="credentials", ask=lambda: (fine(access.sign_in(policy=PATIENT)),), is_needed=True
    )


def project(access: Access) -> Question:
    """Whether the project is there and alive."""
    name = access.project

    def ask() -> Iterator[Check]:
        action = f"look at the project {name}"
        try:
            found = read(access, Api.RESOURCEMANAGER, f"/v3/projects/{name}", action=action)
        except (PermissionDeniedError, MissingError) as error:
            yield _unseen(access, error)
            return
        state = str(found.get("state", ""))
        if state == "ACTIVE":
            yield fine(str(found.get("name", "")))
        else:
            yield fault(f"it is {state}", f"gcloud projects undelete {name}")

    return Question(subject=f"project {name}", ask=ask)


def _unseen(access: Access, refusal: PermissionDeniedError | MissingError) -> Check:
    """Google answers alike for a project that is not there and for one that may not be seen; but whoever has
    any permission in a project may ask which ones.
    """
    path = f"/v3/projects/{access.project}:testIamPermissions"
    asked = ("resourcemanager.projects.get",)
    try:
        held_permissions(access, Api.RESOURCEMANAGER, path, asked, action="test a permission")
    except (PermissionDeniedError, MissingError):
        return fault(
            "there is no such project, or these credentials have no part in it", "gcloud projects list"
        )
    return fine(f"it is there; more may not be seen: {refusal.why}")


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
        return fine("on", group="APIs on", subject=needed.name)
    if state != "DISABLED":
        return unknown("whether it is on is not told", subject=needed.name)
    why, fix = (
        f"it is off; it is needed to {needed.purpose}",
        f"gcloud services enable {needed.name} --project {project}",
    )
    return fault(why, fix, subject=needed.name, is_certain=not needed.is_optional)


def _call(access: Access, method: str, api: Api, path: str, *, action: str, **options: Any) -> Json:
    base = access.url(api)
    if not base:
        raise ProviderError(f"could not {action}", why=f"these endpoints have no {api.value}")
    return access.document(method, base + path, action=action, policy=PATIENT, **options)


class On(enum.Enum):
    """What a permission is granted on, and so where it is asked for."""

    PROJECT = "project"
    BUCKET = "bucket"
    ACCOUNT = "service account"


@attrs.frozen(kw_only=True)
class Need:
    """One permission, and the call that needs it."""

    permission: str
    call: str
    """In a few words: ``make the VMs (instances.insert)``."""
    role: str
    """A predefined role that holds it."""
    on: On = On.PROJECT
    is_optional: bool = False
    """True where jobs run without it, and something stays unknown."""
    only_with: str = ""
    """The setting without which it is not needed."""


def permissions(
    access: Access, needs: Sequence[Need], *, bucket: str = "", account: str = ""
) -> tuple[Question, ...]:
    """One question for each resource that permissions are granted on; each finds one check a permission.

    Permissions of a custom role count as those of a predefined one. One that is granted under an IAM
    condition may be reported as missing.

    Args:
        needs: which permissions.
        bucket: name of the bucket; without one its permissions are not asked for.
        account: e-mail of the service account, likewise.
    """
    names = {On.PROJECT: access.project, On.BUCKET: bucket, On.ACCOUNT: account}
    return tuple(
        _question(access, on, name, [one for one in needs if one.on is on])
        for on, name in names.items()
        if name and any(one.on is on for one in needs)
    )


def _question(access: Access, on: On, name: str, needs: Sequence[Need]) -> Question:
    def ask() -> Iterator[Check]:
        held = _held(access, on, name, [one.permission for one in needs])
        for need in needs:
            yield _check(access, need, name, need.permission in held)

    return Question(subject=f"permissions on {on.value} {name}", ask=ask)


def _held(access: Access, on: On, name: str, wanted: Sequence[str]) -> frozenset[str]:
    action = f"test permissions on {on.value} {name}"
    match on:
        case On.PROJECT:
            path = f"/v3/projects/{name}:testIamPermissions"
            return held_permissions(access, Api.RESOURCEMANAGER, path, wanted, action=action)
        case On.ACCOUNT:
            path = f"/v1/projects/{owner_of(name, access.project)}/serviceAccounts/{name}:testIamPermissions"
            return held_permissions(access, Api.IAM, path, wanted, action=action)
    path = f"{BUCKETS}/{name}/iam/testPermissions"
    body = read(access, Api.STORAGE, path, action=action, params={"permissions": list(wanted)})
    return frozenset(texts(body.get("permissions")))


def owner_of(account: str, project: str) -> str:
    """The project that a service account belongs to, as its e-mail tells; ``project`` where it does not.

    >>> owner_of("train@their-project.iam.gserviceaccount.com", "my-project")
    'their-project'
    """
    domain = account.partition("@")[2]
    name, _, rest = domain.partition(".")
    return name if rest == "iam.gserviceaccount.com" else project


def _check(access: Access, need: Need, name: str, is_held: bool) -> Check:
    if is_held:
        return fine(need.call, group="permissions held", subject=need.permission)
    match need.on:
        case On.PROJECT:
            grant = f"gcloud projects add-iam-policy-binding {name}"
        case On.BUCKET:
            grant = f"gcloud storage buckets add-iam-policy-binding gs://{name}"
        case On.ACCOUNT:
            owner = owner_of(name, access.project)
            grant = f"gcloud iam service-accounts add-iam-policy-binding {name} --project {owner}"
    why = f"you lack it on {need.on.value} {name}; it is needed to {need.call}"
    fix = f"{grant} --member {access.member} --role {need.role}"
    return fault(why, fix, subject=need.permission, is_certain=not need.is_optional)
