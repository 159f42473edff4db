"""Vertex AI's side of a record: from what was asked for to the custom job that bears its nonce."""

from __future__ import annotations

import contextlib
from collections.abc import Sequence
from typing import ClassVar

import attrs

from gputrain.backends.base import JobRef
from gputrain.backends.google import BucketRecorder, addressed
from gputrain.backends.vertex import identity
from gputrain.backends.vertex.locks import Locks
from gputrain.backends.vertex.offers import NAME
from gputrain.backends.vertex.settings import VertexSettings
from gputrain.backends.vertex.states import SeenJob
from gputrain.backends.vertex.whereabouts import Whereabouts
from gputrain.errors import (
    AccessError,
    CapacityError,
    JobLostError,
    RequestError,
    Scope,
)
from gputrain.gcp import Access, MissingError
from gputrain.gcp.buckets import BucketPrefix
from gputrain.lifecycle import Observation, State
from gputrain.records import CANCELLED, WITHDRAWN, Ask, BucketBoard, Record, RecordError, surely


@attrs.define(kw_only=True, eq=False)
class CustomJobRecorder(BucketRecorder[VertexSettings]):
    """As of `Recorder`."""

    whereabouts: Whereabouts
    locks: Locks
    settles_s: float = attrs.field(default=4.0, init=False)
    """Jobs are found in lists, which promise nothing."""
    turn_s: float = attrs.field(default=180.0, init=False)
    """Longer than a create may take with its repetitions; until then lists may show what it made."""
    repeats: bool = attrs.field(default=False, init=False)
    """Vertex AI knows no request ids."""
    kept: ClassVar[tuple[str, ...]] = (
        "service_account", "network", "network_attachment", "tensorboard", "persistent_resource", "kms_key",
        "disk_gib", "disk_type", "reduction_server", "enable_web_access", "nfs_mounts", "experiment",
        "experiment_run",
    )  # fmt: skip

    def name_of(self, record: Record) -> JobRef:
        """The job's name, with the region that was asked last."""
        place = next((one.way.place for one in reversed(record.asks) if one.way.backend == NAME), "unknown")
        return JobRef(backend=NAME, project=self.settings.project, place=place, name=record.job_id)

    def there(self, record: Record) -> JobRef | None:
        """The job's name, if a list shows the job that the latest ask has made.

        Raises:
            CapacityError: it was made, and there were no machines for it.
        """
        found = self._of_ask(record)
        if not found:
            return None
        seen = next((one for one in found if not identity.found_no_room(one)), found[0])
        self.whereabouts.note(record.job_id, seen.resource)
        if identity.found_no_room(seen):
            raise CapacityError(
                f"{seen.region} had no machines for {seen.job_id} a short while ago",
                why=seen.error,
                fix="allow more regions, GPUs or provisioning models, or try again later",
                place=seen.region,
                scope=Scope.REGION,
            )
        return self.name_of(record)

    def asked_for(self, ref: JobRef) -> SeenJob | None:
        """A job that was asked for a moment ago, which no list need show yet; None where none was."""
        try:
            record = surely(lambda: self.board.read(ref.name))
        except (AccessError, RequestError):
            return None
        if record is None or record.over or not record.is_open or record.age_s > self.turn_s:
            return None
        last, parent = addressed(record.latest), f"projects/{self.settings.project}/locations"
        if last.way.backend != NAME:
            return None
        resource = f"{parent}/{last.way.place}/customJobs/{ref.name}"
        return SeenJob(resource=resource, job_id=ref.name, state="JOB_STATE_QUEUED", nonce=last.nonce)

    def keep_key(self, ref: JobRef, found: Sequence[SeenJob]) -> None:
        """See that a job which has come to its end, though a Ctrl-C was taking it back, is not made again.

        Nor what was asked for since, which no list need show yet. Nothing else of it changes, and whoever may
        not read its record cannot do so.
        """
        try:
            record = surely(lambda: self.board.read(ref.name))
        except (AccessError, RequestError, RecordError):
            return
        if record is None or record.last is None:
            return
        if record.latest.nonce not in {one.nonce for one in found}:
            self._end(ref.name)
        elif record.over == WITHDRAWN:
            super()._end(ref.name)

    def clear(self, record: Record) -> bool:
        """End the jobs that the latest ask has made, as far as lists show them; what none shows may come.

        Their end is waited for, and then their lock removed: the next one of the id would not train. Until
        then the container of any of them may come up and take it.
        """
        found, jobs = self._of_ask(record), self.whereabouts.jobs
        live = [seen for seen in found if not seen.has_ended]
        for seen in live:
            identity.end(jobs, seen)
        for seen in live:
            identity.await_end(jobs, seen)
        for seen in found:
            self.locks.release(seen)
        return bool(found) and self._are_all(record, len(found))

    def _are_all(self, record: Record, count: int) -> bool:
        """Whether so many jobs are all that the latest ask can have made.

        Whoever was not at it knows that a second one is asked for only once the first was looked for in vain,
        and by when lists show both.
        """
        if most := self.whereabouts.jobs.sends(record.latest.nonce).most:
            return count >= most
        return record.now - record.latest.at < identity.SETTLE_S or record.age_s >= self.turn_s

    def may_come(self, record: Record) -> bool:
        """Whether it was sent from here, and one time at least was not answered."""
        return self.whereabouts.jobs.sends(record.latest.nonce).unanswered > 0

    def bar(self, record: Record) -> Ask | None:
        """Take the lock of its id, without which no container trains."""
        self.locks.bar(record.job_id, record.generation)
        asked = tuple(one for one in record.asks if one.way.backend == NAME)
        seen = self._holder(record.job_id, asked)
        return next((one for one in asked if seen is not None and one.nonce == seen.nonce), None)

    def let_in(self, record: Record) -> None:
        """Give that lock back: which job takes it, the latest or one that comes late, is the job."""
        if any(one.way.backend == NAME and one.is_unseen for one in record.asks):
            self.locks.give_back(record.job_id, record.generation)

    def _end(self, job_id: str) -> Record | None:
        """The lock is taken as well, so that one that comes late does nothing.

        Not of a job that ran, and has ended; nor of one without a record: it was withdrawn, with all that
        could come of it, and whoever has its key asks anew.
        """
        record = super()._end(job_id)
        if record is not None and record.over == CANCELLED:
            self.locks.take(job_id)
        return record

    def _of_ask(self, record: Record) -> tuple[SeenJob, ...]:
        """The jobs of the latest ask, as lists show them; they lag, so also by the number in the lock."""
        last = addressed(record.latest)
        found = identity.of_ask(self.whereabouts.jobs, last.way.place, record.job_id, last.nonce)
        held = self._holder(record.job_id, (last,))
        return found if held is None or held.number in {one.number for one in found} else (*found, held)

    def _holder(self, job_id: str, asks: Sequence[Ask]) -> SeenJob | None:
        """The job that has the lock of an id, if one of these asks has made it."""
        number = self.locks.of_id(job_id).number
        if number in ("", CANCELLED):
            return None
        nonces = {one.nonce for one in asks}
        for place in dict.fromkeys(addressed(one).way.place for one in asks):
            parent = f"projects/{self.settings.project}/locations/{place}"
            with contextlib.suppress(MissingError):
                seen = self.whereabouts.jobs.get(f"{parent}/customJobs/{number}")
                if seen.job_id == job_id and seen.nonce in nonces:
                    return seen
        return None


