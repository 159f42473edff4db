"""A gang of VMs: made whole or not at all, once, and removed as a whole.

Their names are known before they are asked for, and the record of them is written by then. So once the
write was sent there are two ends and no third: all of them are there, or each of them was seen to be gone.
What is there is asked by name, because a list may come late or lack a zone.

::

    bulkInsert  ->  the operation's end    ->  well: they are there
                                           ->  errors: clear by name, then raise
                ->  the operation cannot be read: look by name until they are there, or clear
"""

from __future__ import annotations

import contextlib
import logging
import uuid
from collections.abc import Iterable

import attrs

from gputrain.backends.base import Request
from gputrain.backends.compute.calls import Calls
from gputrain.backends.compute.deletes import Deletes
from gputrain.backends.compute.left_behind import left_behind, looking
from gputrain.backends.compute.names import VmNames
from gputrain.backends.compute.operations import errors_of, errors_of_members, is_taken, raise_first
from gputrain.backends.compute.queue import LEAVES_S, Queue
from gputrain.backends.compute.sends import Sends
from gputrain.backends.compute.taken import is_strangers, refusal
from gputrain.backends.compute.traces import Traces
from gputrain.errors import AccessError, CapacityError, GputrainError, RequestError, TransientError
from gputrain.gcp import LABEL_GANG, PreconditionError, UndoneError
from gputrain.gcp.buckets import BucketPrefix, home_of
from gputrain.gcp.forms import Json
from gputrain.gcp.objects import Objects
from gputrain.records import Board
from gputrain.times import Since

log = logging.getLogger("gputrain")

SETTLE_EVERY_S = 2.0
SETTLE_S = 300.0
"""How long VMs of an earlier try may take to come or to go."""

COME_S = 60.0
"""How long not one VM of an accepted call may be there."""

HELD_S = 60.0
"""How long the name of a VM that could not be made may stay taken; seen in threads, 2026-11-20."""

_THERE = frozenset({"RUNNING", "PENDING"})
_COMING = frozenset({"PROVISIONING", "STAGING", "REPAIRING"})


