"""Checks of a Google Cloud project that its services share: APIs, permissions, bucket, account, image."""

from __future__ import annotations

import csv
import enum
from collections.abc import Iterator, Sequence
from functools import cache, partial
from typing import Any

import attrs

from gputrain.catalog import Service, Shape, image_faults, load
from gputrain.doctor.report import Check, Checks, Probe, code, failed, ok, run_checks, unknown
from gputrain.errors import PermissionDeniedError, ProviderError, RequestError
from gputrain.google import Api, GoogleClient, MissingError
from gputrain.google.forms import Json, mappings, texts
from gputrain.google.registry import ImageName, find_digest, read_architectures
from gputrain.google.storage import BucketPrefix, check_bucket
from gputrain.retry import PATIENT
from gputrain.spec import TrainingSpec


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


@attrs.frozen
class NeededApi:
    """One API that jobs need."""

    name: str
    """Such as ``compute.googleapis.com``."""
    purpose: str
    is_optional: bool = attrs.field(default=False, kw_only=True)
    """True where jobs run without it, and something stays unknown."""


_QUOTAS = NeededApi("cloudquotas.googleapis.com", "read the quotas of H100 and newer", is_optional=True)
_SECRETS = NeededApi("secretmanager.googleapis.com", "resolve the spec's secrets")
_STORAGE = NeededApi("storage.googleapis.com", "bring the code to them")


def check_project(
    backend: str,
    client: GoogleClient,
    *,
    of: Sequence[NeededApi],
    needed: Sequence[Permission],
    home: BucketPrefix | None,
    region: str,
    runs_as: str,
    spec: TrainingSpec | None,
    more: Sequence[Probe],
) -> Checks:
    """Check all that a job of one service needs, side by side, once credentials and project are in order.

    Args:
        of: the APIs of the service.
        needed: the permissions.
        home: the bucket, which must lie in ``region``.
        runs_as: the service account; empty where the service has its own.
        spec: whose code and secrets are checked as well.
        more: what only this service checks.
    """
    secrets = (_SECRETS,) if spec is not None and spec.secrets else ()
    name = home.name if home is not None else ""
    about = f"bucket gs://{name}" if name else "bucket"
    things = [
        apis(client, (*of, _STORAGE, _QUOTAS, *secrets)),
        *permissions(client, (*needed, *needs("quotas")), bucket=name, account=runs_as),
        Probe(subject=about, run=partial(_bucket, client, home, region)),
        *code(spec, installed=False),
        *more,
    ]
    if runs_as:
        things.append(Probe(subject=f"service account {runs_as}", run=partial(_account, client, runs_as)))
    first = Probe(subject="credentials", run=partial(_credentials, client), is_needed=True)
    second = Probe(subject=f"project {client.project}", run=partial(_project, client))
    return run_checks(backend, (first,), (second,), things)


def _credentials(client: GoogleClient) -> Iterator[Check]:
    client.token(policy=PATIENT)
    yield ok(client.member)


def _project(client: GoogleClient) -> Iterator[Check]:
    """Whether the project is there and alive."""
    name = client.project
    try:
        action = f"look at the project {name}"
        found = call(client, "GET", Api.RESOURCEMANAGER, f"/v3/projects/{name}", action=action)
        if found.get("state") == "ACTIVE":
            yield ok(str(found.get("name", "")))
        else:
            yield failed(f"it is {found.get('state', '')}", f"gcloud projects undelete {name}")
    except (PermissionDeniedError, MissingError) as error:
        # Google gives the same answer for a project that does not exist and for one that may not be seen, but
        # a caller with any permission in a project may test permissions there
        try:
            held_permissions(client, On.PROJECT, name, ["resourcemanager.projects.get"])
            yield ok(f"it is there; more may not be seen: {error.why}")
        except (PermissionDeniedError, MissingError):
            why = "there is no such project, or these credentials have no part in it"
            yield failed(why, "gcloud projects list")


def apis(client: GoogleClient, needed: Sequence[NeededApi]) -> Probe:
    """Whether the APIs are on; one check each."""

    def run() -> Iterator[Check]:
        parent = f"projects/{client.project}/services"
        body = call(
            client, "GET", Api.SERVICEUSAGE, f"/v1/{parent}:batchGet", action="see which APIs are on",
            params={"names": [f"{parent}/{one.name}" for one in needed]},
        )  # fmt: skip
        listed = mappings(body.get("services"))
        states = {str(one.get("name", "")).rpartition("/")[2]: one.get("state") for one in listed}
        for one in needed:
            state = states.get(one.name)
            if state == "ENABLED":
                yield ok("on", group="APIs on", subject=one.name)
            elif state != "DISABLED":
                yield unknown("Google does not say whether it is on", subject=one.name)
            else:
                why = f"it is off; it is needed to {one.purpose}"
                fix = f"gcloud services enable {one.name} --project {client.project}"
                yield failed(why, fix, subject=one.name, is_certain=not one.is_optional)

    return Probe(subject="APIs", run=run)


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


