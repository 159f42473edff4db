"""A gang of VMs: made whole or not at all, once, and removed as a whole.

::

    record (whose turn is it?)  ->  bulkInsert  ->  the operation's end  ->  record (they are there)
                                                ->  errors: wait until nothing is left, then raise
"""

from __future__ import annotations

import contextlib
import logging
import uuid
from collections.abc import Mapping
from typing import Any

import attrs

from gputrain.backends.compute import render
from gputrain.backends.compute.calls import Calls, errors_of, ours, raise_first
from gputrain.backends.compute.names import LABEL_ATTEMPT
from gputrain.backends.compute.official import Json
from gputrain.backends.compute.record import Record, Records
from gputrain.errors import CapacityError, GputrainError, RequestError, TransientError
from gputrain.gcp import LABEL_JOB, MissingError, PreconditionError, label_value

log = logging.getLogger("gputrain")

SETTLE_EVERY_S = 2.0
SETTLE_S = 600.0
"""How long VMs of an earlier try may take to come or to go."""

LATE_LOOKS = 4

TURN_S = 60.0
"""How long a process that has written the record may take to ask for the VMs, and lists to show them."""

HELD_S = 60.0
"""How long the name of a VM that could not be made may stay taken; seen in threads, 2026-11-20."""

_THERE = frozenset({"RUNNING", "PENDING", "STOPPING", "TERMINATED", "STOPPED"})


