"""What Google Cloud is asked before a job on it, whichever of its services runs the job."""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from typing import Any

from gputrain.gcp import Access, Api, MissingError
from gputrain.preflight.checks import Check, Checks, Finding
from gputrain.preflight.examine import Question, examine
from gputrain.preflight.permissions import Need, On, permissions
from gputrain.preflight.places import account, bucket, code
from gputrain.preflight.project import CLOUD_QUOTAS, NeededApi, apis, credentials, project, read
from gputrain.spec import TrainingSpec
from gputrain.staging.upload import BucketPrefix

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
    return examine(backend, (credentials(access),), (project(access),), things)


def find(access: Access, path: str, action: str) -> dict[str, Any] | None:
    """A resource of Compute Engine by its path, or None where it is not there."""
    try:
        return read(access, Api.COMPUTE, f"/compute/v1/{path}", action=action)
    except MissingError:
        return None


def network(access: Access, path: str, fix: str = "") -> Question:
    """Whether a network (or an attachment) of that path is there.

    Args:
        path: ``projects/P/global/networks/NAME``.
        fix: what to do where it is not.
    """
    name = path.rpartition("/")[2]
    subject = f"network {name}"

    def ask() -> Iterator[Check]:
        if find(access, path, f"look at {path}") is None:
            yield Check(subject=subject, finding=Finding.FAULT, why=f"there is no {path}", fix=fix)
        else:
            yield Check(subject=subject, finding=Finding.OK, why="there")

    return Question(subject=subject, ask=ask)
