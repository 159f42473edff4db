"""What is looked at before a custom job is made."""

from __future__ import annotations

from collections.abc import Sequence

from gputrain.backends.google import shape_of
from gputrain.backends.vertex import offers
from gputrain.backends.vertex.request import image_for
from gputrain.backends.vertex.settings import VertexSettings
from gputrain.catalog import Service, Shape
from gputrain.doctor import Checks, Probe
from gputrain.doctor.google import NeededApi, check_project, exists, image, needs
from gputrain.google import GoogleClient
from gputrain.planning import Candidate
from gputrain.spec import TrainingSpec

NEEDS = needs("vertex", "all")
"""Every permission that submitting, watching and stopping a job needs."""
TABLE = (*NEEDS, *needs("quotas"))
"""Everything that any call of this backend needs."""

_APIS = (
    NeededApi("aiplatform.googleapis.com", "run jobs"),
    NeededApi("logging.googleapis.com", "read what they write"),
)


def preflight(
    access: GoogleClient, settings: VertexSettings, spec: TrainingSpec | None, candidates: Sequence[Candidate]
) -> Checks:
    """What a job would need; with a spec, also its code and its image on each machine it may get."""
    return check_project(
        offers.NAME, access, of=_APIS, needed=NEEDS, home=settings.bucket, region=settings.home,
        runs_as=settings.service_account or "", spec=spec,
        more=(*_networks(access, settings), *_images(access, spec, candidates)),
    )  # fmt: skip


def _networks(access: GoogleClient, settings: VertexSettings) -> tuple[Probe, ...]:
    fix = "gcloud compute networks list, and name one of them"
    paths = (settings.network, settings.network_attachment)
    return tuple(exists(access, path, fix) for path in paths if path is not None)


def _images(
    access: GoogleClient, spec: TrainingSpec | None, candidates: Sequence[Candidate]
) -> tuple[Probe, ...]:
    if spec is None:
        return ()
    shapes = tuple(dict.fromkeys(shape_of(one, Service.VERTEX) for one in candidates))
    if spec.image_name is not None:
        return image(access, spec.image_name, shapes, service=Service.VERTEX)
    chosen: dict[str, list[Shape]] = {}
    for shape in shapes:
        chosen.setdefault(image_for(None, shape), []).append(shape)
    return tuple(
        question
        for uri, fit in chosen.items()
        for question in image(access, uri, fit, service=Service.VERTEX)[:1]  # Docker Hub is not asked
    )
