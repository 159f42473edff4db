"""Looks at many jobs with few calls: one list for a whole region instead of a call for each job.

There is no thread here. Whoever looks first lists; whoever looks soon after reads what was listed.
"""

from __future__ import annotations

from collections.abc import Mapping

import attrs

from gputrain.backends.vertex.jobs import CHANGES, PAGE_SIZE, JobService
from gputrain.backends.vertex.states import ENDED, SeenJob
from gputrain.gcp import LABEL_JOB, MissingError
from gputrain.gcp.shared import Kept, Shared

FEW = 2
"""Up to so many jobs are looked at one by one, which is the faster way to see their end."""

FRESH_S = 1.0
PAGE_COSTS_S = 1.1
"""A page of a hundred jobs in each 1.1 s: 55 calls a minute, of 600 allowed for a region (2026-11-20), and a
change among a thousand jobs is seen within 11 s. To parse a page costs some 15 ms of a core."""

FORGET_S = 120.0
"""A job that nobody asked for so long is not watched any more."""

MOST = 10_000
"""Jobs of one region that are watched at once."""


class RegionWatch:
    """The jobs of one region that somebody looks at."""

    def __init__(self, jobs: JobService, region: str) -> None:
        self._jobs = jobs
        self._region = region
        now = jobs.access.now
        self._known: Kept[str, SeenJob] = Kept(idle_s=FORGET_S, most=MOST, now=now)
        # those that may still change: to count them must not cost a look at each
        self._asked: Kept[str, bool] = Kept(idle_s=FORGET_S, most=MOST, now=now)
        self._singly: Shared[str, SeenJob] = Shared(fresh_s=lambda _: self._pause_s, now=now, most=MOST)
        self._together: Shared[str, Mapping[str, SeenJob]] = Shared(fresh_s=lambda _: self._pause_s, now=now)
        self._pause_s = FRESH_S

    def know(self, seen: SeenJob) -> None:
        """Take in a job that was just made, so that a list of what has changed is enough to see it."""
        self._known.put(seen.resource, seen)

    def look(self, resource: str) -> SeenJob:
        """The job as it was within the last seconds.

        Raises:
            MissingError: there is no such job any more.
        """
        known = self._known.get(resource)
        if known is not None and _is_final(known):
            self._asked.drop(resource)
            return known
        self._asked.put(resource, True)
        if len(self._asked) > FEW:
            listed = self._together.get(self._region, self._list).get(resource)
            if listed is not None:
                return listed
        else:
            self._pause_s = FRESH_S
        return self._singly.get(resource, lambda: self._get(resource))

    def _get(self, resource: str) -> SeenJob:
        """One call for one job; the list leaves out those that have ended."""
        try:
            return self._known.put(resource, self._jobs.get(resource))
        except MissingError:
            self._known.drop(resource)
            self._asked.drop(resource)
            raise

    def _list(self) -> Mapping[str, SeenJob]:
        live = " AND ".join(f'state!="{name}"' for name in sorted(ENDED))
        wanted = f"labels.{LABEL_JOB}:* AND {live}"
        known, asked = dict(self._known.items()), dict(self._asked.items())
        # What one list lacks is looked for by its name, so that a list need not be whole.
        if asked.keys() <= known.keys():
            found = self._jobs.list(self._region, wanted, CHANGES).seen
            listed = [_changed(known[one.resource], one) for one in found if one.resource in known]
        else:
            listed = list(found := self._jobs.list(self._region, wanted).seen)
        self._pause_s = max(FRESH_S, -(-len(found) // PAGE_SIZE) * PAGE_COSTS_S)
        return {seen.resource: self._known.put(seen.resource, seen) for seen in listed}


def _changed(known: SeenJob, new: SeenJob) -> SeenJob:
    """The job as it was known, with what has changed."""
    return attrs.evolve(
        known,
        state=new.state,
        started_at=new.started_at,
        ended_at=new.ended_at,
        error=new.error,
        error_code=new.error_code,
        terminals=new.terminals,
    )


def _is_final(seen: SeenJob) -> bool:
    """An end with its reason told; a failure's reason comes about a minute later."""
    return seen.has_ended and (seen.state == "JOB_STATE_SUCCEEDED" or bool(seen.error))
