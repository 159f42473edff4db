"""What Google Cloud is asked before a job on it, whichever of its services runs the job."""

from __future__ import annotations

from collections.abc import Iterator, Sequence

import attrs

from gputrain.catalog import Shape, image_faults
from gputrain.errors import PermissionDeniedError, RequestError
from gputrain.gcp import Access, Api, MissingError
from gputrain.gcp.buckets import BucketPrefix, check_bucket
from gputrain.gcp.forms import Json
from gputrain.gcp.registry import ImageName, find_manifest, read_architectures
from gputrain.preflight.checks import Check, Checks, Question, code, examine, fault, fine, unknown
from gputrain.preflight.project import (
    CLOUD_QUOTAS,
    Need,
    NeededApi,
    On,
    apis,
    credentials,
    owner_of,
    permissions,
    project,
    read,
)
from gputrain.retry import PATIENT
from gputrain.spec import TrainingSpec

_OBJECTS = "roles/storage.objectUser"
NEEDS: tuple[Need, ...] = (
    Need(
        permission="storage.buckets.list",
        call="see that the bucket is ours",
        role="roles/storage.bucketViewer",
    ),
    Need(permission="storage.objects.create", call="send the code", role=_OBJECTS, on=On.BUCKET),
    Need(permission="storage.objects.get", call="see what is there already", role=_OBJECTS, on=On.BUCKET),
    Need(permission="storage.objects.delete", call="note how a job goes on", role=_OBJECTS, on=On.BUCKET),
    Need(
        permission="iam.serviceAccounts.actAs",
        call="run jobs as that account",
        role="roles/iam.serviceAccountUser",
        on=On.ACCOUNT,
    ),
)
"""What each service needs beside permissions of its own.

Source of the roles: Google's IAM reference by general knowledge, not re-read.
"""
_WRITER, _BUILDER = "roles/artifactregistry.writer", "roles/cloudbuild.builds.editor"
BUILDS: tuple[Need, ...] = (
    Need(permission="artifactregistry.repositories.get", call="see that the repository is there",
         role=_WRITER),
    Need(permission="artifactregistry.repositories.create", call="make it",
         role="roles/artifactregistry.admin", only_with="`--create-repository`"),
    Need(permission="artifactregistry.repositories.downloadArtifacts", call="see whether an image is there",
         role=_WRITER),
    Need(permission="artifactregistry.repositories.uploadArtifacts", call="push what docker or podman built",
         role=_WRITER, only_with="a builder of this machine"),
    Need(permission="cloudbuild.builds.create", call="build it there", role=_BUILDER),
    Need(permission="cloudbuild.builds.get", call="see how the build goes", role=_BUILDER),
    Need(permission="cloudbuild.builds.list", call="see whether it is built already", role=_BUILDER),
    Need(permission="storage.objects.create", call="send what goes into it", role=_OBJECTS, on=On.BUCKET),
    Need(permission="storage.objects.get", call="read the build's log", role=_OBJECTS, on=On.BUCKET),
)  # fmt: skip
"""What building an `Image` needs, beyond running jobs; the account of the builds pushes by itself.

Source of the roles: Google's IAM reference by general knowledge, not re-read.
"""
QUOTAS = Need(
    permission="cloudquotas.quotas.get",
    call="tell the quotas of H100 and newer",
    role="roles/cloudquotas.viewer",
    is_optional=True,
)
_SECRETS = NeededApi(name="secretmanager.googleapis.com", purpose="resolve the spec's secrets")
_STORAGE = NeededApi(name="storage.googleapis.com", purpose="bring the code to them")


def look(
    backend: str,
    access: Access,
    *,
    of: Sequence[NeededApi],
    needs: Sequence[Need],
    home: BucketPrefix | None,
    region: str,
    runs_as: str,
    spec: TrainingSpec | None,
    more: Sequence[Question],
) -> Checks:
    """Look at all that a job of one service needs, side by side, once credentials and project are well.

    Args:
        of: the APIs of the service.
        needs: the permissions, `NEEDS` among them.
        home: the bucket, which must lie in ``region``.
        runs_as: the service account; empty where the service has its own.
        spec: whose code and secrets are looked at as well.
        more: what only this service asks.
    """
    secrets = (_SECRETS,) if spec is not None and spec.secrets else ()
    name = home.name if home is not None else ""
    things = [
        apis(access, (*of, _STORAGE, CLOUD_QUOTAS, *secrets)),
        *permissions(access, (*needs, QUOTAS), bucket=name, account=runs_as),
        bucket(access, home, region),
        *((account(access, runs_as),) if runs_as else ()),
        *code(spec, installed=False),
        *more,
    ]
    found = examine(backend, (credentials(access),), (project(access),), things)
    return Checks(checks=[attrs.evolve(one, fix=access.fitted(one.fix)) for one in found])


