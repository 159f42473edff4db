"""The documents of ``--json`` whose values have no ``to_dict`` of their own; their keys are public.

Times are ISO 8601, durations seconds, prices US dollars; what is not known is null.
"""

from __future__ import annotations

from collections.abc import Collection, Iterable, Sequence
from typing import Any

from gputrain.backends.base import LogLine
from gputrain.catalog import Gpu, ProvisioningModel, Service, Shape, prices
from gputrain.display.table import Table
from gputrain.doctor import Checks
from gputrain.job.stacks import Stacks
from gputrain.metrics import Metrics
from gputrain.quota import Quotas
from gputrain.times import picked, plain
from gputrain.trainer.orphans import Orphans

Json = dict[str, Any]
_GPU = "kind memory_gib compute_capability min_cuda accelerator_type vertex_accelerator_type"


def of_gpus(gpus: Iterable[Gpu]) -> Json:
    lives = ((gpu, gpu.lifecycle) for gpu in gpus)
    rows = [
        {**picked(gpu, _GPU), "stage": plain(life.stage), "ends": life.ends or None} for gpu, life in lives
    ]
    return {"gpus": rows}


def of_shapes(shapes: Iterable[Shape]) -> Json:
    rows = [
        {
            "gpu": shape.gpu.kind,
            "gpu_count": float(shape.gpu_count),
            **picked(shape.machine, "machine_type vcpus memory_gib cpu_architecture"),
            **{service.value: plain(shape.sold_as(service)) for service in Service},
        }
        for shape in shapes
    ]
    return {"shapes": rows}


def price_rows(shapes: Iterable[Shape], regions: Collection[str], *, spot: bool) -> list[Json]:
    """The known prices of Compute Engine, cheapest first. On Vertex AI a fee comes on top."""
    rows = [
        {
            "gpu": shape.gpu.kind,
            "gpu_count": float(shape.gpu_count),
            "machine_type": shape.machine_type,
            "region": one.region,
            "provisioning_model": plain(one.provisioning_model),
            "price_usd_h": one.usd_h,
            "price_is_whole": one.is_whole,
            "price_date": one.date,
        }
        for shape in shapes
        for one in prices(shape)
        if (not regions or one.region in regions)
        and (not spot or one.provisioning_model is ProvisioningModel.SPOT)
    ]
    return sorted(rows, key=lambda row: (row["price_usd_h"], row["region"]))


def price_table(rows: Sequence[Json], most: int) -> Table:
    """The first rows, or all of them for 0."""
    shown = rows[:most] if most else rows
    notes = [
        f"Compute Engine, prices of {max(one['price_date'] for one in shown)}" if shown else "no known price"
    ]
    notes += ["Vertex AI adds a fee"] * bool(shown)
    notes += [f"{len(rows) - len(shown)} more with --all"] * (len(shown) < len(rows))
    return Table(
        title="Prices per hour",
        columns=("$/h", "region", "model", "GPUs", "machine"),
        rows=[
            (
                f"{'' if one['price_is_whole'] else '≥ '}{one['price_usd_h']:,.2f}",
                one["region"],
                one["provisioning_model"],
                f"{one['gpu_count']:g} x {one['gpu']}",
                one["machine_type"],
            )
            for one in shown
        ],
        right=("$/h",),
        caption="; ".join(notes),
    )


def of_quotas(quotas: Quotas) -> Json:
    return {"quotas": quotas.to_dicts(), "unread": list(quotas.unread)}


def of_checks(checks: Checks) -> Json:
    rows = [picked(one, "backend subject finding why fix") for one in checks]
    return {"is_ok": checks.is_ok, "checks": rows}


def of_metrics(metrics: Metrics) -> Json:
    """What JSON has no number for is text: nan, inf, -inf."""
    return picked(metrics, "count last rows progress")


def of_line(line: LogLine) -> Json:
    return picked(line, "time node_rank rank severity message")


def of_stacks(stacks: Stacks) -> Json:
    return {"story": stacks.story, "missing_nodes": list(stacks.missing), "ranks": plain(stacks.ranks)}


def of_orphans(orphans: Orphans, backends: Sequence[str], *, removed: bool) -> Json:
    rows = [
        {
            **picked(one, "name place"),
            "job": one.job_id,
            "status": one.status,
            "price_usd_h": one.price.usd_h if one.price else None,
        }
        for one in orphans
    ]
    return {"removed": removed, "backends": backends, "left_out": list(orphans.left_out), "orphans": rows}
