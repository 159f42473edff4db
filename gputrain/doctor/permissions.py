"""Permissions: what each call needs, and which of them the caller has."""

from __future__ import annotations

import csv
import enum
from collections.abc import Iterator, Sequence
from functools import cache
from typing import Any

import attrs

from gputrain.catalog import load
from gputrain.doctor.report import Check, Probe, failed, ok
from gputrain.errors import ProviderError
from gputrain.google import Api, GoogleClient, MissingError
from gputrain.google.forms import Json, texts
from gputrain.retry import PATIENT


class On(enum.Enum):
    """What a permission is granted on, and so where it is tested."""

    PROJECT = "project"
    BUCKET = "bucket"
    ACCOUNT = "service account"


@attrs.frozen
class Permission:
    """One permission, and the call that needs it."""

    name: str
    purpose: str
    """In a few words: ``make the VMs``."""
    role: str
    """A predefined role that holds it."""
    on: On = attrs.field(default=On.PROJECT, kw_only=True)
    is_optional: bool = attrs.field(default=False, kw_only=True)
    """True where jobs run without it, and something stays unknown."""
    only_with: str = attrs.field(default="", kw_only=True)
    """The setting without which it is not needed."""


@cache
def _table() -> tuple[tuple[str, Permission], ...]:
    rows = csv.DictReader(load.data(__package__, "permissions.csv").splitlines())
    return tuple((row["of"], Permission(**load.cells(Permission, row))) for row in rows)


def needs(*parts: str) -> tuple[Permission, ...]:
    """The permissions in some parts of the table; a test takes each one away that is needed always.

    Source of the roles: Google's IAM reference by general knowledge, not re-read; of queued VM groups: IAM
    pages of groups and templates, read 2026-11-22.
    """
    return tuple(one for part in parts for of, one in _table() if of == part)


def permissions(
    client: GoogleClient, needed: Sequence[Permission], *, bucket: str = "", account: str = ""
) -> tuple[Probe, ...]:
    """One probe for each resource that permissions are granted on, which gives one check a permission.

    Permissions of a custom role count as those of a predefined one. One that is granted under an IAM
    condition may be reported as missing.

    Args:
        needed: which permissions.
        bucket: name of the bucket; without one its permissions are not tested.
        account: e-mail of the service account, likewise.
    """
    names = {On.PROJECT: client.project, On.BUCKET: bucket, On.ACCOUNT: account}

    def probe(on: On, name: str) -> Probe:
        here = [one for one in needed if one.on is on]

        def run() -> Iterator[Check]:
            try:
                held = held_permissions(client, on, name, [one.name for one in here])
            except MissingError:
                return  # a bucket or an account that is not there has a check of its own
            for one in here:
                yield _check(client, one, name, one.name in held)

        return Probe(subject=f"permissions on {on.value} {name}", run=run)

    used = {one.on for one in needed}
    return tuple(probe(on, name) for on, name in names.items() if name and on in used)


def held_permissions(client: GoogleClient, on: On, name: str, wanted: Sequence[str]) -> frozenset[str]:
    """Those of the permissions that the caller has on a resource."""
    names, owner = {"permissions": list(wanted)}, owner_of(name, client.project)
    method, api, path = {
        On.PROJECT: ("POST", Api.RESOURCEMANAGER, f"/v3/projects/{name}:testIamPermissions"),
        On.BUCKET: ("GET", Api.STORAGE, f"/storage/v1/b/{name}/iam/testPermissions"),
        On.ACCOUNT: ("POST", Api.IAM, f"/v1/projects/{owner}/serviceAccounts/{name}:testIamPermissions"),
    }[on]
    asked = {"params" if on is On.BUCKET else "json": names}
    body = call(client, method, api, path, action=f"test permissions on {on.value} {name}", **asked)
    return frozenset(texts(body.get("permissions")))


def _check(client: GoogleClient, needed: Permission, name: str, is_held: bool) -> Check:
    if is_held:
        return ok(needed.purpose, group="permissions held", subject=needed.name)
    grant = {
        On.PROJECT: f"projects add-iam-policy-binding {name}",
        On.BUCKET: f"storage buckets add-iam-policy-binding gs://{name}",
        On.ACCOUNT: f"iam service-accounts add-iam-policy-binding {name}"
        f" --project {owner_of(name, client.project)}",
    }[needed.on]
    why = f"missing on {needed.on.value} {name}; it is needed to {needed.purpose}"
    fix = f"gcloud {grant} --member {client.member} --role {needed.role}"
    return failed(why, fix, subject=needed.name, is_certain=not needed.is_optional)


def owner_of(account: str, project: str) -> str:
    """The project that a service account belongs to, by its e-mail; ``project`` where that does not say."""
    name, _, rest = account.partition("@")[2].partition(".")
    return name if rest == "iam.gserviceaccount.com" else project


def call(client: GoogleClient, method: str, api: Api, path: str, *, action: str, **options: Any) -> Json:
    """One patient call of an API that changes nothing; ProviderError where these endpoints have none."""
    base = client.url(api)
    if not base:
        raise ProviderError(f"could not {action}", why=f"these endpoints have no {api.value}")
    return client.request_json(method, base + path, action=action, policy=PATIENT, **options)
