"""Where jobs are: from a name to the custom job that counts, in whichever region it is by now."""

from __future__ import annotations

import threading
from collections.abc import Sequence

from gputrain.backends.base import JobRef
from gputrain.backends.vertex import once
from gputrain.backends.vertex.elsewhere import Elsewhere
from gputrain.backends.vertex.jobs import Jobs
from gputrain.backends.vertex.states import Seen
from gputrain.errors import JobLostError
from gputrain.gcp import LABEL_JOB


class Whereabouts:
    """Finds jobs by their labels, once, and remembers where they are."""

    def __init__(self, jobs: Jobs, regions: Sequence[str], elsewhere: Elsewhere, holder: once.Holder) -> None:
        self._jobs = jobs
        self._regions = regions
        self._elsewhere = elsewhere
        self._holder = holder
        self._lock = threading.Lock()
        self._resources: dict[str, str] = {}

    def note(self, name: str, resource: str) -> None:
        """The job of that name is this one now."""
        with self._lock:
            self._resources[name] = resource

    def of(self, ref: JobRef) -> str:
        """The resource name of the one job that counts; others of its id that do nothing are ended.

        Raises:
            JobLostError: there is none.
        """
        if ref.name not in self._resources:
            found = self._all(ref)
            if not found:
                raise lost(ref)
            seen = once.effective(found, self._holder) or max(found, key=lambda one: str(one.created_at))
            once.cancel_extras(self._jobs, found, seen, self._holder)
            self.note(ref.name, seen.resource)
        return self._resources[ref.name]

    def find(self, name: str) -> list[Seen]:
        """Jobs of ours in these regions, newest first; those whose id starts with ``name``."""
        found = [
            seen
            for region in self._regions
            for seen in self._jobs.list(region, f"labels.{LABEL_JOB}:*").items
            if seen.job_id.startswith(name)
        ]
        return sorted(found, key=lambda seen: str(seen.created_at), reverse=True)

    def _all(self, ref: JobRef) -> tuple[Seen, ...]:
        """Every job of the id: where it was made first, and wherever it may have moved to since."""
        places = tuple(dict.fromkeys([ref.place, *self._regions]))
        found = once.find_all(self._jobs, places, ref.name)
        if found and once.effective(found, self._holder) is None:
            others = [one for one in self._elsewhere.regions(found[0]) if one not in places]
            found += once.find_all(self._jobs, others, ref.name)
        return found


def lost(ref: JobRef) -> JobLostError:
    """The error for a job that is not there."""
    return JobLostError(
        f"{ref.name} is not in {ref.place}",
        why=f"project {ref.project} has no custom job there with the label {LABEL_JOB}={ref.name}",
        fix="check the project and region of the name; the job may have been deleted",
        uri=ref.uri,
    )
