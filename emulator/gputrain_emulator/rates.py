"""Requests per minute, in pools that refill at the synchronized minute (Compute Engine's API rate quotas)."""

from __future__ import annotations

from collections.abc import Callable
from typing import TYPE_CHECKING

from gputrain_emulator.errors import ApiError

if TYPE_CHECKING:
    from gputrain_emulator.world import Project

DEFAULT_PER_MINUTE = {
    "compute.reads": 1500,
    "compute.writes": 1500,
    "compute.operation_reads": 1500,
    "compute.heavy_reads": 1500,
    "compute.serial_reads": 1500,
    "aiplatform.requests": 600,
    "aiplatform.job_writes": 60,
    "logging.reads": 60,
}
"""Calls a minute by pool. Compute: legacy published default of 1,500 for each pool, the simplified pools'
numbers are per project (unverified). Vertex AI: 600 requests and 60 job writes per project and region
(cloud.google.com/vertex-ai/docs/quotas, read 2026-11-20). Logging: 60 ``entries.list`` per project
(cloud.google.com/logging/quotas, read 2026-11-20)."""


class Rates:
    """Counts of the running minute by project, pool and place."""

    def __init__(self, ticking: Callable[[], float], *, enforced: bool) -> None:
        self.enforced = enforced
        self.per_minute = dict(DEFAULT_PER_MINUTE)
        self._ticking = ticking
        self._minute = -1
        self._counts: dict[tuple[str, str, str], int] = {}

    def change(self, pool: str, per_minute: int) -> None:
        """Set a pool's calls a minute.

        Raises:
            LookupError: there is no such pool.
            ValueError: the calls are no whole number from 0 on.
        """
        if pool not in self.per_minute:
            raise LookupError(f"no such pool: {pool}; there are {', '.join(self.per_minute)}")
        if not isinstance(per_minute, int) or isinstance(per_minute, bool) or per_minute < 0:
            raise ValueError(f"calls a minute are a whole number from 0 on, not {per_minute!r:.100}")
        self.per_minute[pool] = per_minute

    def charge(self, pool: str, project: Project, place: str = "") -> None:
        """One more call; raises ApiError where the minute is spent."""
        limit = self.per_minute[pool]
        if not self.enforced:
            return
        minute = int(self._ticking() // 60)
        if minute != self._minute:
            self._minute = minute
            self._counts.clear()
        key = (project.id, pool, place)
        self._counts[key] = self._counts.get(key, 0) + 1
        if self._counts[key] > limit:
            service, _, metric = pool.partition(".")
            raise _rate_limited(service, metric, project.number)


def _rate_limited(service: str, metric: str, number: str) -> ApiError:
    """Compute Engine's 403 for a spent minute, or One Platform's 429."""
    is_compute = service == "compute"
    what = "Queries" if is_compute else f"{service}.googleapis.com/{metric}"
    limit = "Queries per minute" if is_compute else "requests per minute"
    message = (
        f"Quota exceeded for quota metric '{what}' and limit '{limit}' of service "
        f"'{service}.googleapis.com' for consumer 'project_number:{number}'."
    )
    domain = "usageLimits" if is_compute else "global"
    return ApiError(403 if is_compute else 429, message, reason="rateLimitExceeded", domain=domain)
