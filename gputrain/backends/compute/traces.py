"""What the VMs of an attempt leave in the bucket: the lock of the first that came, and what they wrote."""

from __future__ import annotations

import json
from contextlib import suppress

import attrs

from gputrain.backends.compute.names import NAME, JobObjects, VmNames
from gputrain.errors import RequestError
from gputrain.gcp import PreconditionError
from gputrain.gcp.buckets import BucketPrefix
from gputrain.gcp.forms import mapping
from gputrain.gcp.objects import Objects
from gputrain.records import Board, DamagedRecordError, Record

NOBODYS = json.dumps({"zone": "", "token": ""}).encode()
"""A lock that no VM has: whichever comes finds that the job is none of its zone, and leaves."""


@attrs.define(kw_only=True, eq=False)
class Traces:
    """The objects of attempts, which bear an attempt's number, and not the nonce of an ask."""

    bucket: BucketPrefix
    stored: Objects
    board: Board

    def has_begun(self, gang: VmNames) -> bool:
        """Whether one of its VMs has come so far as to take the lock, or another of its attempt has."""
        lock = self.stored.read(self._lock(gang.job_id, gang.attempt))
        return lock is not None and lock.content != NOBODYS

    def remove(self, gang: VmNames) -> None:
        """Remove what the VMs of an ask wrote: their lock would keep the next gang from training.

        Not where another was asked for since, which writes in the same place. That is looked at once the list
        is there: what it shows was written before.
        """
        folder = JobObjects(bucket=self.bucket, job_id=gang.job_id).attempt(gang.attempt)
        there = self.stored.list(folder).whole(f"remove what {gang.job_id} wrote")
        if there and self._is_latest(gang):
            for trace in there:
                self.stored.remove(trace.name, if_generation=trace.generation)

    def bar(self, job_id: str, attempt: int) -> str:
        """Have no VM of an attempt train that comes from now on; the zone whose VMs had begun before."""
        name = self._lock(job_id, attempt)
        with suppress(PreconditionError):
            self.stored.write(name, NOBODYS, if_generation=0)
            return ""
        found = self.stored.read(name)
        with suppress(ValueError, RecursionError):  # of whoever may write to the bucket
            return "" if found is None else str(mapping(json.loads(found.content)).get("zone", ""))
        return ""

    def unbar(self, job_id: str, attempt: int) -> None:
        """Undo `bar`."""
        name = self._lock(job_id, attempt)
        found = self.stored.read(name)
        if found is not None and found.content == NOBODYS:
            self.stored.remove(name, if_generation=found.generation)

    def _lock(self, job_id: str, attempt: int) -> str:
        return f"{JobObjects(bucket=self.bucket, job_id=job_id).attempt(attempt)}lock"

    def _is_latest(self, gang: VmNames) -> bool:
        try:
            record: Record | None = self.board.read(gang.job_id)
        except (RequestError, DamagedRecordError):  # nobody can tell
            return False
        asks = () if record is None else tuple(one for one in record.asks if one.way.backend == NAME)
        return not asks or asks[-1].nonce == gang.nonce
