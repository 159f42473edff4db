"""Whether we have every permission that a job's calls need."""

from __future__ import annotations

import enum
from collections.abc import Iterator, Sequence

import attrs

from gputrain.gcp import Access, Api
from gputrain.gcp.forms import texts
from gputrain.preflight.checks import Check, Finding
from gputrain.preflight.examine import Question
from gputrain.preflight.project import held_permissions, read


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


def role_file(needs: Sequence[Need], title: str) -> str:
    """What is granted on a project, for ``gcloud iam roles create NAME --project P --file``."""
    held = sorted(one.permission for one in needs if one.on is On.PROJECT and not one.only_with)
    return "\n".join(
        [f"title: {title}", "stage: GA", "includedPermissions:", *(f"- {one}" for one in held), ""]
    )


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
    path = f"/storage/v1/b/{name}/iam/testPermissions"
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
        group = "permissions held"
        return Check(subject=need.permission, finding=Finding.OK, why=need.call, group=group)
    who = access.member
    match need.on:
        case On.PROJECT:
            grant = f"gcloud projects add-iam-policy-binding {name}"
        case On.BUCKET:
            grant = f"gcloud storage buckets add-iam-policy-binding gs://{name}"
        case On.ACCOUNT:
            owner = owner_of(name, access.project)
            grant = f"gcloud iam service-accounts add-iam-policy-binding {name} --project {owner}"
    return Check(
        subject=need.permission,
        finding=Finding.UNKNOWN if need.is_optional else Finding.FAULT,
        why=f"you lack it on {need.on.value} {name}; it is needed to {need.call}",
        fix=f"{grant} --member {who} --role {need.role}",
    )
