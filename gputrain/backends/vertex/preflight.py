"""What is looked at before a custom job is made."""

from __future__ import annotations

from collections.abc import Sequence

from gputrain.backends.vertex import images, offers, render
from gputrain.backends.vertex.settings import VertexSettings
from gputrain.catalog import Shape
from gputrain.gcp import Access
from gputrain.planning import Candidate
from gputrain.preflight import Checks, Question, examine
from gputrain.preflight.images import image
from gputrain.preflight.networks import network
from gputrain.preflight.permissions import Need, On, permissions
from gputrain.preflight.places import account, bucket, code
from gputrain.preflight.project import CLOUD_QUOTAS, NeededApi, apis, credentials, project
from gputrain.spec import TrainingSpec

_USER = "roles/aiplatform.user"
_OBJECTS = "roles/storage.objectUser"
NEEDS: tuple[Need, ...] = (
    Need(permission="aiplatform.customJobs.create", call="make the job", role=_USER),
    Need(permission="aiplatform.customJobs.get", call="look at one job", role=_USER),
    Need(permission="aiplatform.customJobs.list", call="watch jobs, and make none twice", role=_USER),
    Need(permission="aiplatform.customJobs.cancel", call="stop a job", role=_USER),
    Need(permission="logging.logEntries.list", call="read what ranks write", role="roles/logging.viewer"),
    Need(
        permission="storage.buckets.list",
        call="see that the bucket is ours",
        role="roles/storage.bucketViewer",
    ),
    Need(permission="storage.objects.create", call="send the code", role=_OBJECTS, on=On.BUCKET),
    Need(permission="storage.objects.get", call="see what was sent before", role=_OBJECTS, on=On.BUCKET),
    Need(permission="storage.objects.delete", call="note how a job goes on", role=_OBJECTS, on=On.BUCKET),
    Need(
        permission="iam.serviceAccounts.actAs",
        call="run jobs as that account",
        role="roles/iam.serviceAccountUser",
        on=On.ACCOUNT,
    ),
)
"""Every permission that submitting, watching and stopping a job needs; a test takes each one away.

Source of the roles: Google's IAM reference by general knowledge, not re-read.
"""

_PLANS = (
    Need(
        permission="cloudquotas.quotas.get",
        call="tell quotas before a job is made",
        role="roles/cloudquotas.viewer",
        is_optional=True,
    ),
)

_APIS = (
    NeededApi(name="aiplatform.googleapis.com", purpose="run jobs"),
    NeededApi(name="storage.googleapis.com", purpose="bring the code to them"),
    NeededApi(name="logging.googleapis.com", purpose="read what they write"),
    CLOUD_QUOTAS,
)
_SECRETS = NeededApi(name="secretmanager.googleapis.com", purpose="resolve the spec's secrets")


def preflight(
    access: Access, settings: VertexSettings, spec: TrainingSpec | None, candidates: Sequence[Candidate]
) -> Checks:
    """What a job would need; with a spec, also its code and its image on each machine it may get."""
    home = settings.bucket
    asked = permissions(
        access, (*NEEDS, *_PLANS), bucket=home.name if home else "", account=settings.service_account or ""
    )
    secrets = (_SECRETS,) if spec is not None and spec.secrets else ()
    things = [
        apis(access, (*_APIS, *secrets)),
        *asked,
        bucket(access, home, settings.home),
        *((account(access, settings.service_account),) if settings.service_account else ()),
        *_networks(access, settings),
        *code(spec, installed=False),
        *_images(access, spec, candidates),
    ]
    return examine(offers.NAME, (credentials(access),), (project(access),), things)


def _networks(access: Access, settings: VertexSettings) -> tuple[Question, ...]:
    fix = "gcloud compute networks list, and name one of them"
    paths = (settings.network, settings.network_attachment)
    return tuple(network(access, path, fix) for path in paths if path is not None)


def _images(
    access: Access, spec: TrainingSpec | None, candidates: Sequence[Candidate]
) -> tuple[Question, ...]:
    if spec is None:
        return image(access, images.PREBUILT[0].uri, ())
    shapes = tuple(dict.fromkeys(render.shape_of(one) for one in candidates))
    if spec.image is not None:
        return image(access, spec.image, shapes)
    chosen: dict[str, list[Shape]] = {}
    for shape in shapes:
        chosen.setdefault(images.choose(None, shape), []).append(shape)
    return tuple(question for uri, fit in chosen.items() for question in image(access, uri, fit))
