"""What is looked at before a custom job is made."""

from __future__ import annotations

from collections.abc import Sequence

from gputrain.backends.google import shape_of
from gputrain.backends.vertex import offers, render
from gputrain.backends.vertex.settings import VertexSettings
from gputrain.catalog import Service, Shape
from gputrain.gcp import Access
from gputrain.planning import Candidate
from gputrain.preflight import Checks, Question
from gputrain.preflight.google import NEEDS as OF_GOOGLE, QUOTAS, image, look, network
from gputrain.preflight.project import Need, NeededApi
from gputrain.spec import TrainingSpec

_USER = "roles/aiplatform.user"
NEEDS: tuple[Need, ...] = (
    Need(permission="aiplatform.customJobs.create", call="make the job", role=_USER),
    Need(permission="aiplatform.customJobs.get", call="look at one job", role=_USER),
    Need(permission="aiplatform.customJobs.list", call="watch jobs, and make none twice", role=_USER),
    Need(permission="aiplatform.customJobs.cancel", call="stop a job", role=_USER),
    Need(permission="logging.logEntries.list", call="read what ranks write", role="roles/logging.viewer"),
    *OF_GOOGLE,
)
"""Every permission that submitting, watching and stopping a job needs; a test takes each one away.

Source of the roles: Google's IAM reference by general knowledge, not re-read.
"""

TABLE = (*NEEDS, QUOTAS)
"""Everything that any call of this backend needs."""

_APIS = (
    NeededApi(name="aiplatform.googleapis.com", purpose="run jobs"),
    NeededApi(name="logging.googleapis.com", purpose="read what they write"),
)


def preflight(
    access: Access, settings: VertexSettings, spec: TrainingSpec | None, candidates: Sequence[Candidate]
) -> Checks:
    """What a job would need; with a spec, also its code and its image on each machine it may get."""
    return look(
        offers.NAME, access, of=_APIS, needs=NEEDS, home=settings.bucket, region=settings.home,
        runs_as=settings.service_account or "", spec=spec,
        more=(*_networks(access, settings), *_images(access, spec, candidates)),
    )  # fmt: skip


def _networks(access: Access, settings: VertexSettings) -> tuple[Question, ...]:
    fix = "gcloud compute networks list, and name one of them"
    paths = (settings.network, settings.network_attachment)
    return tuple(network(access, path, fix) for path in paths if path is not None)


def _images(
    access: Access, spec: TrainingSpec | None, candidates: Sequence[Candidate]
) -> tuple[Question, ...]:
    if spec is None:
        return image(access, render.PREBUILT[0].uri, ())
    shapes = tuple(dict.fromkeys(shape_of(one, Service.VERTEX) for one in candidates))
    if spec.image_name is not None:
        return image(access, spec.image_name, shapes)
    chosen: dict[str, list[Shape]] = {}
    for shape in shapes:
        chosen.setdefault(render.image_for(None, shape), []).append(shape)
    return tuple(question for uri, fit in chosen.items() for question in image(access, uri, fit))
