"""The VMs of an attempt: made all together or not at all, ended, listed and removed, by their names.

::

    bulkInsert  ->  the operation's end    ->  well: they are there
                                           ->  errors: removed and seen gone, then raised
                ->  no answer              ->  unclear: the next look at the job tells what came of it

The names hold the attempt's id, and are never used twice: what has one is the attempt's own.
"""

from __future__ import annotations

import contextlib
import uuid
from collections.abc import Iterable, Iterator, Mapping, Sequence
from typing import Any

import attrs

from gputrain import catalog
from gputrain.backends.base import Machine, Request
from gputrain.backends.compute.calls import (
    EVERY_S,
    Calls,
    error_of,
    errors_of,
    errors_of_members,
    is_taken,
)
from gputrain.backends.compute.flex_queue import STATUS, FlexQueue
from gputrain.backends.compute.request import AttemptVms
from gputrain.backends.compute.settings import NAME
from gputrain.backends.run_reports import RunReports
from gputrain.catalog import ProvisioningModel
from gputrain.errors import AccessError, GputrainError, TransientError
from gputrain.google import (
    LABEL_ATTEMPT,
    LABEL_JOB,
    LABEL_OWNER,
    Listing,
    MissingError,
    PreconditionError,
    UnclearError,
)
from gputrain.google.forms import Json
from gputrain.jobstore import JobRecord
from gputrain.retry import ONCE, WRITE, Policy

ROUND_S = 2.0
GONE_S = 300.0
"""How long VMs may take to go: the power button alone gives a guest two minutes."""
SEEN_S = 60.0
"""How long a VM that waits in Google's queue may take to be seen there."""
GROUP_GONE_S = 20.0
"""How long `Vms.remove` waits for a group to go, so that its template may."""


class LeftBehindError(UnclearError):
    """VMs of an attempt may be there, and could not be removed: no other place may be asked."""

    kind = "left_behind"


