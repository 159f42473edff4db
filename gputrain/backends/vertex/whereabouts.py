"""Where jobs are: from a name to the custom job that counts, in whichever region it is by now."""

from __future__ import annotations

from collections import Counter
from collections.abc import Sequence

from gputrain.backends.base import JobRef
from gputrain.backends.vertex import once
from gputrain.backends.vertex.jobs import JobService
from gputrain.backends.vertex.states import SeenJob
from gputrain.errors import JobLostError
from gputrain.gcp import LABEL_JOB, MissingError
from gputrain.gcp.shared import Kept
from gputrain.records import Board, Record


class Whereabouts:
    """Finds jobs by their labels, once, and remembers where they are. It changes nothing."""

    def __init__(self, jobs: JobService, regions: Sequence[str], holder: once.Holder) -> None:
        self.jobs = jobs
        self._regions = regions
        self._holder = holder
        self._resources: Kept[str, str] = Kept()
        self._doubled: Kept[str, bool] = Kept()

    def note(self, name: str, resource: str) -> None:
        """The job of that name is this one now."""
        self._resources.put(name, resource)

    def of(self, ref: JobRef) -> str:
        """The resource name of the one job that counts.

        Raises:
            JobLostError: there is none.
        """
        known = self._resources.get(ref.name)
        return self.found_anew(ref).resource if known is None else known

    def found_anew(self, ref: JobRef) -> SeenJob:
        """The one job that counts, looked for in lists. Raises as `of`."""
        found = self.all(ref)
        if not found:
            raise lost(ref)
        seen = once.effective(found, self._holder) or max(found, key=lambda one: str(one.created_at))
        self._doubled.put(ref.name, bool(once.extras(found, seen)))
        self.note(ref.name, seen.resource)
        return seen

    def is_doubled(self, name: str) -> bool:
        """Whether other jobs of the id were seen to go on beside the one that counts."""
        return bool(self._doubled.get(name))

    def find(self, name: str) -> list[SeenJob]:
        """Jobs of ours in these regions, newest first; those whose id starts with ``name``."""
        found = [
            seen
            for region in self._regions
            for seen in self.jobs.list(region, f"labels.{LABEL_JOB}:*").seen
            if seen.job_id.startswith(name)
        ]
        once_only = Counter(seen.job_id for seen in found)
        for seen in found:  # so that a thousand listed jobs are not looked for one by one
            if once_only[seen.job_id] == 1 and self._resources.get(seen.job_id) is None:
                self.note(seen.job_id, seen.resource)
        return sorted(found, key=lambda seen: str(seen.created_at), reverse=True)

    def all(self, ref: JobRef) -> tuple[SeenJob, ...]:
        """Every job of the id: where it was made first, and wherever its labels say that it may have gone."""
        places = tuple(dict.fromkeys([ref.place, *self._regions]))
        found = once.find_all(self.jobs, places, ref.name)
        told = dict.fromkeys(region for one in found for region in one.regions)
        return found + once.find_all(self.jobs, [one for one in told if one not in places], ref.name)

    def settled(self, ref: JobRef, board: Board | None) -> tuple[SeenJob, ...]:
        """As `all`, and the one that was noted; one that was asked for a moment ago is waited for.

        None at all where one was asked for, and no list shows it.

        Raises:
            JobLostError: there is none, and none was asked for.
        """
        waited_s = 0.0
        while True:
            found = self.all(ref)
            known = self._resources.get(ref.name)
            if known is not None and known not in {seen.resource for seen in found}:
                found = (*found, self._one(ref, known))
            if found:
                return found
            record = self._record(ref, board)
            if record is None or not record.is_open:
                raise lost(ref)
            if max(record.age_s, waited_s) > once.SETTLE_S:
                return ()
            self.jobs.access.sleep(once.LOOK_EVERY_S)
            waited_s += once.LOOK_EVERY_S

    def _record(self, ref: JobRef, board: Board | None) -> Record | None:
        try:
            return None if board is None else board.read(ref.name)
        except MissingError as error:  # the bucket is gone, and with it what was written of the job
            raise lost(ref) from error

    def _one(self, ref: JobRef, resource: str) -> SeenJob:
        try:
            return self.jobs.get(resource)
        except MissingError as error:
            raise lost(ref) from error


def lost(ref: JobRef) -> JobLostError:
    """The error for a job that is not there."""
    return JobLostError(
        f"{ref.name} is not in {ref.place}",
        why=f"project {ref.project} has no custom job there with the label {LABEL_JOB}={ref.name}",
        fix="check the project and region of the name; the job may have been deleted",
        uri=ref.uri,
    )
