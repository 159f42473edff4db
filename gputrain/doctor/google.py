"""Checks of a Google Cloud project that its services share."""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from functools import partial

import attrs

from gputrain.catalog import Service, Shape, image_faults
from gputrain.doctor.permissions import On, Permission, call, held_permissions, needs, owner_of, permissions
from gputrain.doctor.report import Check, Checks, Probe, code, failed, ok, run_checks, unknown
from gputrain.errors import PermissionDeniedError, RequestError
from gputrain.google import Api, GoogleClient, MissingError
from gputrain.google.forms import Json, mappings
from gputrain.google.registry import ImageName, find_manifest, read_architectures
from gputrain.google.storage import BucketPrefix, check_bucket
from gputrain.retry import PATIENT
from gputrain.spec import TrainingSpec


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
        found = find_manifest(client, parsed, policy=PATIENT)
    except MissingError:
        fix = f"gcloud artifacts docker images list {parsed.host}/{parsed.path} --include-tags"
        yield failed(f"{parsed.host} has no such image", fix)
        return
    if found is None:
        yield unknown("these endpoints have no registry")
        return
    yield ok(found.digest)
    if found.has_platforms:
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