def find(access: Access, path: str) -> Json | None:
    """A resource of Compute Engine by its path, or None where it is not there."""
    try:
        return read(access, Api.COMPUTE, f"/compute/v1/{path}", action=f"look at {path}")
    except MissingError:
        return None


def network(access: Access, path: str, fix: str = "") -> Question:
    """Whether a network (or an attachment) of that path is there.

    Args:
        path: ``projects/P/global/networks/NAME``.
        fix: what to do where it is not.
    """
    return there(access, path, f"network {path.rpartition('/')[2]}", fix)


def there(access: Access, path: str, subject: str, fix: str) -> Question:
    """Whether a resource of Compute Engine is there; what to do where it is not."""

    def ask() -> Iterator[Check]:
        yield fine("there") if find(access, path) is not None else fault(f"there is no {path}", fix)

    return Question(subject=subject, ask=ask)


def bucket(access: Access, home: BucketPrefix | None, region: str) -> Question:
    """Whether the bucket is there, ours, and in the region."""
    subject = f"bucket gs://{home.name}" if home is not None else "bucket"

    def ask() -> Iterator[Check]:
        if home is None:
            why = "none is named; a job's code travels through one"
            fix = f"gcloud storage buckets create gs://NAME --project {access.project} --location {region}"
            yield fault(why, fix)
            return
        try:
            check_bucket(access, home, region, policy=PATIENT)
        except (PermissionDeniedError, RequestError) as error:
            if getattr(error, "permission", "") == "storage.buckets.list":  # we may not see whose it is
                raise
            yield fault(f"{error.what}: {error.why}", error.fix)
        else:
            yield fine(f"ours, in {region}")

    return Question(subject=subject, ask=ask)


def account(access: Access, email: str) -> Question:
    """Whether the service account that jobs run as is there and switched on."""
    owner = owner_of(email, access.project)

    def ask() -> Iterator[Check]:
        path = f"/v1/projects/{owner}/serviceAccounts/{email}"
        try:
            found = read(access, Api.IAM, path, action=f"look at {email}")
        except MissingError as error:
            fix = f"gcloud iam service-accounts create {email.partition('@')[0]} --project {owner}"
            yield fault(error.why, fix)
            return
        if found.get("disabled"):
            yield fault("it is switched off", f"gcloud iam service-accounts enable {email} --project {owner}")
        else:
            yield fine("there, and switched on")

    return Question(subject=f"service account {email}", ask=ask)


def image(access: Access, name: str, shapes: Sequence[Shape]) -> tuple[Question, ...]:
    """Whether a container image can run on each of the shapes, and is in its registry.

    The CUDA release is read from the image's name, the CPU architectures from its manifest where it lists
    platforms. Only Google's registries are asked: no token of yours goes to another.
    """
    return (
        Question(subject=f"image {name}", ask=lambda: _fits(name, shapes)),
        Question(subject=in_registry(name), ask=lambda: _is_there(access, name, shapes)),
    )


def in_registry(name: str) -> str:
    """What the check is about that looks for an image."""
    return f"image {name} in its registry"


def _fits(name: str, shapes: Sequence[Shape]) -> Iterator[Check]:
    faults = dict.fromkeys(one for shape in shapes for one in image_faults(name, shape))
    for one in faults:
        fix = one.fix[:1].lower() + one.fix[1:]
        yield fault(f"{one.what}: {one.why}", fix, is_certain=one.is_certain)
    if shapes and not faults:
        kinds = ", ".join(dict.fromkeys(shape.gpu.kind for shape in shapes))
        yield fine(f"nothing in its name speaks against {kinds}")


def _is_there(access: Access, name: str, shapes: Sequence[Shape]) -> Iterator[Check]:
    parsed = ImageName.parse(name)
    if parsed is None:
        why = "not asked for: it is in no registry of Google's, and no token of yours goes to another"
        yield unknown(why)
        return
    try:
        found = find_manifest(access, parsed, policy=PATIENT)
    except MissingError:
        fix = f"gcloud artifacts docker images list {parsed.host}/{parsed.path} --include-tags"
        yield fault(f"{parsed.host} has no such image", fix)
        return
    if found is None:
        yield unknown("these endpoints have no registry")
        return
    yield fine(found.digest)
    if found.has_platforms:
        yield from _built_for(name, read_architectures(access, parsed), shapes)


def _built_for(name: str, built: frozenset[str], shapes: Sequence[Shape]) -> Iterator[Check]:
    wanted = dict.fromkeys(shape.machine.cpu_architecture for shape in shapes)
    for host in (one for one in wanted if built and one not in built):
        platform = f"linux/{host.replace('x86_64', 'amd64')}"
        yield fault(
            f"it is built for {', '.join(sorted(built))}, and the host's CPU is {host}",
            f"docker buildx build --platform {platform} --push --tag {name} .",
            subject=f"image {name}",
        )