def lent(
    whereabouts: Whereabouts, locks: Locks, settings: VertexSettings, seen: SeenJob
) -> CustomJobRecorder:
    """The recorder of the bucket that a job itself names, for a process that knows none.

    Raises:
        RequestError: the job names no bucket.
    """
    access, bucket = _beside(locks, seen)
    board, locks = BucketBoard(access, bucket), Locks(whereabouts.jobs, bucket)
    return CustomJobRecorder(settings=settings, board=board, whereabouts=whereabouts, locks=locks)


def _beside(locks: Locks, seen: SeenJob) -> tuple[Access, BucketPrefix]:
    objects, lock = locks.beside(seen)
    prefix = lock.removesuffix(f"jobs/{seen.job_id}/lock-")
    return objects.access, BucketPrefix(name=objects.bucket_name, prefix=prefix)


def to_come(locks: Locks, seen: SeenJob, told: Observation) -> Observation:
    """What a process without a bucket tells of a job that is at no place: by its own record it may go on.

    Raises:
        JobLostError: it went on to another backend.
    """
    record = _record_of(locks, seen)
    if record is None or record.over or record.last is None:
        return told
    way, has_left = record.latest.way, record.latest.nonce != seen.nonce
    if has_left and way.backend != NAME:
        raise JobLostError(
            f"{record.job_id} is not on Vertex AI any more",
            why=f"it went on to {way.backend} in {way.place}",
            fix="attach to it with a trainer that has that backend as well",
        )
    asked = {one.way.place for one in record.asks}
    waits = record.spec.get("max_wait_duration") is not None
    is_left = waits or any(one.place not in asked for one in record.ways)
    if record.is_open and not has_left and not (identity.found_no_room(seen) and is_left):
        return told
    detail = f"{seen.region}: no room after all; whoever waits for it with its bucket asks the next place"
    return attrs.evolve(told, state=State.INTERRUPTED, detail=detail, failure=None, ended_at=None)


def asked_last(locks: Locks, seen: SeenJob) -> str:
    """As of `identity.Latest`, by the record beside the lock."""
    record = _record_of(locks, seen)
    return "" if record is None or record.last is None else record.latest.nonce


def _record_of(locks: Locks, seen: SeenJob) -> Record | None:
    """What was asked for a job, from beside its lock; None where nobody here may read it, or it is none."""
    try:
        return BucketBoard(*_beside(locks, seen)).read(seen.job_id)
    except (AccessError, RequestError, RecordError):
        return None
