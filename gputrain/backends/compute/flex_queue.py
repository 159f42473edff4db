"""VM groups in Google's flex-start queue: a template, an empty group, and one request for all of its VMs.

Google serves the request whole, or makes nothing of it. It bills from the VMs on, keeps no deadline of its
own, and never makes a VM anew where repairs are off. All three things have one name, of one attempt.

::

    template  ->  group of size 0  ->  resize request   CREATING, ACCEPTED   it waits, and costs nothing
                                                        SUCCEEDED            all VMs are there
                                                        FAILED               none is; VMs it had are removed
    the end, in the other order: the request is cancelled, the group goes with its VMs, then the template

Source: "About resize requests in a MIG", "Turn off repairs in a MIG", compute v1 reference, read 2026-11-22.
"""

from __future__ import annotations

import contextlib
import uuid
from collections.abc import Mapping
from typing import Any

import attrs

from gputrain import causes
from gputrain.backends.base import Machine, Status
from gputrain.backends.compute.calls import Calls, error_of, is_taken, message
from gputrain.backends.compute.request import NOTE, AttemptVms
from gputrain.backends.compute.settings import NAME
from gputrain.backends.google import cause_of
from gputrain.errors import RequestError, TransientError
from gputrain.google import Listing, MissingError, PreconditionError
from gputrain.google.errors import shorten
from gputrain.google.forms import Json, mapping, mappings
from gputrain.jobstore import JobRecord, Wanted
from gputrain.lifecycle import Failure, State

WAITS = frozenset({"CREATING", "ACCEPTED"})
LEAVES_S = 600.0
"""How long a group may take to go with its VMs."""
LOOK_EVERY_S = 2.0
_TEMPLATES, _GROUPS = "InstanceTemplatesClient", "InstanceGroupManagersClient"
_REQUESTS = "InstanceGroupManagerResizeRequestsClient"
STATUS = "QUEUE"
"""What a machine is called that is none yet."""


@attrs.define(kw_only=True, eq=False)
class FlexQueue:
    """The flex-start queue of one project, for groups of VMs."""

    calls: Calls

    def join(self, vms: AttemptVms, body: Mapping[str, Any]) -> None:
        """Request all VMs of an attempt; repeating it is safe.

        Raises:
            AccessError, RequestError, CapacityError: as Compute Engine answers; some of it may be made.
            TransientError: no answer came.
        """
        zone = vms.zone
        template = {"instance_template_resource": message("template", body["template"])}
        self._make(vms, "template", _TEMPLATES, template)
        group = {"zone": zone, "instance_group_manager_resource": message("group", body["group"])}
        self._make(vms, "group", _GROUPS, group)
        request = message("resizeRequests", body["resource"])
        asked = {"instance_group_manager_resize_request_resource": request}
        within = {"zone": zone, "instance_group_manager": vms.queue}
        self._make(vms, "request", _REQUESTS, {**within, **asked})

    def request(self, vms: AttemptVms) -> Json | None:
        """The request as it is; None where there is none."""
        path = f"zones/{vms.zone}/instanceGroupManagers/{vms.queue}/resizeRequests/{vms.queue}"
        fields = "name,state,status,creationTimestamp"
        return self.calls.find(path, f"look at the queue for {vms.job_id}", fields)

    def waits(self, vms: AttemptVms) -> bool:
        """Whether not all VMs were made yet, so that no rank can run."""
        return (self.request(vms) or {}).get("state") in WAITS

    def leave(self, zone: str, name: str) -> None:
        """Have a request go, and its group with all VMs."""
        asked = {"zone": zone, "instance_group_manager": name}
        # One that is being served, or at its end, cannot be cancelled: its group can be removed.
        with contextlib.suppress(MissingError, RequestError):
            request, action = {**asked, "resize_request": name}, f"leave the queue in {zone}"
            self.calls.write(_REQUESTS, "cancel_unary", request, action)
        with contextlib.suppress(MissingError):
            self.calls.write(_GROUPS, "delete_unary", asked, f"remove the group {name}")

    def remove(self, zone: str, name: str, *, within_s: float = LEAVES_S) -> None:
        """Remove a request, its group with all VMs, and the template.

        Raises:
            TransientError: the group was not gone in this time, and its template cannot go before it.
        """
        self.leave(zone, name)
        began, path = self.calls.access.now(), f"zones/{zone}/instanceGroupManagers/{name}"
        action = f"look whether the group {name} is there"
        while self.calls.find(path, action, "name") or not self._remove_template(name):
            if self.calls.access.now() - began > within_s:
                raise TransientError(f"the group {name} in {zone} is not gone after {within_s:g} s")
            self.calls.access.sleep(LOOK_EVERY_S)

    def left(self, home: str) -> Listing[Machine]:
        """All of a home of which something is in the queue."""
        wanted = f'description eq "gputrain .*home={home}.*"'
        found = self.calls.list("global/instanceTemplates", wanted, "name,description")
        notes = ((str(one.get("name")), NOTE.fullmatch(str(one.get("description")))) for one in found.items)
        machines = (
            Machine(
                backend=NAME, name=name, place=note["zone"], job_id=note["job"],
                attempt=note["attempt"], status=STATUS, price=None,  # what waits is free
            )
            for name, note in notes
            if note and note["home"] == home
        )  # fmt: skip
        return Listing(tuple(machines), found.missing)

    def _make(self, vms: AttemptVms, what: str, kind: str, asked: Mapping[str, Any]) -> None:
        """Make one of the three, and see that it is there. One of its name is of this very attempt."""
        action = f"queue {vms.job_id} in {vms.zone} ({what})"
        request_id = str(uuid.uuid5(uuid.NAMESPACE_OID, f"{vms.queue} {what}"))
        with contextlib.suppress(PreconditionError):
            operation = self.calls.write(kind, "insert_unary", {**asked, "request_id": request_id}, action)
            ended = self.calls.end_of(str(asked.get("zone", "")), operation)
            error = error_of(ended, action, zone=vms.zone, project=self.calls.access.project)
            if error is not None and not is_taken(ended):
                raise error

    def _remove_template(self, name: str) -> bool:
        """Whether a template is gone, or goes now: one is in use until its group is gone everywhere."""
        asked = {"instance_template": name}
        try:
            self.calls.write(_TEMPLATES, "delete_unary", asked, f"remove the template {name}")
        except MissingError:
            return True
        except RequestError:
            return False
        return True


