"""Every backend's quotas in one table."""

from __future__ import annotations

from collections.abc import Iterable, Sequence
from concurrent.futures import ThreadPoolExecutor
from functools import partial

from gputrain.backends.base import Backend, TellsQuotas
from gputrain.catalog import ProvisioningModel
from gputrain.errors import Fault, SpecError
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
    faults: list[Fault] = []
    nodes = _nodes(num_nodes, faults)
    models = _models(provisioning_model, faults)
    regions = _regions(region, faults)
    asked = [one for one in backends if isinstance(one, TellsQuotas)]
    gpus = _gpus(gpu, [one.supply for one in asked], faults)
    if faults:
        raise SpecError("\n".join(map(str, faults)), faults=tuple(faults))
    asks = [partial(one.quotas, gpus, num_nodes=nodes, models=models, regions=regions) for one in asked]
    with ThreadPoolExecutor(max_workers=max(1, len(asks))) as pool:
        return sum(pool.map(lambda ask: ask(), asks), Quotas(standings=()))


def _gpus(value: object, supplies: Sequence[Supply], faults: list[Fault]) -> tuple[GpuRequest, ...]:
    try:
        found = parse_gpus(value)
    except ValueError as error:
        faults.append(Fault(field="gpu", value=repr(value), allowed=str(error), fix="gpu='H100:8'"))
        return ()
    if any(one.kind is None for one in found):
        faults.append(Fault(field="gpu", value=repr(value), allowed="a kind of GPU", fix="gpu='H100:8'"))
    for request in found:
        unknown = [one for one in (unknown_gpu(request, supply) for supply in supplies) if one]
        if unknown and len(unknown) == len(supplies):
            text = repr(str(request))
            faults.append(Fault(field="gpu", value=text, allowed=unknown[0].what, fix=unknown[0].fix))
    return found


def _nodes(value: object, faults: list[Fault]) -> int:
    if isinstance(value, int) and not isinstance(value, bool) and value > 0:
        return value
    faults.append(Fault(field="num_nodes", value=repr(value), allowed="1 or more", fix="num_nodes=1"))
    return 1


def _models(value: object, faults: list[Fault]) -> tuple[ProvisioningModel, ...]:
    try:
        return tuple(ProvisioningModel(one) for one in _many(value))
    except ValueError:
        words = " or ".join(repr(one.value) for one in ProvisioningModel)
        fix = "provisioning_model='spot'"
        faults.append(Fault(field="provisioning_model", value=repr(value), allowed=words, fix=fix))
        return ()


def _regions(value: object, faults: list[Fault]) -> tuple[str, ...]:
    found = _many(value)
    if all(isinstance(one, str) and one for one in found):
        return tuple(str(one) for one in found)
    fix = "region='us-central1'"
    faults.append(Fault(field="region", value=repr(value), allowed="one or more regions", fix=fix))
    return ()


def _many(value: object) -> tuple[object, ...]:
    if value is None:
        return ()
    return tuple(value) if isinstance(value, Sequence) and not isinstance(value, str) else (value,)
