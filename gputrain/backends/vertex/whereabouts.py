"""Where the custom job of a name is: in whichever region by now, and the one that counts of several.

Others of the project may have jobs of the same id, by records in buckets of their own: these are no jobs of
ours.
"""

from __future__ import annotations

import contextlib
from collections import Counter
from collections.abc import Sequence

from gputrain.backends.base import JobRef
from gputrain.backends.vertex.identity import (
    LOOK_EVERY_S,
    SETTLE_S,
    Holder,
    Latest,
    effective,
    extras,
    find_all,
)
from gputrain.backends.vertex.jobs import JobService
from gputrain.backends.vertex.settings import VertexSettings
from gputrain.backends.vertex.states import SeenJob
from gputrain.errors import JobLostError, RequestError
from gputrain.gcp import LABEL_JOB, Listing, MissingError
from gputrain.gcp.listing import listing_of
from gputrain.gcp.shared import Kept
from gputrain.records import Board, Record, surely

FORGET_S = 600.0
"""Where a job is that nobody looked at for so long is asked for anew."""

MOVED_S = 5.0
"""How long it is believed that a job that found no machines was not made elsewhere."""


class Whereabouts:
    """Finds jobs by their labels, once, and remembers where they are. It changes nothing.

    Whoever names no bucket finds those of all, and takes up none where a name is of several.
    """

    def __init__(self, jobs: JobService, settings: VertexSettings, holder: Holder, latest: Latest) -> None:
        self.jobs = jobs
        self._regions = settings.regions
        self._home = settings.home_label
        self._holder = holder
        self._latest = latest
        self._places: Kept[str, tuple[str, bool]] = Kept(idle_s=FORGET_S)  # and whether it is doubled

    def note(self, name: str, resource: str, *, is_doubled: bool | None = None) -> None:
        """The job of that name is this one now; ``is_doubled``: others were seen to go on beside it."""
        self._places.put(name, (resource, self.is_doubled(name) if is_doubled is None else is_doubled))

    def of(self, ref: JobRef) -> str:
        """The resource name of the one job that counts.

        Raises:
            JobLostError: there is none.
        """
        known = self._places.get(ref.name)
        return self.found_anew(ref).resource if known is None else known[0]

    def found_anew(self, ref: JobRef) -> SeenJob:
        """The one job that counts, looked for in lists. Raises as `of`."""
        found = self.all(ref)
        if not found:
            raise lost(ref)
        seen = effective(found, self._holder, self._latest) or max(found, key=lambda one: str(one.created_at))
        self.note(ref.name, seen.resource, is_doubled=bool(extras(found, seen)))
        return seen

    def is_doubled(self, name: str) -> bool:
        """Whether other jobs of the id were seen to go on beside the one that counts."""
        known = self._places.get(name)
        return known is not None and known[1]

    def follow(self, ref: JobRef, seen: SeenJob, number: str) -> None:
        """Note the job of that number, which ran instead of one that was seen: in whichever region it is.

        None of another id or home: containers wrote the number, and whoever cancels ends what was noted.

        Raises:
            JobLostError: it is gone.
        """
        found = next((one for one in self.all(ref) if one.number == number), None)
        try:
            found = found or self.jobs.get(f"{seen.resource.rpartition('/')[0]}/{number}")
        except MissingError as error:
            raise lost(ref) from error
        if found.job_id == ref.name and self._is_ours(found):
            self.note(ref.name, found.resource)

    def forget(self, name: str) -> None:
        """What was noted is no more: the job may have been made anew."""
        self._places.drop(name)

    def find(self, name: str) -> Listing[SeenJob]:
        """Jobs of ours in these regions, newest first; those whose id starts with ``name``."""
        lists = {region: self.jobs.list(region, f"labels.{LABEL_JOB}:*") for region in self._regions}
        listed = (seen for one in lists.values() for seen in one.seen)
        found = [seen for seen in listed if seen.job_id.startswith(name) and self._is_ours(seen)]
        left_out = [f"{region}: {why}" for region, one in lists.items() for why in one.left_out]
        once_only = Counter(seen.job_id for seen in found)
        for seen in found:  # so that a thousand listed jobs are not looked for one by one
            if once_only[seen.job_id] == 1 and self._places.get(seen.job_id) is None:
                self.note(seen.job_id, seen.resource)
        return listing_of(sorted(found, key=lambda seen: str(seen.created_at), reverse=True), left_out)

    def all(self, ref: JobRef) -> tuple[SeenJob, ...]:
        """Every job of the id: where it was made first, wherever its labels say that it may have gone.

        Also the one that was noted, which no list may show yet.

        Raises:
            RequestError: without a bucket of one's own nobody can tell which of several is meant.
        """
        places = tuple(dict.fromkeys([ref.place, *self._regions]))
        found = self._listed(places, ref.name)
        told = dict.fromkeys(region for one in found for region in one.regions)
        found += self._listed([one for one in told if one not in places], ref.name)
        check_alone(found)
        known = self._places.get(ref.name)
        if known is not None and known[0] not in {seen.resource for seen in found}:
            with contextlib.suppress(MissingError):  # deleted: that says nothing of the others
                return (*found, self.jobs.get(known[0]))
        return found

    def _listed(self, regions: Sequence[str], name: str) -> tuple[SeenJob, ...]:
        return tuple(filter(self._is_ours, find_all(self.jobs, regions, name)))

    def _is_ours(self, seen: SeenJob) -> bool:
        return not (seen.home and self._home) or seen.home == self._home

    def settled(self, ref: JobRef, board: Board | None) -> tuple[SeenJob, ...]:
        """As `all`; one that was asked for a moment ago is waited for.

        None at all where one was asked for, and no list shows it.

        Raises:
            JobLostError: there is none, and none was asked for.
        """
        waited_s = 0.0
        while True:
            found = self.all(ref)
            if found:
                return found
            record = self._record(ref, board)
            if record is None or not record.is_open:
                raise lost(ref)
            if max(record.age_s, waited_s) > SETTLE_S:
                return ()
            self.jobs.access.sleep(LOOK_EVERY_S)
            waited_s += LOOK_EVERY_S

    def _record(self, ref: JobRef, board: Board | None) -> Record | None:
        try:
            return None if board is None else surely(lambda: board.read(ref.name))
        except MissingError as error:  # the bucket is gone, and with it what was written of the job
            raise lost(ref) from error


def check_alone(found: Sequence[SeenJob]) -> None:
    """See that jobs of one id are one user's. RequestError: the records of several buckets tell of them."""
    homes = {seen.home for seen in found if seen.home}
    if len(homes) > 1:
        raise RequestError(
            f"{found[0].job_id} is the name of jobs of {len(homes)} buckets, or prefixes of one",
            why="each belongs to whoever submitted it, and only its bucket tells whose it is",
            fix="name the one that is meant: VertexAI(..., bucket='gs://my-bucket'), as it was submitted",
        )


def lost(ref: JobRef) -> JobLostError:
    """The error for a job that is not there."""
    return JobLostError(
        f"{ref.name} is not in {ref.place}",
        why=f"project {ref.project} has no custom job there with the label {LABEL_JOB}={ref.name}",
        fix="check the project and region of the name; the job may have been deleted",
        uri=ref.uri,
    )
