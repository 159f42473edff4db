"""Lock objects tell which of two jobs of one id takes effect, and how often it was started again."""

from __future__ import annotations

import contextlib
import json
import re

import attrs

from gputrain.backends.vertex import render
from gputrain.backends.vertex.jobs import JobService
from gputrain.backends.vertex.states import SeenJob
from gputrain.errors import PermissionDeniedError, RequestError
from gputrain.gcp import MissingError, Objects, PreconditionError
from gputrain.gcp.buckets import BucketPrefix
from gputrain.gcp.shared import Kept
from gputrain.records import CANCELLED

_LOCK = re.compile(rf"([0-9]{{1,30}}|{CANCELLED})(?:$| (?:([0-9]{{1,9}})$)?)")
"""Which job has it, and how often that was started again; whatever runs in the job may write other things."""


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
        return self._read(self._place(seen))

    def of_id(self, job_id: str) -> Lock:
        """The lock of an id in the backend's bucket."""
        bucket = self._bucket
        return Lock() if bucket is None else self._read((bucket, render.lock_of(bucket, job_id)))

    def _read(self, place: tuple[BucketPrefix, str] | None) -> Lock:
        if place is None:
            return Lock()
        try:
            found = Objects(self._jobs.access, place[0].name).read(place[1])
        except PermissionDeniedError:  # somebody who may watch jobs, but not read the bucket
            return Lock()
        text = "" if found is None else found.content[:100].decode("utf-8", "replace")
        told = _LOCK.match(text)
        return Lock() if told is None else Lock(number=told[1], restarts=int(told[2] or 0))

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

    def give_back(self, job_id: str) -> None:
        """Remove the lock of an id that was taken so that no job has it. Errors as of `take`."""
        if self._bucket is not None:
            objects, name = (
                Objects(self._jobs.access, self._bucket.name),
                render.lock_of(self._bucket, job_id),
            )
            found = objects.read(name)
            if found is not None and found.content == CANCELLED.encode():
                objects.remove(name, if_generation=found.generation)

    def release(self, seen: SeenJob) -> None:
        """Remove the lock that a job has taken which ended: another of its id may begin.

        Raises:
            AccessError, TransientError: as Cloud Storage answers.
        """
        place = self._place(seen)
        if place is None:
            return
        objects = Objects(self._jobs.access, place[0].name)
        found = objects.read(place[1])
        if found is not None and found.content.partition(b" ")[0] == seen.number.encode():
            objects.remove(place[1], if_generation=found.generation)

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
        except (
            MissingError,
            LookupError,
            RecursionError,
            TypeError,
            ValueError,
        ):  # deleted, or no job of ours
            return None
