"""A job that found no machines in its region, made again in the next one."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from typing import Any

import attrs

from gputrain.backends.vertex import once
from gputrain.backends.vertex.diagnosis import is_capacity
from gputrain.backends.vertex.jobs import Jobs
from gputrain.backends.vertex.states import Seen
from gputrain.errors import CapacityError
from gputrain.lifecycle import Observation, State

_KEPT = ("displayName", "labels", "jobSpec", "encryptionSpec")


class Elsewhere:
    """Knows which region is next for a job id, and moves the job there."""

    def __init__(self, jobs: Jobs, regions: Sequence[str], holder: once.Holder) -> None:
        self._jobs = jobs
        self._regions = regions
        self._holder = holder
        self._left: dict[str, tuple[str, ...]] = {}

    def untried(self, dead: Seen) -> tuple[str, ...]:
        """The regions that are left for a job that ended before it ran because there were no machines."""
        if not dead.has_ended or dead.started_at is not None or not is_capacity(dead.error):
            return ()
        regions = self.regions(dead)
        if len(regions) < 2:
            return ()
        if dead.resource not in self._left:
            tried = {seen.region for seen in once.find_all(self._jobs, regions, dead.job_id)}
            self._left[dead.resource] = tuple(one for one in regions if one not in tried)
        return self._left[dead.resource]

    def move(self, dead: Seen) -> Seen | None:
        """Make the job again in the next region that takes it; None where none does.

        A job of the same id that another watcher has made meanwhile is taken up.
        """
        left = self.untried(dead)
        if not left:
            return None
        found = once.find_all(self._jobs, self.regions(dead), dead.job_id)
        made = once.effective(found, self._holder)
        if made is not None:
            return made
        document = self._jobs.document(dead.resource)
        for region in left:
            made = self._made(document, region, dead)
            if made is not None:
                return made
        self._left[dead.resource] = ()
        return None

    def regions(self, seen: Seen) -> tuple[str, ...]:
        """Where the job may be: as its labels say, whatever regions this process was told of."""
        return seen.regions or tuple(self._regions)

    def _made(self, document: Mapping[str, Any], region: str, dead: Seen) -> Seen | None:
        body = moved(document, is_home=region == self.regions(dead)[0])
        try:
            return once.create_once(self._jobs, region, body, dead.job_id, self._holder)
        except CapacityError:
            return None


def moved(document: Mapping[str, Any], *, is_home: bool) -> dict[str, Any]:
    """The request that makes a job like this one. Pure.

    The output folder stays behind: Vertex AI takes one in the job's own region only.
    """
    body = {name: document[name] for name in _KEPT if name in document}
    if not is_home:
        body["jobSpec"] = {
            key: value for key, value in body["jobSpec"].items() if key != "baseOutputDirectory"
        }
    return body


def waiting(seen: Observation, region: str, next_region: str) -> Observation:
    """The observation of a job that is to be made again elsewhere."""
    detail = f"{region} has no machines; {next_region} is next"
    return attrs.evolve(
        seen, state=State.INTERRUPTED, detail=detail, failure=None, exit_code=None, ended_at=None
    )
