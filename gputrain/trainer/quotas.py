"""Every backend's quotas in one table."""

from __future__ import annotations

from collections.abc import Iterable, Sequence
from concurrent.futures import ThreadPoolExecutor
from functools import partial

from gputrain import fields
from gputrain.backends.base import Backend, TellsQuotas
from gputrain.catalog import ProvisioningModel
from gputrain.fields import FaultCollector, Field
from gputrain.planning import Supply
from gputrain.planning.rules import unknown_gpu
from gputrain.quota import Quotas
from gputrain.spec import GpuRequest
from gputrain.spec.gpu import parse_gpus


def read(
    backends: Iterable[Backend],
    *,
    gpu: object,
    num_nodes: int,
    provisioning_model: object,
    region: object,
) -> Quotas:
    """How jobs of these sizes stand on each backend, read side by side.

    Raises:
        SpecError: with every word that is none.
        NoFitError: no machine carries that count.
    """
    faults = FaultCollector("this question")
    given = {"gpu": gpu, "num_nodes": num_nodes, "provisioning_model": provisioning_model, "region": region}
    found = fields.read(_ROWS, given, faults)
    asked = [one for one in backends if isinstance(one, TellsQuotas)]
    _check_known(found["gpu"] or (), [one.supply for one in asked], faults)
    faults.raise_if_any()
    asks = [
        partial(
            one.quotas, found["gpu"], num_nodes=found["num_nodes"],
            models=found["provisioning_model"] or (), regions=found["region"] or (),
        )
        for one in asked
    ]  # fmt: skip
    with ThreadPoolExecutor(max_workers=max(1, len(asks))) as pool:
        return sum(pool.map(lambda ask: ask(), asks), Quotas(standings=()))


def _check_known(gpus: Sequence[GpuRequest], supplies: Sequence[Supply], faults: FaultCollector) -> None:
    """A kind of GPU that no backend knows is a fault."""
    for request in gpus:
        unknown = [one for one in (unknown_gpu(request, supply) for supply in supplies) if one]
        if unknown and len(unknown) == len(supplies):
            faults.add("gpu", str(request), unknown[0].what, unknown[0].fix)


def _gpus(value: object) -> tuple[GpuRequest, ...]:
    found = parse_gpus(value)
    if any(one.kind is None for one in found):
        raise ValueError("a count says no kind")
    return found


_ROWS = {
    "gpu": Field(_gpus, "a kind of GPU, with a count or without", "gpu='H100:8'", is_needed=True),
    "num_nodes": Field(fields.whole(1, 1000), "1 or more", "num_nodes=1", is_needed=True),
    "provisioning_model": Field(
        fields.many(fields.one_of(ProvisioningModel), or_one=True),
        fields.words(ProvisioningModel),
        "provisioning_model='spot'",
    ),
    "region": Field(fields.many(fields.text, or_one=True), "one or more regions", "region='us-central1'"),
}
