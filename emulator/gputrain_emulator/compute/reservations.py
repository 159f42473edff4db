"""Reservations of all zones in one list."""

from __future__ import annotations

from typing import Any

from gputrain_emulator import facts
from gputrain_emulator.call import Call
from gputrain_emulator.compute import filters
from gputrain_emulator.compute.service import COMPUTE
from gputrain_emulator.compute.state import Compute


@COMPUTE.method(
    "compute.reservations.aggregatedList", permission="compute.reservations.list", pool="compute.heavy_reads"
)
def aggregated_reservations(call: Call) -> dict[str, Any]:
    """The reservations of the project, by zone."""
    kept = call.world.part(Compute).resources["reservations"]
    root = f"projects/{call.owner.id}/"
    items = [
        (path.removeprefix(root).partition("/reservations/")[0], document)
        for path, document in kept.items()
        if path.startswith(root)
    ]
    scopes = [f"zones/{zone}" for zone in facts.zones()]
    name = f"projects/{call.owner.id}/aggregated/reservations"
    return filters.aggregated(
        "compute#reservationAggregatedList", name, "reservations", items, call.query, scopes
    )