def queue_status(record: JobRecord, request: Mapping[str, Any] | None, now: float) -> Status | None:
    """Where a request stands; None where its VMs tell more: it was served, or there is none."""
    attempt, state = record.current, str((request or {}).get("state", ""))
    status = mapping((request or {}).get("status"))
    if state in WAITS:
        if is_late(record, now):
            return queue_ended(causes.WAIT_LIMIT, causes.WAIT_LIMIT.title)
        wait = f"{len(attempt.names)} {attempt.option.machine_type} wait in Google's queue, all or none,"
        last = mappings(mapping(mapping(status.get("lastAttempt")).get("error")).get("errors"))
        detail = "; ".join([f"{wait} and cost nothing", *(shorten(one.get("message")) for one in last[:1])])
        return Status(state=State.QUEUED, exists=True, is_whole=True, detail=detail)
    if state == "FAILED":  # Google gave it up, and removed what it had made
        error = error_of(status, f"make the VMs of {record.job_id}", zone=attempt.option.place)
        if error is None:
            return queue_ended(causes.STOCKOUT_REGION, "Google gave the request up")
        cause = cause_of(type(error)) or causes.of(error.kind)
        return queue_ended(cause, ": ".join(filter(None, [error.what, error.why])))
    if state == "CANCELLED":
        cause = causes.CANCELLED if record.wanted is Wanted.CANCEL else causes.STOPPED_BY_PERSON
        return queue_ended(cause, cause.title)
    return None


def is_late(record: JobRecord, now: float) -> bool:
    """Whether a job has waited in a queue for as long as it may."""
    longest = record.training_spec.longest_queue.total_seconds()
    return now - (record.waiting_since or record.current.at) >= longest


def queue_ended(cause: causes.Cause, message: str) -> Status:
    """The status of an attempt that never had its VMs."""
    failure = Failure(kind=cause.kind, message=message)
    return Status(state=cause.state, exists=True, cause=cause, detail=message, failure=failure)
