"""The JSON documents of ``--json``: one function each, keys that stay.

Times are ISO 8601, durations seconds, prices US dollars; what is not known is null.
"""

from __future__ import annotations

import math
from collections.abc import Iterable
from typing import Any

import attrs

from gputrain.backends.base import LogLine
from gputrain.catalog import Gpu, Service, Shape
from gputrain.errors import GputrainError, SpecError
from gputrain.job.stacks import Stacks
from gputrain.metrics import Metrics
from gputrain.preflight import Checks
from gputrain.quota import Quotas

Json = dict[str, Any]


def of_gpus(gpus: Iterable[Gpu]) -> Json:
    """``gputrain gpus``."""
    return {
        "gpus": [
            {
                "kind": gpu.kind,
                "memory_gib": gpu.memory_gib,
                "compute_capability": gpu.compute_capability,
                "min_cuda": gpu.min_cuda,
                "accelerator_type": gpu.accelerator_type or None,
                "vertex_accelerator_type": gpu.vertex_accelerator_type or None,
                "stage": str(gpu.lifecycle.stage),
                "ends": gpu.lifecycle.ends or None,
            }
            for gpu in gpus
        ]
    }


def of_shapes(shapes: Iterable[Shape]) -> Json:
    """``gputrain gpus H100:2``."""
    return {
        "shapes": [
            {
                "gpu": shape.gpu.kind,
                "gpu_count": float(shape.gpu_count),
                "machine_type": shape.machine_type,
                "vcpus": shape.machine.vcpus,
                "memory_gib": shape.machine.memory_gib,
                "cpu_architecture": shape.machine.cpu_architecture,
                "compute": [model.value for model in shape.sold_as(Service.COMPUTE)],
                "vertex": [model.value for model in shape.sold_as(Service.VERTEX)],
            }
            for shape in shapes
        ]
    }


def of_quotas(quotas: Quotas) -> Json:
    """``gputrain quotas``."""
    return {"quotas": quotas.to_dicts(), "unread": list(quotas.unread)}


def of_checks(checks: Checks) -> Json:
    """``gputrain doctor``."""
    found = [
        {
            "backend": one.backend,
            "subject": one.subject,
            "finding": one.finding.value,
            "why": one.why,
            "fix": one.fix,
        }
        for one in checks
    ]
    return {"is_ok": checks.is_ok, "checks": found}


def of_metrics(metrics: Metrics) -> Json:
    """``gputrain metrics``; what JSON has no number for is text: nan, inf, -inf."""
    rows = [{name: _number(value) for name, value in row.items()} for row in metrics.rows]
    last = {name: _number(value) for name, value in metrics.last.items()}
    return {"count": metrics.count, "last": last, "rows": rows}


def _number(value: Any) -> Any:
    return str(value) if isinstance(value, float) and not math.isfinite(value) else value


def of_line(line: LogLine) -> Json:
    """Each line of ``gputrain logs``."""
    return {
        "time": line.time.isoformat() if line.time else None,
        "node_rank": line.node_rank,
        "rank": line.rank,
        "severity": line.severity,
        "message": line.message,
    }


def of_stacks(stacks: Stacks) -> Json:
    """``gputrain stacks``."""
    ranks = [attrs.asdict(one) for one in stacks.ranks]
    return {"story": stacks.story, "missing_nodes": list(stacks.missing), "ranks": ranks}


def of_orphans(orphans: Iterable[Any], *, removed: bool) -> Json:
    """``gputrain clean-up``."""
    found = [
        {
            "name": one.name,
            "place": one.place,
            "job": one.job_id,
            "status": one.status,
            "price_usd_h": one.price.usd_h if one.price else None,
        }
        for one in orphans
    ]
    return {"removed": removed, "orphans": found}


def of_error(error: GputrainError) -> Json:
    """What went wrong, instead of any other document."""
    faults = [attrs.asdict(fault) for fault in error.faults] if isinstance(error, SpecError) else []
    return {
        "error": {
            "type": type(error).__name__,
            "kind": error.kind,
            "what": error.what,
            "why": error.why,
            "fix": error.fix,
            "faults": faults,
        }
    }
