"""What the partitions have, and what a batch system cannot honour."""

from collections.abc import Sequence
from datetime import timedelta

import attrs

from gputrain.catalog import ProvisioningModel
from gputrain.planning import Limit, Offer, Supply
from gputrain.spec import TrainingSpec


@attrs.frozen(kw_only=True)
class Partition:
    """Nodes of one kind, and how long a job may have them."""

    gpu: str | None
    gpu_count: int
    nodes: int
    longest_run: timedelta


PARTITIONS = {
    "cpu": Partition(gpu=None, gpu_count=0, nodes=4, longest_run=timedelta(days=7)),
    "gpu-long": Partition(gpu="MI300X", gpu_count=8, nodes=4, longest_run=timedelta(days=7)),
    "gpu-short": Partition(gpu="MI300X", gpu_count=8, nodes=8, longest_run=timedelta(hours=4)),
}


def supply(partitions: Sequence[str]) -> Supply:
    """The nodes of these partitions."""
    offers = tuple(_offer(name, PARTITIONS[name]) for name in partitions)
    return Supply(backend="slurm", offers=offers, limits=_LIMITS)


def _offer(name: str, partition: Partition) -> Offer:
    def refuses(spec: TrainingSpec, _model: ProvisioningModel | None) -> tuple[str, str] | None:
        if spec.max_run_duration <= partition.longest_run:
            return None
        longest = int(partition.longest_run.total_seconds() // 3600)
        return f"{name} ends jobs after {longest} h", f"max_run_duration='{longest}h'"

    return Offer(
        gpu=partition.gpu,
        gpu_count=partition.gpu_count,
        machine_type="node",
        provisioning_models=(),
        places=(name,),
        max_nodes=partition.nodes,
        max_nodes_why=f"{name} has {partition.nodes} nodes",
        refuses=refuses,
    )


_LIMITS = tuple(
    Limit(field=field, asks=lambda spec, field=field: bool(getattr(spec, field)), why=why, fix="leave it out")
    for field, why in (
        ("image", "jobs run in the Python that all nodes see"),
        ("reservation", "partitions are not reserved"),
        ("provisioning_model", "nothing is sold here"),
        ("secrets", "there is no Secret Manager"),
        ("requirements", "nothing is installed on the nodes"),
    )
)
