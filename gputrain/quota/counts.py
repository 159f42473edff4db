"""What a job counts against: which quotas, and how much of each. Pure."""

from __future__ import annotations

import attrs

from gputrain import catalog
from gputrain.catalog import ALL_REGIONS, CPUS, PREEMPTIBLE_CPUS, ProvisioningModel, Quota, Service, Shape
from gputrain.catalog.quotas import A2_CPUS, CPUS_ALL_REGIONS
from gputrain.quota.values import EVERYWHERE


@attrs.frozen(kw_only=True)
class Count:
    """One quota that a job counts against, and what the whole job adds to it."""

    quota: Quota
    need: float
    where: str
    """A region, or `EVERYWHERE`."""
    is_gate: bool = True

    @property
    def dimensions(self) -> dict[str, str]:
        """What tells it apart from the same quota elsewhere, in the words of Cloud Quotas."""
        region = {} if self.where == EVERYWHERE else {"region": self.where}
        family = {"gpu_family": self.quota.gpu_family} if self.quota.gpu_family else {}
        return {**region, **family}


def counts(
    shape: Shape, num_nodes: int, model: ProvisioningModel, service: Service, region: str
) -> tuple[Count, ...]:
    """The quotas that a job counts against, the GPU's own first; empty where none is known.

    Machines of a reservation were counted when it was made.

    Source: live-quotas and Google's text on CPU quotas, read 2026-11-20.

    >>> from gputrain.catalog import shapes
    >>> [one.quota.name for one in counts(*shapes("T4", 2), 1, ProvisioningModel.SPOT, Service.COMPUTE, "r1")]
    ['PREEMPTIBLE_NVIDIA_T4_GPUS', 'GPUS_ALL_REGIONS', 'PREEMPTIBLE_CPUS', 'CPUS_ALL_REGIONS']
    """
    own = catalog.quota(shape.gpu, model, service=service)
    if own is None:
        return ()
    gpus, vcpus = shape.api_gpu_count * num_nodes, shape.machine.vcpus * num_nodes
    found = [Count(quota=own, need=gpus, where=region)]
    if service is Service.VERTEX:
        return tuple(found)
    found.append(Count(quota=ALL_REGIONS, need=gpus, where=EVERYWHERE))
    if shape.machine.family.needs_cpu_quota:
        cpus = CPUS if model is ProvisioningModel.STANDARD else PREEMPTIBLE_CPUS
        found.append(Count(quota=cpus, need=vcpus, where=region))
        found.append(Count(quota=CPUS_ALL_REGIONS, need=vcpus, where=EVERYWHERE))
    elif shape.machine_type.startswith("a2-") and model is ProvisioningModel.STANDARD:
        found.append(Count(quota=A2_CPUS, need=vcpus, where=region, is_gate=False))
    return tuple(found)