def find(client: GoogleClient, path: str) -> Json | None:
    """A resource of Compute Engine by its path, or None where it is not there."""
    try:
        return call(client, "GET", Api.COMPUTE, f"/compute/v1/{path}", action=f"look at {path}")
    except MissingError:
        return None


def exists(client: GoogleClient, path: str, fix: str, *, where: str = "") -> Probe:
    """Whether a network of Compute Engine exists, by its path; and what to do where it does not."""

    def run() -> Iterator[Check]:
        is_gone = find(client, path) is None
        group = "networks and subnetworks"
        yield failed(f"there is no {path}", fix) if is_gone else ok("there", group=group)

    kind = "subnetwork" if "/subnetworks/" in path else "network"
    return Probe(subject=f"{kind} {path.rpartition('/')[2]}{where}", run=run)


def _bucket(client: GoogleClient, home: BucketPrefix | None, region: str) -> Iterator[Check]:
    """Whether the bucket is there, ours, and in the region."""
    if home is None:
        why = "none is named; a job's code is uploaded to one"
        fix = f"gcloud storage buckets create gs://NAME --project {client.project} --location {region}"
        yield failed(why, fix)
        return
    try:
        check_bucket(client, home, region, policy=PATIENT)
        yield ok(f"ours, in {region}" if region else "ours")
    except (PermissionDeniedError, RequestError) as error:
        if getattr(error, "permission", "") == "storage.buckets.list":  # we may not see whose it is
            raise
        why = "it is not there" if isinstance(error, MissingError) else f"{error.what}: {error.why}"
        yield failed(why, error.fix)


def _account(client: GoogleClient, email: str) -> Iterator[Check]:
    """Whether the service account that jobs run as is there and switched on."""
    owner = owner_of(email, client.project)
    path = f"/v1/projects/{owner}/serviceAccounts/{email}"
    try:
        found = call(client, "GET", Api.IAM, path, action=f"look at {email}")
    except MissingError as error:
        fix = f"gcloud iam service-accounts create {email.partition('@')[0]} --project {owner}"
        yield failed(error.why, fix)
        return
    fix = f"gcloud iam service-accounts enable {email} --project {owner}"
    yield failed("it is switched off", fix) if found.get("disabled") else ok("there, and switched on")


def image(client: GoogleClient, name: str, shapes: Sequence[Shape], *, service: Service) -> tuple[Probe, ...]:
    """Whether a container image can run on each of the shapes, and is in its registry.

    The CUDA release is read from the image's name, the CPU architectures from its manifest where it lists
    platforms. Only Google's registries are asked: no token of yours goes to another.
    """
    return (
        Probe(subject=f"image {name}", run=lambda: _fits(name, shapes, service)),
        Probe(subject=in_registry(name), run=lambda: _is_there(client, name, shapes)),
    )


def in_registry(name: str) -> str:
    """What the check is about that looks for an image."""
    return f"image {name} in its registry"


def _fits(name: str, shapes: Sequence[Shape], service: Service) -> Iterator[Check]:
    faults = dict.fromkeys(one for shape in shapes for one in image_faults(name, shape, service=service))
    for one in faults:
        fix = one.fix[:1].lower() + one.fix[1:]
        yield failed(f"{one.what}: {one.why}", fix, is_certain=one.is_certain)
    if shapes and not faults:
        kinds = ", ".join(dict.fromkeys(shape.gpu.kind for shape in shapes))
        yield ok(f"nothing in its name speaks against {kinds}")


def _is_there(client: GoogleClient, name: str, shapes: Sequence[Shape]) -> Iterator[Check]:
    parsed = ImageName.parse(name)
    if parsed is None:
        why = "not asked for: it is in no registry of Google's, and no token of yours goes to another"
        yield unknown(why)
        return
    try:
        digest = find_digest(client, parsed, policy=PATIENT)
    except MissingError:
        fix = f"gcloud artifacts docker images list {parsed.host}/{parsed.path} --include-tags"
        yield failed(f"{parsed.host} has no such image", fix)
        return
    if digest is None:
        yield unknown("these endpoints have no registry")
        return
    yield ok(digest)
    yield from _built_for(name, read_architectures(client, parsed), shapes)


def _built_for(name: str, built: frozenset[str], shapes: Sequence[Shape]) -> Iterator[Check]:
    wanted = dict.fromkeys(shape.machine.cpu_architecture for shape in shapes)
    for host in (one for one in wanted if built and one not in built):
        platform = f"linux/{host.replace('x86_64', 'amd64')}"
        yield failed(
            f"it is built for {', '.join(sorted(built))}, and the host's CPU is {host}",
            f"docker buildx build --platform {platform} --push --tag {name} .",
            subject=f"image {name}",
        )
