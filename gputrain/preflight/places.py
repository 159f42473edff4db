"""The bucket, the service account and the code: what a job takes with it."""

from __future__ import annotations

from collections.abc import Iterator

from gputrain import staging
from gputrain.errors import PermissionDeniedError, RequestError, SpecError
from gputrain.gcp import Access, Api, MissingError
from gputrain.preflight.checks import Check, Finding
from gputrain.preflight.examine import PATIENCE, Question
from gputrain.preflight.permissions import owner_of
from gputrain.preflight.project import read
from gputrain.spec import TrainingSpec
from gputrain.staging.upload import BucketPrefix, check_bucket


def bucket(access: Access, home: BucketPrefix | None, region: str) -> Question:
    """Whether the bucket is there, ours, and in the region."""
    subject = f"bucket gs://{home.name}" if home is not None else "bucket"

    def ask() -> Iterator[Check]:
        if home is None:
            why = "none is named; a job's code travels through one"
            fix = f"gcloud storage buckets create gs://NAME --project {access.project} --location {region}"
            yield Check(subject=subject, finding=Finding.FAULT, why=why, fix=fix)
            return
        try:
            check_bucket(access, home, region, policy=PATIENCE)
        except PermissionDeniedError as error:
            if error.permission == "storage.buckets.list":  # we may not see whose it is
                raise
            yield _fault(subject, error)
        except RequestError as error:
            yield _fault(subject, error)
        else:
            yield Check(subject=subject, finding=Finding.OK, why=f"ours, in {region}")

    return Question(subject=subject, ask=ask)


def _fault(subject: str, error: RequestError | PermissionDeniedError) -> Check:
    fix = error.fix
    return Check(subject=subject, finding=Finding.FAULT, why=f"{error.what}: {error.why}", fix=fix)


def account(access: Access, email: str) -> Question:
    """Whether the service account that jobs run as is there and switched on."""
    subject = f"service account {email}"
    owner = owner_of(email, access.project)

    def ask() -> Iterator[Check]:
        path = f"/v1/projects/{owner}/serviceAccounts/{email}"
        try:
            found = read(access, Api.IAM, path, action=f"look at {email}")
        except MissingError as error:
            fix = f"gcloud iam service-accounts create {email.partition('@')[0]} --project {owner}"
            yield Check(subject=subject, finding=Finding.FAULT, why=error.why, fix=fix)
            return
        if found.get("disabled"):
            fix = f"gcloud iam service-accounts enable {email} --project {owner}"
            yield Check(subject=subject, finding=Finding.FAULT, why="it is switched off", fix=fix)
        else:
            yield Check(subject=subject, finding=Finding.OK, why="there, and switched on")

    return Question(subject=subject, ask=ask)


def code(spec: TrainingSpec | None, *, installed: bool) -> tuple[Question, ...]:
    """Whether the code of the spec is there and can travel; nothing without a spec.

    Args:
        installed: as for `gputrain.staging.resolve`.
    """
    if spec is None:
        return ()
    subject = f"code of {spec.title}"

    def ask() -> Iterator[Check]:
        try:
            source = staging.resolve(spec, installed=installed)
        except SpecError as error:
            for fault in error.faults:
                why = f"{fault.field}={fault.value}: {fault.allowed}"
                yield Check(subject=subject, finding=Finding.FAULT, why=why, fix=fault.fix)
        else:
            yield Check(subject=subject, finding=Finding.OK, why=source.folder)

    return (Question(subject=subject, ask=ask),)
