"""The JSON documents of ``--json``: one function each, keys that stay.

Times are ISO 8601, durations seconds, prices US dollars; what is not known is null.
"""

from __future__ import annotations

from collections.abc import Iterable, Sequence
from typing import Any

from gputrain.backends.base import LogLine
from gputrain.catalog import Gpu, Service, Shape
from gputrain.errors import GputrainError, SpecError
from gputrain.job.stacks import Stacks
from gputrain.metrics import Metrics
from gputrain.preflight import Checks
from gputrain.quota import Quotas
from gputrain.times import picked, plain
from gputrain.trainer.orphans import Orphans

Json = dict[str, Any]

_GPU = "kind memory_gib compute_capability min_cuda accelerator_type vertex_accelerator_type"


def of_gpus(gpus: Iterable[Gpu]) -> Json:
    """``gputrain gpus``."""
    lives = ((gpu, gpu.lifecycle) for gpu in gpus)
    return {
        "gpus": [
            {**picked(gpu, _GPU), "stage": plain(life.stage), "ends": life.ends or None}
            for gpu, life in lives
        ]
    }


def of_shapes(shapes: Iterable[Shape]) -> Json:
    """``gputrain gpus H100:2``."""
    return {
        "shapes": [
            {
                "gpu": shape.gpu.kind,
                "gpu_count": float(shape.gpu_count),
                **picked(shape.machine, "machine_type vcpus memory_gib cpu_architecture"),
                **{service.value: plain(shape.sold_as(service)) for service in Service},
            }
            for shape in shapes
        ]
    }


def of_quotas(quotas: Quotas) -> Json:
    """``gputrain quotas``."""
    return {"quotas": quotas.to_dicts(), "unread": list(quotas.unread)}


def of_checks(checks: Checks) -> Json:
    """``gputrain doctor``."""
    found = [picked(one, "backend subject finding why fix") for one in checks]
    return {"is_ok": checks.is_ok, "checks": found}


def of_metrics(metrics: Metrics) -> Json:
    """``gputrain metrics``; what JSON has no number for is text: nan, inf, -inf."""
    return picked(metrics, "count last rows progress")


def of_line(line: LogLine) -> Json:
    """Each line of ``gputrain logs``."""
    return picked(line, "time node_rank rank severity message")


def of_stacks(stacks: Stacks) -> Json:
    """``gputrain stacks``."""
    return {"story": stacks.story, "missing_nodes": list(stacks.missing), "ranks": plain(stacks.ranks)}


def of_orphans(orphans: Orphans, backends: Sequence[str], *, removed: bool) -> Json:
    """``gputrain clean-up``."""
    found = [
        {
            **picked(one, "name place"),
            "job": one.job_id,
            "status": one.status,
            "price_usd_h": one.price.usd_h if one.price else None,
        }
        for one in orphans
    ]
    left_out = list(orphans.left_out)
    return {"removed": removed, "backends": backends, "left_out": left_out, "orphans": found}


def of_error(error: GputrainError) -> Json:
    """What went wrong, instead of any other document."""
    faults = plain(error.faults) if isinstance(error, SpecError) else []
    return {"error": {"type": type(error).__name__, **picked(error, "kind what why fix"), "faults": faults}}