@attrs.define(kw_only=True, eq=False)
class Gangs:
    """Makes and removes the VMs of jobs."""

    calls: Calls
    bucket: BucketPrefix
    board: Board
    queue: Queue
    traces: Traces = attrs.field(init=False)
    sends: Sends = attrs.field(init=False, factory=Sends)

    def __attrs_post_init__(self) -> None:
        stored = Objects(self.calls.access, self.bucket.name)
        self.traces = Traces(bucket=self.bucket, stored=stored, board=self.board)

    def make(self, request: Request) -> None:
        """Ask for the VMs, and wait until all of them are there, or none.

        Raises:
            CapacityError: the zone has no room; nothing is left of the try.
            AccessError, RequestError: as Compute Engine answers; nothing is left either.
            LeftBehindError: something may be.
            TransientError: nobody knows what was done: ask again with the same request.
        """
        gang = VmNames.to_be(request)
        self.sends.begin(gang.nonce)
        if gang.queue:
            self._join_queue(gang, request)
            return
        method, resource = request.body["method"], request.body["resource"]
        # One ask is one request, however often it is sent: Google does it once.
        request_id = str(uuid.uuid5(uuid.NAMESPACE_OID, f"{gang.job_id} {gang.nonce}"))
        try:
            with self.sends.of(gang.nonce) as note:
                operation = self.calls.start(gang.zone, method, resource, request_id, before=note)
        except PreconditionError as error:
            self._taken(gang, method, resource, error)
            return
        except GputrainError as error:
            # A refusal is about this try alone: one before it, whose answer was lost, may have made them.
            is_one = isinstance(error, TransientError) or not self.sends.are_several(gang.nonce)
            if is_one or not self._has_come(gang):
                raise
            return
        if method == "insert":  # it waits in Google's queue
            self._arrived(gang)
        else:
            self._follow(gang, operation)

    def _join_queue(self, gang: VmNames, request: Request) -> None:
        """It was made once its request is in Google's queue: the look tells how it stands there."""
        try:
            with self.sends.of(gang.nonce) as note:
                note()
                self.queue.join(gang, request.body)
        except GputrainError as error:
            is_known = isinstance(error, UndoneError) or not isinstance(error, TransientError)
            was_tried = self.sends.are_several(gang.nonce)
            if is_known and (self.queue.has_begun(gang) or was_tried):
                with looking(gang):
                    if was_tried and self.queue.request(gang) is not None:
                        return  # another try has come so far
                    self.clear(gang, and_traces=True)
            raise

    def _follow(self, gang: VmNames, operation: Json) -> None:
        """Wait for the end of the operation; its errors are raised once nothing is left."""
        try:
            ended = self.calls.end_of(gang.zone, operation)
        except GputrainError as error:
            # It was accepted, so what came of it is told by names: to ask anew would be to ask twice.
            log.warning("could not follow how %s is made: %s", gang.job_id, error.what)
            self._arrived(gang)
            return
        if not (own := errors_of(ended)):
            return
        errors = (*own, *errors_of_members(self.calls, gang.zone, ended))
        if is_taken(errors) and self._has_come(gang):  # by the second try of another
            return
        # Google rolls a failed bulkInsert back by itself, but later; until then its VMs exist and bill.
        with looking(gang):
            self.clear(gang, and_traces=True)
        action = f"create the VMs in {gang.zone}"
        try:
            raise_first(errors, ended, action, zone=gang.zone, access=self.calls.access)
        except TransientError as error:  # the same request would be told of the same end for ever
            told = {"kind": error.kind, "scope": error.scope, "retry_after_s": error.retry_after_s}
            raise UndoneError(error.what, why=error.why, fix=error.fix, raw=error.raw, **told) from error

    def are_there(self, gang: VmNames) -> bool:
        """Whether all VMs have come, be they gone again: the first one that boots takes a lock."""
        self.sends.note(gang.nonce)  # whoever wants to know has it from a record: somebody may have sent it
        if gang.queue and self.queue.request(gang) is not None:
            return True
        if gang.queue and not self.traces.has_begun(gang) and (who := self.queue.deleted_by(gang)):
            self.queue.sweep(gang)
            raise CapacityError(f"the group of {gang.job_id} was deleted by {who}", place=gang.zone)
        found = self.look(gang)
        statuses = {vm["status"] for vm in found.values()}
        if len(found) == len(gang.names) and statuses <= _THERE:
            return True
        # VMs that go may be those of a job that ran, or of a try that is being undone: the lock tells.
        return not statuses & _COMING and self.traces.has_begun(gang)

    def clear(self, gang: VmNames, *, and_traces: bool) -> bool:
        """Remove every VM of an ask, and wait until each was seen to be gone: no half of a gang stays.

        Returns:
            Whether no more can come: some were there, or whatever this process has sent was answered.

        Args:
            and_traces: also remove what they wrote, because their attempt has not begun.

        Raises:
            LeftBehindError: some are there still, and nobody lets us remove them.
        """
        if gang.queue and not self.queue.withdraw(gang.zone, gang.queue, within_s=LEAVES_S):
            raise left_behind(gang, self.look(gang), None)  # first: it could make VMs that nobody sees yet
        since, asked, found = Since(self.calls.access.now), set[str](), False
        deletes = Deletes(self.calls, gang.zone)
        while left := self.look(gang):
            found = True
            for name, vm in left.items():
                if name in asked or vm["status"] == "STOPPING":
                    continue
                with contextlib.suppress(GputrainError):  # Google may roll it back: it is looked at again
                    deletes.delete(name)
                    asked.add(name)
            if since.seconds > SETTLE_S:
                raise left_behind(gang, left, deletes.refused)
            self.calls.access.sleep(SETTLE_EVERY_S)
        if and_traces:  # also of VMs that came, wrote and are gone again
            self.traces.remove(gang)
        return found or bool(gang.queue) or self.sends.are_answered(gang.nonce)

    def end(self, gangs: Iterable[VmNames]) -> None:
        """Delete every VM of some gangs; those that are gone are gone.

        Raises:
            AccessError, TransientError: some could not be deleted, of whichever gang; all others are.
        """
        with contextlib.ExitStack() as stack:  # whoever is refused the queue may delete the VMs still
            for gang in gangs:
                stack.callback(self._end_vms, gang)
                stack.callback(self.queue.sweep, gang)

    def _end_vms(self, gang: VmNames) -> None:
        left, deletes, denied = self.look(gang), Deletes(self.calls, gang.zone), dict[str, AccessError]()
        while left:
            for name in list(left):
                try:
                    deletes.delete(name)
                    del left[name]
                except AccessError as error:  # noqa: PERF203  # the others may be deleted
                    denied[name] = error
                except (RequestError, TransientError):  # on its way out, or the service is away
                    continue
            if not left:
                return
            if left.keys() <= denied.keys():
                raise denied[min(left)]
            if deletes.since.seconds > COME_S:
                raise left_behind(gang, left, deletes.refused)
            self.calls.access.sleep(SETTLE_EVERY_S)
            left = {name: vm for name, vm in self.look(gang).items() if vm["status"] != "STOPPING"}

    def remove(self, gang: VmNames, name: str) -> bool:
        """Delete one VM, if it is this gang's; False where it is not, or cannot be deleted now."""
        vm = self.calls.instance(gang.zone, name)
        return vm is not None and gang.owns(vm) and self.delete(gang.zone, name)

    def delete(self, zone: str, name: str) -> bool:
        """Delete a VM that was judged to be of no use; False where that cannot be done now."""
        try:
            Deletes(self.calls, zone).delete(name)
        except (RequestError, TransientError) as error:
            log.info("could not delete %s: %s", name, error)
            return False
        return True

    def look(self, gang: VmNames) -> dict[str, Json]:
        """The VMs of an ask that are there now: one list for many, and a look for each name that it lacks."""
        label = f"labels.{LABEL_GANG}={gang.nonce}"
        found = self.calls.instances(gang.zone, label).seen if len(gang.names) > 1 else ()
        listed = {str(vm["name"]): vm for vm in found if gang.owns(vm)}
        singly = (self.calls.instance(gang.zone, name) for name in gang.names if name not in listed)
        return {**listed, **{str(vm["name"]): vm for vm in singly if vm is not None and gang.owns(vm)}}

    def _has_come(self, gang: VmNames) -> bool:
        """Whether another try of this ask has made the VMs; they may train, and somebody be told of them."""
        with looking(gang):
            is_any = bool(self.look(gang)) or self.traces.has_begun(gang)
        with contextlib.suppress(CapacityError):  # it was a part of them, and that is gone
            if is_any:
                self._arrived(gang)
                return True
        return False

    def _arrived(self, gang: VmNames) -> None:
        """Wait until all VMs have come.

        Raises:
            CapacityError: they have not, and will not; nothing is left of them.
        """
        since = Since(self.calls.access.now)
        with looking(gang):
            while not self.are_there(gang):
                vms = self.look(gang)
                if since.seconds > (SETTLE_S if vms else COME_S):
                    self.clear(gang, and_traces=True)
                    raise CapacityError(
                        f"the VMs of {gang.job_id} did not come in {gang.zone}",
                        why=f"{len(vms)} of {len(gang.names)} were there",
                        fix="submit again, or allow more zones",
                        place=gang.zone,
                    )
                self.calls.access.sleep(SETTLE_EVERY_S)

    def _taken(self, gang: VmNames, method: str, body: Json, error: PreconditionError) -> None:
        """A name is taken: by VMs of this ask, which are taken up; by a failed try; or by a stranger."""
        home, waited_s = home_of(self.calls.access.project, self.bucket), 0.0
        while True:
            with looking(gang):
                found, first = self.look(gang), self.calls.instance(gang.zone, gang.names[0])
            if found:
                self._arrived(gang)
                return
            if (first is not None and is_strangers(first, gang.job_id, home)) or waited_s > HELD_S:
                raise refusal(self.calls, gang, home, error.raw) from error  # else it goes
            self.calls.access.sleep(SETTLE_EVERY_S)
            waited_s += SETTLE_EVERY_S
            with contextlib.suppress(PreconditionError):
                with self.sends.of(gang.nonce, is_another=True) as note:
                    again = self.calls.start(gang.zone, method, body, str(uuid.uuid4()), before=note)
                self._follow(gang, again)
                return
