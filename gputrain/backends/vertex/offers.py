"""What Vertex AI sells by the catalog, what it cannot honour, and what it reports beforehand. Pure.

Vertex AI publishes neither which regions train on which GPU nor what capacity there is: for the former the
catalog's dated table stands, the latter is met when the job is made. Compute Engine's quotas do not count.
"""

from __future__ import annotations

import re
from collections.abc import Callable, Mapping
from datetime import timedelta
from typing import Any

from gputrain import catalog
from gputrain.backends.google import in_reservation, shape_of
from gputrain.backends.limits import LIMITS, folders, words
from gputrain.backends.vertex.request import in_the_order
from gputrain.backends.vertex.settings import VertexSettings
from gputrain.catalog import ANY_RESERVATION, Price, ProvisioningModel, Service, Shape
from gputrain.google.cache import Found
from gputrain.google.compute_lists import zone_of
from gputrain.planning import Candidate, Fact, Limit, Offer, Supply
from gputrain.quota.reader import QuotaSnapshot
from gputrain.spec.spec import MAX_ARGUMENT_BYTES

NAME = "vertex"
MOST_RESTARTS = 6
FLEX_START_MOST = timedelta(days=7)
_RESERVATION = re.compile(
    rf"{ANY_RESERVATION}|projects/[^/]+/zones/[^/]+/reservations/[^/]+(/reservationBlocks/[^/]+)?"
)
_OURS = 24 << 10
"""Bytes of that argument that are left to what else stands there.

Most variables lie beside it, each in bounds of its own. What one request may hold is not written down.
"""
_ENV_MOST = 80
"""100 variables are allowed (aiplatform v1 protos); the rest is for our own and Google's."""


def supply(settings: VertexSettings) -> Supply:
    """Every shape with GPUs that trains on Vertex AI, in the regions the user allows, in that order."""
    shapes, regions = catalog.shapes(service=Service.VERTEX), settings.all_regions(Service.VERTEX)
    why = "a folder of the container is gone when it ends"
    return Supply(
        backend=NAME,
        offers=tuple(_offer(shape, regions, settings) for shape in shapes),
        limits=(*LIMITS, *OF_VERTEX, *folders(settings.bucket, why, "gs://", "/gcs/")),
        cautions=(REDUCTION_SERVER,) if settings.reduction_server else (),
        find_gpu=catalog.find,
        regions=settings.named_regions,
    )


PAID_FOR = Price(usd_h=0.0, source="jobs of a persistent resource are not charged for", date="2026-11-27")


def _offer(shape: Shape, regions: tuple[str, ...], settings: VertexSettings) -> Offer:
    listed, fee = catalog.regions(shape, Service.VERTEX), settings.management_fee

    def price_of(place: str, model: ProvisioningModel | None) -> Price | None:
        if model is None:
            return None
        if settings.persistent_resource:
            return PAID_FOR
        return catalog.price(shape, place, model, service=Service.VERTEX, management_fee=fee)

    return Offer(
        gpu=shape.gpu.kind,
        gpu_count=shape.gpu_count,
        machine_type=shape.machine_type,
        provisioning_models=shape.sold_as(Service.VERTEX),
        places=tuple(region for region in regions if region in listed),
        price_of=price_of,
    )


REDUCTION_SERVER = Limit(
    field="image",
    asks=lambda spec: spec.num_nodes > 1,
    why="a reduction server bills without effect unless google-reduction-server is in the image",
    fix="Build one with it: the default images lack it",
)

# fmt: off
OF_VERTEX = (
    Limit(field="reservation",
          asks=lambda spec: spec.reservation is not None and not _RESERVATION.fullmatch(spec.reservation),
          why="Vertex AI wants the reservation's full name",
          fix="reservation='projects/P/zones/Z/reservations/NAME'"),
    Limit(field="max_run_duration",
          asks=lambda spec: ProvisioningModel.FLEX_START in spec.provisioning_model
          and spec.max_run_duration > FLEX_START_MOST,
          why="flex-start runs for 7 days at most",
          fix="max_run_duration='7d', and resume from the checkpoint"),
    *(Limit(field=field,
            asks=lambda spec, field=field: spec.runs_image and bool(getattr(spec, field)),  # type: ignore[misc]
            why="nothing of gputrain is in an image that runs as it is",
            fix="name a script or a command, or use ComputeEngine")
      for field in ("secrets", "hang_timeout")),
    Limit(field="max_restarts", asks=lambda spec: spec.max_restarts > MOST_RESTARTS,
          why=f"Vertex AI counts restarts itself, {MOST_RESTARTS} at most",
          fix=f"max_restarts={MOST_RESTARTS}"),
    Limit(field="min_nodes", asks=lambda spec: spec.min_nodes not in (None, spec.num_nodes),
          why="Vertex AI starts all nodes of a job again, or none",
          fix="leave min_nodes out, or use ComputeEngine"),
    Limit(field="env", asks=lambda spec: len(spec.env) + len(spec.secrets) > _ENV_MOST,
          why="a container takes 100 variables, some of which are not yours",
          fix=f"at most {_ENV_MOST} in env and secrets together"),
    *words("a container gets its job in one argument, and no kernel takes one of more than 128 KiB",
           lambda _spec: MAX_ARGUMENT_BYTES - _OURS, in_the_order),
)
# fmt: on


def questions(*_: object) -> dict[str, Callable[[], Any]]:
    """Nothing but quotas and reservations is asked."""
    return {}


def fact(one: Candidate, snapshot: QuotaSnapshot, found: Mapping[str, Found]) -> Fact:
    """What is known of a candidate: its quotas, and the reservation that is named."""
    model = one.provisioning_model or ProvisioningModel.STANDARD
    shape = shape_of(one, Service.VERTEX)
    status = snapshot.status(shape, one.num_nodes, model, one.place, reservation=one.reservation)
    zone = zone_of(one.reservation or "")
    absent_why, held_note = in_reservation(one, shape, zone, found)
    if zone and catalog.region_of(zone) != one.place:
        absent_why, held_note = f"reservation {one.reservation} is in {zone}", ""
    dated = catalog.listed_in(shape, Service.VERTEX).dated
    return Fact(
        verdict=status.verdict,
        readings=status.readings,
        absent_why=absent_why,
        availability=f"the catalog's table of Vertex AI's regions ({dated})",
        note="; ".join(filter(None, [status.note, held_note])),
    )
