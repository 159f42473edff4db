"""Google's capacity advice: how likely machines are to be had in a zone now.

The method is in google-cloud-compute 1.56.0; which machines and models the server answers for is not written
down (read 2026-11-20), so what it refuses is unknown, and `ComputeEngine(capacity_advice=False)` never asks.
"""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any

from gputrain.catalog import ProvisioningModel, Shape, region_of
from gputrain.gcp import Access, Api
from gputrain.gcp.forms import mapping, mappings
from gputrain.planning import Candidate
from gputrain.retry import GLANCE

MOST = 6
"""Zones that are asked about for one plan, the first in its order: a call each."""

MODELS: Mapping[ProvisioningModel | None, str] = {
    ProvisioningModel.SPOT: "SPOT",
    ProvisioningModel.FLEX_START: "FLEX_START",
}


def key(one: Candidate) -> str:
    """What tells one piece of advice from another."""
    model = MODELS[one.provisioning_model]
    return f"advice {one.place} {one.machine_type} {one.gpu_count} {one.num_nodes} {model}"


def ask(access: Access, one: Candidate, shape: Shape) -> float | None:
    """The chance from 0 to 1 that all the machines of a candidate can be had now; None: no such answer.

    Raises:
        AccessError, RequestError, TransientError, ...: as Compute Engine answers.
    """
    base = f"{access.url(Api.COMPUTE)}/compute/v1/projects/{access.project}"
    body = access.post(
        f"{base}/regions/{region_of(one.place)}/advice/capacity",
        action=f"ask for advice on {one.place}",
        json=_question(one, shape),
        policy=GLANCE,
    )
    told = mappings(body.get("recommendations"))
    found = [mapping(one.get("scores")).get("obtainability") for one in told]
    chances = [float(chance) for chance in found if isinstance(chance, (int, float)) and 0 <= chance <= 1]
    return max(chances, default=None)


def _question(one: Candidate, shape: Shape) -> dict[str, Any]:
    selection: dict[str, Any] = {"machineTypes": [one.machine_type]}
    if shape.is_attached:
        kind = f"zones/{one.place}/acceleratorTypes/{shape.gpu.accelerator_type}"
        selection["guestAccelerators"] = [{"acceleratorType": kind, "acceleratorCount": shape.api_gpu_count}]
    return {
        "size": one.num_nodes,
        "instanceProperties": {"scheduling": {"provisioningModel": MODELS[one.provisioning_model]}},
        "instanceFlexibilityPolicy": {"instanceSelections": {"wanted": selection}},
        "distributionPolicy": {
            "targetShape": "ANY_SINGLE_ZONE",
            "zones": [{"zone": f"zones/{one.place}"}],
        },
    }
