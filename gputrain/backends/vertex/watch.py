"""Looks at many jobs with few calls: one list for a whole region instead of a call for each job.

There is no thread here. Whoever looks first lists; whoever looks soon after reads what was listed.
"""

from __future__ import annotations

import threading

import attrs

from gputrain.backends.vertex.jobs import CHANGES, PAGE_SIZE, JobService
from gputrain.backends.vertex.states import ENDED, SeenJob
from gputrain.gcp import LABEL_JOB, MissingError

FEW = 2
"""Up to so many jobs are looked at one by one, which is the faster way to see their end."""

FRESH_S = 1.0
PAGE_COSTS_S = 1.1
"""A page of a hundred jobs in each 1.1 s: 55 calls a minute, of 600 allowed for a region (2026-11-20), and a
change among a thousand jobs is seen within 11 s. To parse a page costs some 15 ms of a core."""

FORGET_S = 120.0
"""A job that nobody asked for so long is not watched any more."""


class RegionWatch:
    """The jobs of one region that somebody looks at."""

    def __init__(self, jobs: JobService, region: str) -> None:
        self._jobs = jobs
        self._region = region
        self._now = jobs.access.now
        self._lock = threading.Lock()
        self._seen: dict[str, tuple[float, SeenJob]] = {}
        self._asked: dict[str, float] = {}
        self._fresh_s = FRESH_S
        self._listed_at = float("-inf")

    def look(self, resource: str) -> SeenJob:
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
            if self._watched() <= FEW:
                self._fresh_s = FRESH_S
                return self._get(resource, now)
            if not 0 <= now - self._listed_at < self._fresh_s:
                self._list(now)
                at, seen = self._seen.get(resource, (float("-inf"), None))
            return seen if seen is not None and at == now else self._get(resource, now)

    def _get(self, resource: str, now: float) -> SeenJob:
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
        wanted = f"labels.{LABEL_JOB}:* AND {live}"
        if any(one not in self._seen for one in self._asked):
            changes = listed = self._jobs.list(self._region, wanted).items
        else:
            changes = self._jobs.list(self._region, wanted, CHANGES).items
            listed = tuple(self._changed(one) for one in changes if one.resource in self._asked)
        self._fresh_s = max(FRESH_S, -(-len(changes) // PAGE_SIZE) * PAGE_COSTS_S)
        kept = {one: self._seen[one] for one in self._seen if one in self._asked}
        self._seen = {**kept, **{seen.resource: (now, seen) for seen in listed}}
        self._listed_at = now

    def _changed(self, new: SeenJob) -> SeenJob:
        """The job as it was known, with what has changed."""
        _, known = self._seen[new.resource]
        told = (known.state, known.started_at, known.ended_at, known.error)
        if told == (new.state, new.started_at, new.ended_at, new.error):
            return known
        return attrs.evolve(
            known,
            state=new.state,
            started_at=new.started_at,
            ended_at=new.ended_at,
            error=new.error,
            error_code=new.error_code,
        )

    def _forget(self, now: float) -> None:
        for resource in [one for one, at in self._asked.items() if now - at > FORGET_S]:
            del self._asked[resource]
            self._seen.pop(resource, None)

    def _watched(self) -> int:
        """How many jobs may still change."""
        return sum(one not in self._seen or not _is_final(self._seen[one][1]) for one in self._asked)


def _is_final(seen: SeenJob) -> bool:
    """An end with its reason told; a failure's reason comes about a minute later."""
    return seen.has_ended and (seen.state == "JOB_STATE_SUCCEEDED" or bool(seen.error))
