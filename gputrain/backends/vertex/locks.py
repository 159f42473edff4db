"""The lock objects of jobs: which of two jobs of one id takes effect, and how often it was started again."""

from __future__ import annotations

import contextlib
import json

import attrs

from gputrain.backends.vertex import render
from gputrain.backends.vertex.jobs import JobService
from gputrain.backends.vertex.states import SeenJob
from gputrain.errors import PermissionDeniedError, RequestError
from gputrain.gcp import MissingError, Objects, PreconditionError
from gputrain.gcp.shared import Kept
from gputrain.records import CANCELLED
from gputrain.staging.upload import BucketPrefix


@attrs.frozen(kw_only=True)
class Lock:
    """What node 0 of the job that takes effect has written."""

    number: str = ""
    """Vertex AI's number of that job; empty before any took the lock, or if we may not look.

    `CANCELLED` where somebody has taken it so that none does."""
    restarts: int = 0


class Locks:
    """Reads locks: in the backend's bucket, or where the job's own order says, if the backend has none."""

    def __init__(self, jobs: JobService, bucket: BucketPrefix | None) -> None:
        self._jobs = jobs
        self._bucket = bucket
        self._places: Kept[str, tuple[tuple[BucketPrefix, str] | None]] = Kept()

    def of(self, seen: SeenJob) -> Lock:
        """The lock of the id that a job has."""
        place = self._place(seen)
        if place is None:
            return Lock()
        try:
            found = Objects(self._jobs.access, place[0].name).read(place[1])
        except PermissionDeniedError:  # somebody who may watch jobs, but not read the bucket
            return Lock()
        number, _, restarts = ("" if found is None else found.content.decode("utf-8", "replace")).partition(
            " "
        )
        return Lock(number=number, restarts=int(restarts) if restarts.isdecimal() else 0)

    def holder(self, seen: SeenJob) -> str:
        """The number of the job that has the lock of a job's id; empty where none does."""
        return self.of(seen).number

    def take(self, job_id: str) -> None:
        """Take the lock of an id that no job has, so that none of its containers begins any more.

        Raises:
            AccessError, TransientError: as Cloud Storage answers.
        """
        if self._bucket is not None:
            name = render.lock_of(self._bucket, job_id)
            with contextlib.suppress(PreconditionError):  # a job has it: that one is ended as a job
                Objects(self._jobs.access, self._bucket.name).write(name, CANCELLED.encode(), if_generation=0)

    def beside(self, seen: SeenJob) -> tuple[Objects, str]:
        """Where a job's containers look for words of its own, and how their names begin there.

        Raises:
            RequestError: the job names no bucket.
        """
        place = self._place(seen)
        if place is None:
            raise RequestError(f"{seen.job_id} has no bucket", fix="ask where the job was submitted from")
        return Objects(self._jobs.access, place[0].name), f"{place[1]}-"

    def _place(self, seen: SeenJob) -> tuple[BucketPrefix, str] | None:
        if self._bucket is not None:
            return self._bucket, render.lock_of(self._bucket, seen.job_id)
        known = self._places.get(seen.resource) or self._places.put(seen.resource, (self._ordered(seen),))
        return known[0]

    def _ordered(self, seen: SeenJob) -> tuple[BucketPrefix, str] | None:
        try:
            spec = self._jobs.document(seen.resource)["jobSpec"]
            order = json.loads(spec["workerPoolSpecs"][0]["containerSpec"]["args"][0])
            return BucketPrefix(name=str(order["bucket"])), str(order["lock"])
        except (MissingError, LookupError, ValueError, TypeError):  # deleted, or no job of ours
            return None


class Restarts:
    """How often jobs were started again: Vertex AI does not tell, but locks do, and so does a look.

    It counts what its looks see, and reads the lock where others may have seen more: first and last.
    """

    def __init__(self, locks: Locks) -> None:
        self._locks = locks
        self._known: Kept[str, tuple[int, bool]] = Kept()

    def of(self, seen: SeenJob) -> int:
        """0 for a job in its first run, one more for each restart."""
        if not seen.may_restart:
            return 0
        count, ran = self._known.get(seen.resource) or (None, False)
        runs = seen.state == "JOB_STATE_RUNNING"
        if seen.started_at is None:
            count, runs = 0, True  # the run to come is the first
        elif count is None or seen.has_ended:
            count = max(count or 0, self._locks.of(seen).restarts)
        elif runs and not ran:
            count += 1
        return self._known.put(seen.resource, (count, runs))[0]
