"""``gputrain gpus``: the GPUs of the catalog, the machines that have one, and their prices."""

from __future__ import annotations

from collections.abc import Sequence

import attrs

from gputrain import catalog
from gputrain.catalog import Price, Service
from gputrain.cli.output import Exit, result
from gputrain.errors import RequestError
from gputrain.spec.gpu import parse_gpu
from gputrain.times import picked, plain

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
        known = [one for shape in shapes for one in catalog.prices(shape, spot=spot or None)]
        wanted = [one for one in known if not regions or one.region in regions]
        return _show(sorted(wanted, key=lambda one: (one.usd_h, one.region)), everything=everything)
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


def _show(found: Sequence[Price], *, everything: bool) -> Exit:
    """Show prices of Compute Engine, cheapest first."""
    table = catalog.Prices(found if everything else found[:MOST_PRICES]).table
    if found:
        more = len(found) - len(table.rows)
        left_out = f"; {more} more with --all" if more else ""
        caption = f"Compute Engine, {table.caption}; Vertex AI adds a fee{left_out}"
        table = attrs.evolve(table, caption=caption)
    rows = [
        {
            "gpu": one.gpu,
            "gpu_count": float(one.gpu_count),
            **picked(one, "machine_type region provisioning_model"),
            "price_usd_h": one.usd_h,
            "price_is_whole": one.is_whole,
            "price_date": one.date,
        }
        for one in found
    ]
    return result(table, {"prices": rows})
