"""What Vertex AI sells to a project by the catalog, what it cannot honour, what it tells beforehand. Pure.

Vertex AI publishes neither which regions train on which GPU nor what capacity there is: for the former the
catalog's dated table stands, the latter is met when the job is made. Compute Engine's quotas do not count.
"""

from __future__ import annotations

import re
from collections.abc import Mapping
from datetime import timedelta

import attrs

from gputrain import catalog
from gputrain.backends.google import in_reservation, shape_of
from gputrain.backends.limits import LIMITS, SAID, folders, words
from gputrain.backends.vertex.render import of_order
from gputrain.backends.vertex.settings import VertexSettings
from gputrain.catalog import ANY_RESERVATION, Price, ProvisioningModel, Service, Shape
from gputrain.catalog.places import listed_in
from gputrain.gcp import reservations
from gputrain.gcp.shared import Found
from gputrain.planning import Candidate, Fact, Limit, Offer, Supply
from gputrain.quota.book import Book
from gputrain.spec.read import LONGEST_WORD

NAME = "vertex"
FEE_FIX = "read the management fee off your price list and say it: VertexAI(..., management_fee=0.2)"
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
    shapes = catalog.shapes(service=Service.VERTEX)
    why = "a folder of the container is gone when it ends"
    return Supply(
        backend=NAME,
        offers=tuple(_offer(shape, settings.regions, settings.management_fee) for shape in shapes),
        limits=(*LIMITS, *OF_VERTEX, *folders(settings.bucket, why, "gs://", "/gcs/")),
        find_gpu=catalog.find,
        regions=settings.regions,
    )


def _offer(shape: Shape, regions: tuple[str, ...], fee: float | None) -> Offer:
    listed = catalog.regions(shape, Service.VERTEX)

    def price_of(place: str, model: ProvisioningModel | None) -> Price | None:
        if model is None:
            return None
        price = catalog.price(shape, place, model, service=Service.VERTEX)
        return price if price is None or fee is None else with_fee(price, shape, fee)

    return Offer(
        gpu=shape.gpu.kind,
        gpu_count=shape.gpu_count,
        machine_type=shape.machine_type,
        provisioning_models=shape.sold_as(Service.VERTEX),
        places=tuple(region for region in regions if region in listed),
        price_of=price_of,
        price_fix="" if fee is not None or shape.is_attached else FEE_FIX,
    )


def with_fee(price: Price, shape: Shape, fee: float) -> Price:
    """A price with Vertex AI's management fee in it."""
    # Google takes no discount off the fee: a Spot or flex-start machine pays that of the on-demand one
    standard = catalog.price(shape, price.region, ProvisioningModel.STANDARD, service=Service.VERTEX)
    if standard is None:
        return price
    left_out = tuple(one for one in price.leaves_out if one != catalog.VERTEX_FEE)
    source = f"{price.source}, and a management fee of {fee:.4g} times the on-demand price"
    return attrs.evolve(price, usd_h=price.usd_h + fee * standard.usd_h, leaves_out=left_out, source=source)


OF_VERTEX = (
    Limit(
        field="reservation",
        asks=lambda spec: spec.reservation is not None and not _RESERVATION.fullmatch(spec.reservation),
        why="Vertex AI wants the reservation's full name",
        fix="reservation='projects/P/zones/Z/reservations/NAME'",
    ),
    Limit(
        field="max_run_duration",
        asks=lambda spec: (
            ProvisioningModel.FLEX_START in spec.provisioning_model
            and spec.max_run_duration > FLEX_START_MOST
        ),
        why="flex-start runs for 7 days at most",
        fix="max_run_duration='7d', and resume from the checkpoint",
    ),
    Limit(
        field="max_restarts",
        asks=lambda spec: spec.max_restarts > MOST_RESTARTS,
        why=f"Vertex AI counts restarts itself, {MOST_RESTARTS} at most",
        fix=f"max_restarts={MOST_RESTARTS}",
    ),
    Limit(
        field="min_nodes",
        asks=lambda spec: spec.min_nodes not in (None, spec.num_nodes),
        why="Vertex AI starts all nodes of a job again, or none",
        fix="leave min_nodes out, or use ComputeEngine",
    ),
    Limit(
        field="env",
        asks=lambda spec: len(spec.env) + len(spec.secrets) > _ENV_MOST,
        why="a container takes 100 variables, some of which are not yours",
        fix=f"at most {_ENV_MOST} in env and secrets together",
    ),
    *words(
        "a container is told its job in one argument, and no kernel takes one of more than 128 KiB",
        lambda _spec: LONGEST_WORD - _OURS,
        {**SAID, "env": lambda spec: of_order(spec.env)},
    ),
)


def fact(one: Candidate, book: Book, found: Mapping[str, Found]) -> Fact:
    """What was told of a candidate: its quotas, and the reservation that is named."""
    model = one.provisioning_model or ProvisioningModel.STANDARD
    shape = shape_of(one, Service.VERTEX)
    standing = book.standing(shape, one.num_nodes, model, one.place, reservation=one.reservation)
    zone = reservations.zone_of(one.reservation or "")
    absent_why, held_note = in_reservation(one, shape, zone, found)
    if zone and catalog.region_of(zone) != one.place:
        absent_why, held_note = f"reservation {one.reservation} is in {zone}", ""
    return Fact(
        verdict=standing.verdict,
        readings=standing.readings,
        absent_why=absent_why,
        availability=f"the catalog's table of Vertex AI's regions ({listed_in(shape, Service.VERTEX).dated})",
        note="; ".join(filter(None, [standing.note, held_note])),
    )
