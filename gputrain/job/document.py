"""A job as JSON types: the same keys in Python, on the command line, in events and in log records.

Times are ISO 8601, durations seconds, prices US dollars; what is not known is null.
"""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

import attrs

from gputrain.lifecycle import Failure
from gputrain.planning import Candidate
from gputrain.secrets import HIDDEN, looks_secret

if TYPE_CHECKING:
    from datetime import datetime

    from gputrain.job.facts import Facts

Json = dict[str, Any]


def of_job(job: Facts) -> Json:
    """All that is known of a job."""
    ref, duration, created = job.ref, job.duration, job.created_at
    return {
        "uri": ref.uri,
        "id": job.id,
        "name": job.name,
        "backend": ref.backend,
        "project": ref.project or None,
        "place": ref.place or None,
        "state": job.state.value,
        "detail": job.detail,
        "labels": dict(job.labels),
        "created_at": _text(created),
        "started_at": _text(job.started_at),
        "ended_at": _text(job.ended_at),
        "duration_s": None if duration is None else duration.total_seconds(),
        "cost_usd": job.cost_usd,
        "failure": of_failure(job.failure),
        "candidate": None if job.candidate is None else of_candidate(job.candidate),
        "attempts": [
            {
                "backend": one.candidate.backend,
                "place": one.candidate.place,
                "at": one.at.isoformat(),
                "outcome": one.outcome.value,
                "answer": one.answer,
            }
            for one in job.attempts
        ],
        "spec": None if job.spec is None else _shown(job.spec.to_dict()),
    }


def of_candidate(one: Candidate) -> Json:
    """Where a job runs, or would."""
    model = one.provisioning_model
    return {
        "backend": one.backend,
        "place": one.place,
        "machine_type": one.machine_type,
        "gpu": one.gpu,
        "gpu_count": float(one.gpu_count),
        "num_nodes": one.num_nodes,
        "nproc_per_node": one.nproc_per_node,
        "provisioning_model": model.value if model else None,
        "price_usd_h": one.price_usd_h,
        "max_run_duration_s": one.max_run_duration.total_seconds(),
    }


def of_failure(failure: Failure | None) -> Json | None:
    """Why it ended without success; null where it did not."""
    if failure is None:
        return None
    return {**attrs.asdict(failure), "last_lines": list(failure.last_lines)}


def _shown(spec: Json) -> Json:
    """The spec, with what looks secret hidden: documents are printed and kept."""
    env = spec.get("env", {})
    hidden = {name: HIDDEN if looks_secret(value, name=name) else value for name, value in env.items()}
    return {**spec, "env": hidden} if env else spec


def _text(time: datetime | None) -> str | None:
    return None if time is None else time.isoformat()
