"""Looks at many jobs with few calls: one list for a whole region instead of a call for each job.

There is no thread here. Whoever looks first lists; whoever looks soon after reads what was listed.
"""

from __future__ import annotations

import threading

from gputrain.backends.vertex.jobs import PAGE_SIZE, Jobs
from gputrain.backends.vertex.states import ENDED, Seen
from gputrain.gcp import LABEL_JOB, MissingError

FEW = 2
"""Up to so many jobs are looked at one by one, which is the faster way to see their end."""

FRESH_S = 1.0
PAGE_COSTS_S = 0.6
"""A page in each 0.6 s is 100 calls a minute, of 600 allowed for a region (2026-11-20)."""

FORGET_S = 120.0
"""A job that nobody asked for so long is not watched any more."""


class Watch:
    """The jobs of one region that somebody looks at."""

    def __init__(self, jobs: Jobs, region: str) -> None:
        self._jobs = jobs
        self._region = region
        self._now = jobs.access.now
        self._lock = threading.Lock()
        self._seen: dict[str, tuple[float, Seen]] = {}
        self._asked: dict[str, float] = {}
        self._fresh_s = FRESH_S

    def look(self, resource: str) -> Seen:
        """The job as it was within the last seconds.

        Raises:
            MissingError: there is no such job any more.
        """
        with self._lock:
            now = self._now()
            self._asked[resource] = now
            at, seen = self._seen.get(resource, (float("-inf"), None))
            if seen is not None and (_is_final(seen) or 0 <= now - at < self._fresh_s):
                return seen
            self._forget(now)
            if len(self._asked) <= FEW:
                self._fresh_s = FRESH_S
                return self._get(resource, now)
            self._list(now)
            at, seen = self._seen.get(resource, (float("-inf"), None))
            return seen if seen is not None and at == now else self._get(resource, now)

    def _get(self, resource: str, now: float) -> Seen:
        """One call for one job; the list leaves out those that have ended."""
        try:
            seen = self._jobs.get(resource)
        except MissingError:
            self._seen.pop(resource, None)
            self._asked.pop(resource, None)
            raise
        self._seen[resource] = (now, seen)
        return seen

    def _list(self, now: float) -> None:
        live = " AND ".join(f'state!="{name}"' for name in sorted(ENDED))
        listed = self._jobs.list(self._region, f"labels.{LABEL_JOB}:* AND {live}")
        pages = -(-len(listed.items) // PAGE_SIZE) or 1
        self._fresh_s = max(FRESH_S, pages * PAGE_COSTS_S)
        kept = {one: self._seen[one] for one in self._seen if one in self._asked}
        self._seen = {**kept, **{seen.resource: (now, seen) for seen in listed.items}}

    def _forget(self, now: float) -> None:
        for resource in [one for one, at in self._asked.items() if now - at > FORGET_S]:
            del self._asked[resource]
            self._seen.pop(resource, None)
        for resource in [one for one, (_, seen) in self._seen.items() if _is_final(seen)]:
            self._asked.pop(resource, None)


def _is_final(seen: Seen) -> bool:
    """An end with its reason told; a failure's reason comes about a minute later."""
    return seen.has_ended and (seen.state == "JOB_STATE_SUCCEEDED" or bool(seen.error))