@attrs.define(kw_only=True, eq=False)
class Vms:
    """Makes, ends and lists the VMs of one project's attempts."""

    calls: Calls
    queue: FlexQueue
    reports: RunReports
    home: str
    """The label of what is ours: VMs of another one have records that are not ours to read."""

    def launch(self, request: Request) -> str:
        """As of `Backend`: returns once all VMs are there, or wait in Google's queue; the zone."""
        vms, body = AttemptVms.of(request.job_id, request.attempt), request.body
        if vms.is_queued:
            with self._undone(vms):
                self.queue.join(vms, body)
            return vms.zone
        request_id = str(uuid.uuid5(uuid.NAMESPACE_OID, vms.queue))
        try:
            operation = self.calls.start(vms.zone, body["method"], body["resource"], request_id)
        except PreconditionError:  # a VM has such a name, and so is this very attempt's
            return vms.zone
        with self._undone(vms):
            if body["method"] == "insert":
                self._see(vms, operation)
                return vms.zone
            try:
                ended = self.calls.end_of(vms.zone, operation)
            except GputrainError as error:
                with contextlib.suppress(GputrainError):  # it may not be looked at: that is no refusal either
                    if len(self._there(vms)) == len(vms.names):
                        return vms.zone
                what = f"unknown whether the VMs of {vms.job_id} were created"
                raise UnclearError(what, why=error.what, fix=error.fix) from error
            if errors_of(ended) and not is_taken(ended):
                self._check(vms, ended, errors_of_members(self.calls, vms.zone, ended))
        return vms.zone

    @contextlib.contextmanager
    def _undone(self, vms: AttemptVms) -> Iterator[None]:
        """Remove what is left of a try that is refused; of one that is unclear, the next look decides."""
        try:
            yield
        except TransientError:
            raise
        except GputrainError as refusal:
            try:
                self.remove_all(vms)
            except GputrainError as error:
                raise LeftBehindError(
                    f"unknown whether VMs of {vms.job_id} are left in {vms.zone}",
                    why=f"{error.what}; they were removed because: {refusal.what}",
                    fix=error.fix,
                ) from error
            raise

    def _see(self, vms: AttemptVms, operation: Json) -> None:
        """Wait until a VM is seen whose operation ends only when Google's queue has served it."""
        began = self.calls.access.now()
        while self.calls.instance(vms.zone, vms.names[0]) is None:
            operation = self.calls.operation(vms.zone, str(operation["name"]))
            self._check(vms, operation)
            if self.calls.access.now() - began > SEEN_S:
                raise UnclearError(f"{vms.names[0]} was asked for, and is not seen in {vms.zone}")
            self.calls.access.sleep(EVERY_S)

    def _check(self, vms: AttemptVms, operation: Json, members: tuple[Json, ...] = ()) -> None:
        action, project = f"create the VMs in {vms.zone}", self.calls.access.project
        error = error_of(operation, action, members, zone=vms.zone, project=project)
        if error is not None:
            raise error

    def terminate(self, record: JobRecord, grace_s: float) -> None:
        """As of `Backend`. The guests of ranks that run read in the record that they are to leave."""
        vms = AttemptVms.of(record.job_id, record.current)
        if not grace_s:
            self.remove_all(vms)
            return
        there = self._there(vms)
        saving = {name for name, vm in there.items() if vm["status"] == "RUNNING" and self._saves(vms, name)}
        if vms.is_queued and (not saving or self.queue.waits(vms)):  # what waits would make its VMs anew
            self.queue.leave(vms.zone, vms.queue)
        refused = self._delete(vms, {name: vm for name, vm in there.items() if name not in saving}, WRITE)
        if isinstance(refused, TransientError):
            raise refused

    def _saves(self, vms: AttemptVms, name: str) -> bool:
        report = self.reports.read(vms.job_id, vms.attempt, vms.names.index(name))
        return report is not None and report.agent.has_started and not report.agent.is_over

    def remove_all(self, vms: AttemptVms) -> None:
        """Remove all of an attempt, and see that it is gone.

        Raises:
            AccessError: something may not be deleted; all else is.
            TransientError: something is there still.
        """
        try:
            if vms.is_queued:  # first: it could make VMs that cannot be seen yet
                self.queue.remove(vms.zone, vms.queue)
        finally:  # who is refused the queue may delete the VMs still
            began, refused = self.calls.access.now(), None
            while left := self._there(vms):
                refused = self._delete(vms, left) or refused
                if self.calls.access.now() - began > GONE_S:
                    names = " ".join(sorted(left))
                    delete = f"gcloud compute instances delete {names} --zone {vms.zone}"
                    raise LeftBehindError(
                        f"VMs of {vms.job_id} in {vms.zone} could not be deleted: {names}",
                        why="they are on their way out and do not go" if refused is None else refused.what,
                        fix=f"{delete}; or trainer.clean_up()",
                    )
                self.calls.access.sleep(ROUND_S)

    def _there(self, vms: AttemptVms) -> dict[str, Json]:
        """The VMs that are there: as a list tells; what it shows nothing of is asked for by each name."""
        found: Iterable[Json | None] = ()
        if len(vms.names) > 1:
            found = self.calls.instances(vms.zone, f"labels.{LABEL_ATTEMPT}={vms.attempt}").items
        found = found or (self.calls.instance(vms.zone, name) for name in vms.names)
        return {str(vm["name"]): vm for vm in found if vm is not None and vms.are_of(vm)}

    def _delete(
        self, vms: AttemptVms, found: Mapping[str, Json], policy: Policy = ONCE
    ) -> GputrainError | None:
        """Ask each to go, once; what was refused in passing, or since it is on its way out already.

        Raises:
            AccessError: one may not be deleted; all others were asked first.
        """
        refused, denied = None, None
        for name in (name for name, vm in found.items() if vm["status"] != "STOPPING"):
            try:
                self.calls.delete(vms.zone, name, policy=policy)
            except MissingError:  # noqa: PERF203  # each may be refused for itself
                continue
            except AccessError as error:
                denied = error
            except GputrainError as error:
                refused = error
        if denied is not None:
            raise denied
        return refused

    def machines(self, job_id: str) -> Sequence[Machine]:
        """As of `Backend`: VMs that are not on their way out, and what is in Google's flex-start queue."""
        listing = self.calls.all_instances(f"labels.{LABEL_JOB}:* AND labels.{LABEL_OWNER}={self.home}")
        queued = self.queue.left(self.home)
        vms = (_machine(vm) for vm in listing.items if vm["status"] != "STOPPING")  # it goes already
        found = tuple(one for one in (*vms, *queued.items) if one.job_id.startswith(job_id))
        whole = Listing(found, (*listing.missing, *queued.missing))
        return whole.require_complete("list the VMs of every zone")

    def remove(self, one: Machine) -> None:
        with contextlib.suppress(MissingError):
            if one.status == STATUS:
                self.queue.remove(one.place, one.name, within_s=GROUP_GONE_S)
            else:
                self.calls.delete(one.place, one.name)


def _machine(vm: Mapping[str, Any]) -> Machine:
    """A VM that is there, with its price for an hour where the catalog has one."""
    zone, labels = str(vm["zone"]).rpartition("/")[2], vm["labels"]
    shapes = catalog.shapes(machine_type=str(vm.get("machineType", "")).rpartition("/")[2])
    model = ProvisioningModel.__members__.get(vm.get("scheduling", {}).get("provisioningModel", ""))
    price = None
    if model is not None and len(shapes) == 1:
        price = catalog.price(shapes[0], catalog.region_of(zone), model)
    return Machine(
        backend=NAME, name=vm["name"], place=zone, job_id=labels[LABEL_JOB],
        attempt=labels.get(LABEL_ATTEMPT, ""), status=vm["status"], price=price,
    )  # fmt: skip
