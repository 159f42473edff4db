"""Lock objects tell which of two jobs of one id takes effect, and how often it was started again."""

from __future__ import annotations

import json
import re
from collections.abc import Callable

import attrs

from gputrain.backends.vertex import render
from gputrain.backends.vertex.jobs import JobService
from gputrain.backends.vertex.states import SeenJob
from gputrain.entrypoint import contract
from gputrain.errors import PermissionDeniedError, RequestError, TransientError
from gputrain.gcp import MissingError, Objects, PreconditionError
from gputrain.gcp.buckets import BucketPrefix
from gputrain.gcp.objects import Stored
from gputrain.gcp.shared import Kept
from gputrain.records import CANCELLED
from gputrain.records.board import TRIES

BARRED = f"{CANCELLED} until it is asked for again"
"""In a lock that may be given back."""

_BARRED = re.compile(rf"{BARRED}(?: ([0-9]{{1,30}}))?")
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

    def is_idle(self, seen: SeenJob) -> bool:
        """Whether a job has said that it did nothing, as it did not have the lock."""
        place = self._place(seen)
        if place is None:
            return False
        mark = f"{place[1]}-{contract.IDLE}-{seen.number}"
        try:
            return Objects(self._jobs.access, place[0].name).stat(mark) is not None
        except PermissionDeniedError:  # as in `_read`
            return False

    def take(self, job_id: str) -> None:
        """Take the lock of an id for good, so that no container of it begins any more; not from a job.

        Raises:
            AccessError, TransientError: as Cloud Storage answers.
        """
        self._hold(job_id, CANCELLED, lambda _: True)

    def bar(self, job_id: str, turn: int) -> None:
        """The same, until it is given back. Errors as of `take`.

        Args:
            turn: the generation of the record by which it is done: who is slow undoes nothing that was done
                by a later one.
        """
        self._hold(job_id, f"{BARRED} {turn}", lambda barred: barred < turn)

    def _hold(self, job_id: str, text: str, is_due: Callable[[int], bool]) -> None:
        """Write a lock, also over one of a turn that may give way; a job's own stays."""
        generation = 0
        for _ in range(TRIES):
            if self._is_put(job_id, text, generation):
                return
            found = self._found(job_id)
            if found is not None and ((barred := _turn(found)) is None or not is_due(barred)):
                return  # a job has it, which is ended as a job, or a turn that is later
            generation = 0 if found is None else found.generation
        raise TransientError(f"the lock of {job_id} is another one each time", fix="do the same once more")

    def give_back(self, job_id: str, turn: int) -> None:
        """Remove the lock that `bar` took, not for a later turn. Errors as of `take`."""
        found = self._found(job_id)
        barred = None if found is None else _turn(found)
        if self._bucket is not None and found is not None and barred is not None and barred <= turn:
            name = render.lock_of(self._bucket, job_id)  # not one that was cancelled meanwhile
            Objects(self._jobs.access, self._bucket.name).remove(name, if_generation=found.generation)

    def _is_put(self, job_id: str, text: str, generation: int = 0) -> bool:
        """Write the lock of an id; False where it is another one by now, which stays."""
        if self._bucket is None:
            return True
        objects, name = Objects(self._jobs.access, self._bucket.name), render.lock_of(self._bucket, job_id)
        try:
            objects.write(name, text.encode(), if_generation=generation)
        except PreconditionError:
            return False
        return True

    def _found(self, job_id: str) -> Stored | None:
        if self._bucket is None:
            return None
        return Objects(self._jobs.access, self._bucket.name).read(render.lock_of(self._bucket, job_id))

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


def _turn(lock: Stored) -> int | None:
    """For whose turn a lock is barred; None where it is not."""
    told = _BARRED.fullmatch(lock.content[:100].decode("utf-8", "replace"))
    return None if told is None else int(told[1] or 0)
