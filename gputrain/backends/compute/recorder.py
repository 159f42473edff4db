"""Compute Engine's side of a record: from what was asked for to the VMs of those names."""

from __future__ import annotations

from contextlib import suppress
from typing import ClassVar

import attrs

from gputrain.backends.base import JobRef
from gputrain.backends.compute.gang import Gangs
from gputrain.backends.compute.names import NAME, JobObjects, JobPlace, VmNames, ref_of
from gputrain.backends.compute.settings import ComputeSettings
from gputrain.backends.google import BucketRecorder
from gputrain.errors import (
    AccessError,
    CapacityError,
    GputrainError,
    JobLostError,
    RequestError,
    TransientError,
)
from gputrain.gcp import MissingError
from gputrain.gcp.listing import listing_of
from gputrain.records import MADE, WITHDRAWN, Ask, DamagedRecordError, Record, surely


@attrs.define(kw_only=True, eq=False)
class VmRecorder(BucketRecorder[ComputeSettings]):
    """As of `Recorder`."""

    gangs: Gangs
    settles_s: float = attrs.field(default=4.0, init=False)
    """VMs are found by name as soon as their call was taken."""
    turn_s: float = attrs.field(default=20.0, init=False)
    """Most creates are over by then; one that is not is waited for together."""
    repeats: bool = attrs.field(default=True, init=False)
    """Compute Engine does one request once, and its id is made of the nonce."""
    kept: ClassVar[tuple[str, ...]] = (
        "service_account", "network", "subnetwork", "gpu_subnetworks", "gpu_networking",
        "nccl_plugin", "nccl_daemon", "boot_image", "image_family",
        "disk_gib", "disk_type", "placement_policy", "python", "external_ip", "secure_boot", "os_login",
        "network_tags",
    )  # fmt: skip

    def name_of(self, record: Record) -> JobRef:
        """The job's name, which tells where it was placed first."""
        return self.ref(record.place_on(NAME) or "unknown", record.job_id)

    def there(self, record: Record) -> JobRef | None:
        """The job's name, if the VMs of the latest ask have come."""
        return self.name_of(record) if self.gangs.are_there(VmNames.of(record)) else None

    def has_come(self, record: Record) -> bool:
        """Whether the VMs of the latest ask have come, be they gone again; not where it was taken back."""
        with suppress(CapacityError):
            return self.there(record) is not None
        return False

    def clear(self, record: Record) -> bool:
        """Remove the VMs of the latest ask, and wait until each was seen to be gone."""
        last = record.latest
        has_run = last.answer == MADE and not last.is_unseen and record.over != WITHDRAWN
        return self.gangs.clear(VmNames.of(record), and_traces=not has_run)

    def may_come(self, record: Record) -> bool:
        """Whether it was sent from here, and one time at least was not answered."""
        return not self.gangs.sends.are_answered(record.latest.nonce)

    def bar(self, record: Record) -> Ask | None:
        """Take the locks of their attempts, without which no VM trains."""
        asks = tuple(one for one in record.asks if one.way.backend == NAME and one.is_unseen)
        nonces = {one.nonce for one in asks}
        attempts = {one.attempt for one in asks}
        held = {self.gangs.traces.bar(record.job_id, attempt, nonces) for attempt in attempts}
        return next((one for one in asks if one.nonce in held), None)

    def let_in(self, record: Record) -> None:
        """Take the lock of its attempt for its VMs, if others may come yet."""
        gang = VmNames.of(record)
        late = (one for one in record.asks if one.way.backend == NAME and one.is_unseen)
        if any(one.attempt == gang.attempt and one.nonce != gang.nonce for one in late):
            self.gangs.traces.reserve(gang)

    def end(self, job_id: str) -> tuple[Record | None, GputrainError | None]:
        """The guests are told as well, whose ranks may save; VMs that come late begin nothing."""
        record, refused = super().end(job_id)
        try:
            for attempt in set() if record is None else {one.attempt for one in VmNames.to_end(record)}:
                self.gangs.traces.cancel(job_id, attempt)
            cancel = JobObjects(bucket=self.settings.bucket, job_id=job_id).cancel
            self.gangs.traces.stored.write(cancel, b"cancelled", if_generation=None)
        except (AccessError, RequestError, TransientError) as error:
            refused = refused or error
        return record, refused

    def ref(self, zone: str, job_id: str) -> JobRef:
        """The name of a job that is placed in a zone."""
        return ref_of(self.settings.project, JobPlace(zone=zone, bucket=self.settings.bucket), job_id)

    def find(self, name: str) -> tuple[JobRef, ...]:
        """Jobs of this bucket, newest first; those whose name starts with ``name``.

        Raises:
            PartialListError: some could not be listed; it holds those that were seen.
        """
        found = self.board.listed(name)
        entries = (one for one in found.seen if one.backend == NAME)
        refs = (attrs.evolve(self.ref(one.place, one.job_id), made_at=one.written_at) for one in entries)
        return listing_of(refs, found.left_out).whole(f"list the jobs of {self.board.name}")

    def glimpsed(self, ref: JobRef) -> Record | None:
        """As much of a record as a list of all tells; None where it does not, or the job is elsewhere."""
        record = self.board.glimpse(ref.name)
        return record if record is not None and record.latest.way.backend == NAME else None

    def known(self, ref: JobRef) -> Record:
        """The record of a job that must be here.

        Raises:
            JobLostError: there is none, or no bucket.
            RecordError: it is none.
        """
        left = "trainer.clean_up() deletes what is left of jobs"
        where, fix = f"{self.board.name} holds no record of it", "check the name and the bucket"
        try:
            record = surely(lambda: self.board.read(ref.name))
        except MissingError as error:
            record, where = None, error.what
            fix = f"its VMs may run on: {left} whose bucket is gone"
        except DamagedRecordError as error:
            error.fix = f"its VMs may run on: {left} whose record nobody can read; {error.fix}"
            raise
        if record is not None and record.backend == NAME:
            return record
        if record is not None and record.asks:
            where = f"it went on to {record.backend} in {record.place_on(record.backend)}"
        raise JobLostError(
            f"there is no job {ref.name}",
            why=where,
            fix=f"{fix}; list the jobs there are with trainer.jobs()",
            uri=ref.uri,
        )
