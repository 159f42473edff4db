"""One limit on what all points cost together: what each point may use. Pure."""

from __future__ import annotations

import math
from collections.abc import Sequence

from gputrain.errors import RequestError
from gputrain.job import Job
from gputrain.lifecycle import State

LEAST_USD = 1e-6
"""Limits are multiples of it."""
TO_RETRY = (State.FAILED, State.EXPIRED)
"""The ends after which `Experiment.retry_failed` submits a point again."""


def shares(max_cost: float, held: Sequence[float | None], new: int) -> tuple[float, ...]:
    """The limit of each new point, so that all points together never cost more than ``max_cost``.

    Args:
        max_cost: US dollars for all points, old and new.
        held: what each old point may still cost, as `may_cost` says; None: unknown.
        new: how many points are new; they share equally what is left.

    Raises:
        RequestError: the limit cannot be kept.
    """
    unknown = held.count(None)
    taken = math.fsum(one for one in held if one is not None)
    if unknown:
        raise RequestError(
            f"max_cost={max_cost:g} cannot be kept; nothing was submitted",
            why=f"{_points(unknown)} of the experiment may run without a limit, or at an unknown cost",
            fix="cancel it, and map what is missing under another name= with max_cost= from the start",
        )
    left = max_cost - taken
    share = math.floor(left / new / LEAST_USD) * LEAST_USD if new else 0.0
    if left < -LEAST_USD * len(held) or (new and share < LEAST_USD):
        least = math.ceil((taken + new * 0.01) * 100) / 100
        raise RequestError(
            f"max_cost={max_cost:g} is not enough; nothing was submitted",
            why=f"{_points(len(held))} may cost ${taken:,.2f} already, and {new} more were asked for",
            fix=f"max_cost={least:g} or more, or cancel what runs and take another name=",
        )
    return (round(share, 6),) * new


def may_cost(job: Job | None, used_usd: float, limit: float | None) -> float | None:
    """US dollars that a point may still come to, over all of its jobs; None: unknown.

    A job that ended and is not retried costs what it has cost; any other may use the whole limit.

    Args:
        used_usd: what the point's earlier jobs have used.
        limit: of the point.
    """
    cost = None if job is None or job.cost_usd is None else used_usd + job.cost_usd
    if job is not None and job.state.is_terminal and job.state not in TO_RETRY and cost is not None:
        return cost
    return None if limit is None else max(limit, cost or used_usd)  # a platform may be slow to stop it


def used_usd(job: Job, limit: float | None) -> float:
    """US dollars of a point's limit that a job counts as, once it is retried: the whole where unknown."""
    # a job that expired may have machines that ran to their limit without a word of their ranks
    is_known = job.cost_usd is not None and (job.state is not State.EXPIRED or job.started_at is not None)
    return (job.cost_usd if is_known else limit) or 0.0


def _points(count: int) -> str:
    return "1 point" if count == 1 else f"{count} points"