@attrs.frozen(kw_only=True)
class Gangs:
    """Makes and removes the VMs of jobs."""

    calls: Calls
    records: Records

    def submit(self, job_id: str, order: Mapping[str, Any], there: Record | None) -> Record:
        """Make the first gang of a job, or take up the one that there is.

        Args:
            there: its record, where somebody has begun to make it.

        Raises:
            CapacityError: the zone has no room; nothing is left of the try.
            AccessError, RequestError, TransientError: as Compute Engine answers; nothing is left either.
        """
        if there is not None:
            with contextlib.suppress(CapacityError):  # it came to nothing: now it is our turn
                return self._arrived(there)
            there = self.records.read(job_id)
        if there is None:
            fresh = Record(job_id=job_id, order=order, asked_at=self.calls.access.now())
        else:
            now = self.calls.access.now()
            fresh = attrs.evolve(there, order=order, asked_at=now, ids={})  # what was spent stays spent
        try:
            record = self.records.write(fresh)
        except PreconditionError:  # another process was quicker: it is its turn
            return self._arrived(self._read(job_id))
        try:
            return self.make(record)
        except TransientError:  # nobody knows what was done: the next try looks
            raise
        except GputrainError:
            self.records.remove(record)
            raise

    def settled(self, job_id: str) -> Record | None:
        """The record of a job that is there, once that is clear; None where nothing came of it."""
        record = self.records.read(job_id)
        with contextlib.suppress(CapacityError):
            return None if record is None else self._arrived(record)
        return None

    def withdraw(self, job_id: str) -> bool:
        """Undo a submit that was interrupted; False where the gang is there already, whoever made it.

        VMs of a call whose answer was not waited for may come late, so it is looked for a while.
        """
        record = self.records.read(job_id)
        if record is not None and record.ids:
            return False
        if record is not None:
            for _ in range(LATE_LOOKS):
                self.clear(record)
                self.calls.access.sleep(SETTLE_EVERY_S)
            self.records.remove(record)
        return True

    def make(self, record: Record) -> Record:
        """Ask for the VMs of the record's attempt, and wait until all of them are there, or none."""
        method, body = render.call(record.order, record.job_id, record.attempt, max_run_s=record.left_s)
        request_id = str(uuid.uuid4())
        try:
            operation = self.calls.official.start(record.zone, method, body, request_id)
        except PreconditionError as error:
            return self._taken(record, method, body, error)
        if record.order["queue_s"]:
            return self._arrived(record)
        ended = self.calls.end_of(record.zone, operation)
        errors = errors_of(ended)
        if ended.get("error"):
            errors = (*errors, *self._errors_of_members(record.zone, ended))
            self.clear(record)
            status = int(ended.get("httpErrorStatusCode") or 0)
            told = errors or tuple(ended["error"]["errors"])
            self._raise(told, status, record)
        # Read from the operation: a VM whose job ends at once may have removed itself already.
        ids = self._ids_of_members(record, ended)
        return self._noted(record, ids) if len(ids) == len(record.names) else self._arrived(record)

    def clear(self, record: Record) -> None:
        """Remove every VM of an attempt, and wait until none is left: no half of a gang stays.

        Google rolls a failed bulkInsert back by itself, but later; until then its VMs exist and bill.
        """
        deadline = self.calls.access.now() + SETTLE_S
        asked: set[str] = set()
        while left := self._vms(record):
            for vm in left:
                if vm["name"] not in asked and self.remove(record.zone, vm["name"]):
                    asked.add(vm["name"])
            if self.calls.access.now() > deadline:
                log.warning("%s of %s is still there", left[0]["name"], record.job_id)
                return
            self.calls.access.sleep(SETTLE_EVERY_S)

    def remove(self, zone: str, name: str) -> bool:
        """Delete a VM; False where that cannot be done now. One that is gone is gone."""
        try:
            self.calls.official.delete(zone, name, str(uuid.uuid4()))
        except MissingError:
            return True
        except (RequestError, TransientError) as error:  # it is on its way out already, or comes next time
            log.info("could not delete %s: %s", name, error)
            return False
        return True

    def _arrived(self, record: Record) -> Record:
        """The record with the numbers of its VMs, once all of them are there.

        Raises:
            CapacityError: they are not, and will not be; nothing is left of them.
        """
        deadline = self.calls.access.now() + SETTLE_S
        while not record.ids:
            vms = self._vms(record)
            if len(vms) == len(record.names) and all(vm["status"] in _THERE for vm in vms):
                return self._noted(record, {str(vm["name"]): str(vm["id"]) for vm in vms})
            if not vms and self.records.has_begun(record):
                return record
            now = self.calls.access.now()
            if now > (deadline if vms else record.asked_at + TURN_S):
                self.clear(record)
                raise CapacityError(
                    f"the VMs of {record.job_id} did not come in {record.zone}",
                    why=f"{len(vms)} of {len(record.names)} are there",
                    fix="submit again, or allow more zones",
                    place=record.zone,
                )
            self.calls.access.sleep(SETTLE_EVERY_S)
            record = self.records.read(record.job_id) or record
        return record

    def _noted(self, record: Record, ids: Mapping[str, str]) -> Record:
        try:
            return self.records.write(attrs.evolve(record, ids=ids))
        except PreconditionError:  # another process noted the same
            return self._read(record.job_id)

    def _taken(self, record: Record, method: str, body: Json, error: PreconditionError) -> Record:
        """A name is taken: by VMs of ours, which are taken up; by a failed try; or by a stranger."""
        deadline = self.calls.access.now() + HELD_S
        while True:
            if self._vms(record):
                return self._arrived(record)
            if self._strangers(record) or self.calls.access.now() > deadline:
                names = ", ".join(record.names)
                raise RequestError(
                    f"{names} in {record.zone}: the name is taken by a VM that is not of this job",
                    why=error.why,
                    fix="submit under another name, or delete that VM",
                    raw=error.raw,
                ) from error
            self.calls.access.sleep(SETTLE_EVERY_S)
            with contextlib.suppress(PreconditionError):
                operation = self.calls.official.start(record.zone, method, body, str(uuid.uuid4()))
                ended = self.calls.end_of(record.zone, operation)
                if errors_of(ended):
                    self.clear(record)
                    self._raise(errors_of(ended), 0, record)
                return self._arrived(record)

    def _raise(self, errors: tuple[Json, ...], status: int, record: Record) -> None:
        action, project = f"create the VMs in {record.zone}", self.calls.access.project
        raise_first(errors, status, action, zone=record.zone, project=project)

    def _strangers(self, record: Record) -> bool:
        label = label_value(record.job_id)
        found = self.calls.instances(record.zone, f"name={record.names[0]}", fields="labels").items
        return any(vm.get("labels", {}).get(LABEL_JOB) != label for vm in found)

    def _errors_of_members(self, zone: str, operation: Json) -> tuple[Json, ...]:
        """What the parent's error hides: the cause stands in the operations of the members."""
        return tuple(one for member in self._members(zone, operation) for one in errors_of(member))

    def _ids_of_members(self, record: Record, operation: Json) -> dict[str, str]:
        """Google's number of each VM that a bulkInsert has made."""
        found = {
            str(member.get("targetLink", "")).rpartition("/")[2]: str(member.get("targetId"))
            for member in self._members(record.zone, operation)
        }
        return {name: found[name] for name in record.names if name in found}

    def _members(self, zone: str, operation: Json) -> tuple[Json, ...]:
        """The operations on the single VMs of a bulkInsert."""
        group = operation.get("operationGroupId")
        if not group:
            return ()
        try:
            return self.calls.operations(zone, f'operationGroupId="{group}"').items
        except TransientError as error:  # the parent's own words must do
            log.info("could not look at the members of %s: %s", group, error)
            return ()

    def _vms(self, record: Record) -> tuple[Json, ...]:
        wanted = f"{ours(label_value(record.job_id))} AND labels.{LABEL_ATTEMPT}={record.attempt}"
        return self.calls.instances(record.zone, wanted).items

    def _read(self, job_id: str) -> Record:
        found = self.records.read(job_id)
        if found is None:
            raise TransientError(f"the record of {job_id} was removed meanwhile", retry_after_s=5.0)
        return found
