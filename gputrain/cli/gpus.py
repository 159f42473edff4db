"""``gputrain gpus``: the GPUs of the catalog, the machines that have one, and their prices."""

from __future__ import annotations

from collections.abc import Collection, Iterable, Sequence
from typing import Any

from gputrain import catalog
from gputrain.catalog import Service, Shape
from gputrain.cli.output import Exit, result
from gputrain.display.table import Table
from gputrain.errors import RequestError
from gputrain.spec.gpu import parse_gpu
from gputrain.times import picked, plain

Json = dict[str, Any]
MOST_PRICES = 15
_GPU = "kind memory_gib compute_capability min_cuda accelerator_type vertex_accelerator_type"


def run(kind: str | None, regions: Sequence[str], *, prices: bool, spot: bool, everything: bool) -> Exit:
    """Show all GPUs, or the machines of one kind, region or price."""
    if kind is None and not regions and not prices:
        found = catalog.gpus()
        rows = [
            {**picked(one, _GPU), "stage": plain(one.lifecycle.stage), "ends": one.lifecycle.ends or None}
            for one in found
        ]
        return result(found, {"gpus": rows})
    for region in regions:
        if near := catalog.likely_region(region):
            raise RequestError(f"there is no region {region!r}", fix=f"--region {near}")
    count = None
    if kind is not None and ":" in kind:
        try:
            asked = parse_gpu(kind)
        except ValueError as error:
            raise RequestError(f"{kind}: {error}", fix="gputrain gpus H100:2") from error
        kind, count = asked.kind, asked.count
    shapes = catalog.shapes(kind, count)
    if regions:
        there = [one for region in regions for one in catalog.shapes(kind, count, region=region)]
        shapes = type(shapes)(one for one in shapes if one in there)
    if prices or spot:
        rows = _prices(shapes, regions, spot=spot)
        return result(_table(rows, len(rows) if everything else MOST_PRICES), {"prices": rows})
    rows = [
        {
            "gpu": one.gpu.kind,
            "gpu_count": float(one.gpu_count),
            **picked(one.machine, "machine_type vcpus memory_gib cpu_architecture"),
            **{service.value: plain(one.sold_as(service)) for service in Service},
        }
        for one in shapes
    ]
    return result(shapes, {"shapes": rows})


def _prices(shapes: Iterable[Shape], regions: Collection[str], *, spot: bool) -> list[Json]:
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
        for one in catalog.prices(shape, spot=spot or None)
        if not regions or one.region in regions
    ]
    return sorted(rows, key=lambda row: (row["price_usd_h"], row["region"]))


def _table(rows: Sequence[Json], most: int) -> Table:
    notes = ["no known price"]
    if shown := rows[:most]:
        date = max(one["price_date"] for one in shown)
        notes = [f"Compute Engine, prices of {date}", "Vertex AI adds a fee"]
    if len(shown) < len(rows):
        notes.append(f"{len(rows) - len(shown)} more with --all")
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
