"""What the VMs of an attempt leave in the bucket: the lock of the first that came, and what they wrote."""

from __future__ import annotations

import json
from collections.abc import Set
from contextlib import suppress

import attrs

from gputrain.backends.compute.names import NAME, JobObjects, VmNames
from gputrain.errors import RequestError
from gputrain.gcp import PreconditionError
from gputrain.gcp.buckets import BucketPrefix
from gputrain.gcp.forms import Json, mapping
from gputrain.gcp.objects import Objects
from gputrain.keeper.status import RESERVED
from gputrain.records import Board, DamagedRecordError, surely

NOBODYS = json.dumps({"nonce": "", "token": ""}).encode()
"""A lock that no VM has: whichever comes finds that the job is none of its ask, and leaves."""

CANCELLED = json.dumps({"nonce": "", "token": "", "over": "cancelled"}).encode()
"""The same for good: no ask is let in any more."""


@attrs.define(kw_only=True, eq=False)
class Traces:
    """The objects of attempts, which bear an attempt's number; its lock tells the nonce of an ask."""

    bucket: BucketPrefix
    stored: Objects
    board: Board

    def has_begun(self, gang: VmNames) -> bool:
        """Whether all of its VMs have come: one took the lock, and each has written of itself.

        Of a half gang one may have taken it, and waited for the others in vain. In 0.1 it told of no ask.
        """
        held = self._held(gang.job_id, gang.attempt)
        if held is None or held.get("nonce", gang.nonce) != gang.nonce or RESERVED in held:
            return False
        if len(gang.names) == 1:
            return True
        objects = JobObjects(bucket=self.bucket, job_id=gang.job_id)
        listed = self.stored.list(objects.attempt(gang.attempt)).whole(f"tell whether {gang.job_id} began")
        there = {one.name for one in listed}
        return all(objects.status(gang.attempt, rank) in there for rank in range(len(gang.names)))

    def remove(self, gang: VmNames) -> None:
        """Remove what the VMs of an ask wrote: their lock would keep the next gang from training.

        Not what those of another ask wrote in the same place since. Whose it is is looked at once the list is
        there: what that shows was written before.
        """
        folder = self._folder(gang.job_id, gang.attempt)
        there = self.stored.list(folder).whole(f"remove what {gang.job_id} wrote")
        if not there:
            return
        held = self._held(gang.job_id, gang.attempt) or {}
        if held["nonce"] != gang.nonce if held.get("nonce") else self._is_left(gang):
            return
        lock = f"{folder}lock"
        for trace in there:
            if trace.name == lock and RESERVED in held:  # it was taken as others may come, who still may
                with suppress(PreconditionError):
                    self.stored.write(lock, NOBODYS, if_generation=trace.generation)
            elif trace.name != lock or held.get("nonce") != "":
                self.stored.remove(trace.name, if_generation=trace.generation)

    def cancel(self, job_id: str, attempt: int) -> None:
        """Have no VM of an attempt train that comes from now on, whatever it was asked for."""
        self._shut(job_id, attempt, CANCELLED)

    def bar(self, job_id: str, attempt: int, nonces: Set[str]) -> str:
        """Have no VM of an attempt train that comes from now on; the nonce of the ask whose VMs do.

        Args:
            nonces: of the asks that are to be kept out; what is reserved for another stays so.
        """
        return self._shut(job_id, attempt, NOBODYS, nonces)

    def _shut(self, job_id: str, attempt: int, lock: bytes, nonces: Set[str] | None = None) -> str:
        name, generation = self._lock(job_id, attempt), 0
        found = self.stored.read(name)
        held = {} if found is None else _read(found.content)
        if found is not None:
            is_ours = nonces is None or held.get("nonce") in nonces
            is_free = found.content == NOBODYS or (RESERVED in held and is_ours)
            if found.content == lock or not is_free:
                return str(held.get("nonce", ""))
            generation = found.generation
        with suppress(PreconditionError):
            self.stored.write(name, lock, if_generation=generation)
            return ""
        return str((self._held(job_id, attempt) or {}).get("nonce", ""))

    def reserve(self, gang: VmNames) -> None:
        """Have the VMs of this ask train, and none of another; not where some do."""
        name = self._lock(gang.job_id, gang.attempt)
        lock = {"nonce": gang.nonce, "token": "", RESERVED: True}
        found = self.stored.read(name)
        if found is None or found.content == NOBODYS or RESERVED in _read(found.content):
            with suppress(PreconditionError):  # some do by now
                generation = 0 if found is None else found.generation
                self.stored.write(name, json.dumps(lock).encode(), if_generation=generation)

    def _held(self, job_id: str, attempt: int) -> Json | None:
        found = self.stored.read(self._lock(job_id, attempt))
        return None if found is None else _read(found.content)

    def _folder(self, job_id: str, attempt: int) -> str:
        return JobObjects(bucket=self.bucket, job_id=job_id).attempt(attempt)

    def _lock(self, job_id: str, attempt: int) -> str:
        return f"{self._folder(job_id, attempt)}lock"

    def _is_left(self, gang: VmNames) -> bool:
        """Whether other VMs were asked for since, or nobody can tell."""
        try:
            record = surely(lambda: self.board.read(gang.job_id))
        except (RequestError, DamagedRecordError):
            return True
        asks = () if record is None else tuple(one for one in record.asks if one.way.backend == NAME)
        return bool(asks) and asks[-1].nonce != gang.nonce


def _read(content: bytes) -> Json:
    """What a lock says; nothing where it is none: others may write to the bucket."""
    with suppress(ValueError, RecursionError):
        found = mapping(json.loads(content))
        return found if isinstance(found.get("nonce", ""), str) else {}
    return {}
