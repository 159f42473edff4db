"""Capacity advice: how likely the emulated stock is to satisfy a request."""

from __future__ import annotations

from typing import Any

from gputrain_emulator import facts
from gputrain_emulator.call import Call
from gputrain_emulator.compute import refusals
from gputrain_emulator.compute.links import last, link
from gputrain_emulator.compute.state import COMPUTE, Compute

Json = dict[str, Any]


@COMPUTE.method("compute.advice.capacity", pool="compute.reads")
def capacity(call: Call) -> Json:
    """One recommendation: the roomiest allowed zone, and its obtainability (0 to 1)."""
    body, region = call.body, call.params["region"]
    compute = call.world.part(Compute)
    size = int(body.get("size", 1))
    if size < 1:
        raise refusals.invalid("resource.size", size, "Must be greater than or equal to 1.")
    model = body.get("instanceProperties", {}).get("scheduling", {}).get("provisioningModel", "")
    if model not in ("SPOT", "FLEX_START"):
        raise refusals.invalid("resource.instanceProperties.scheduling.provisioningModel", model, "Must be SPOT or FLEX_START.")  # fmt: skip  # noqa: E501
    machines = [
        last(machine)
        for selection in body.get("instanceFlexibilityPolicy", {}).get("instanceSelections", {}).values()
        for machine in selection.get("machineTypes", [])
    ]
    if not machines:
        raise refusals.invalid(
            "resource.instanceFlexibilityPolicy", "", "At least one machine type is required."
        )
    allowed = {last(entry.get("zone", "")) for entry in body.get("distributionPolicy", {}).get("zones", [])}
    for zone in allowed - {zone for zone in facts.zones() if facts.region_of(zone) == region}:
        raise refusals.invalid("resource.distributionPolicy.zones", zone, f"Must be a zone of '{region}'.")
    places = [
        (zone, machine)
        for machine in machines
        for zone in facts.zones()
        if facts.region_of(zone) == region
        and compute.offered(machine, zone)
        and (not allowed or zone in allowed)
    ]
    return {"recommendations": [_recommendation(call, places, size, model)]} if places else {}


def _recommendation(call: Call, places: list[tuple[str, str]], size: int, model: str) -> Json:
    compute = call.world.part(Compute)

    def share(place: tuple[str, str]) -> float:
        free = compute.free(*place)
        return 0.9 if free is None else round(0.9 * min(1.0, free / size), 2)

    zone, machine = max(places, key=share)
    shard = {
        "zone": link(f"projects/{call.owner.id}/zones/{zone}"), "machineType": machine, "instanceCount": size,
        "provisioningModel": model,
    }  # fmt: skip
    return {
        "scores": {"obtainability": share((zone, machine)), "estimatedUptime": "3600s"},
        "shards": [shard],
    }
