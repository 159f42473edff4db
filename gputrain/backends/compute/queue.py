"""A gang in Google's flex-start queue: a template, an empty group, and one request for all of its VMs.

Google serves the request whole, or makes nothing of it. It bills from the VMs on, keeps no deadline of its
own, and never makes a VM anew where repairs are off. All three things bear one name, drawn for one ask, so
whoever asks twice asks once, and what is left of an ask is found by that name.

::

    template  ->  group of size 0  ->  resize request   CREATING, ACCEPTED   it waits, and costs nothing
                                                        SUCCEEDED            all VMs are there
                                                        FAILED               none is; VMs it had are removed
    the end, in the other order: the request is cancelled, the group goes with its VMs, then the template

Source: "About resize requests in a MIG", "Turn off repairs in a MIG", compute v1 reference, read 2026-11-22.
"""

from __future__ import annotations

import contextlib
import secrets
import uuid
from collections.abc import Iterator, Mapping
from typing import Any

import attrs

from gputrain.backends.base import Orphan
from gputrain.backends.compute.calls import EVERY_S, Calls, message, plain
from gputrain.backends.compute.names import VmNames, read_note
from gputrain.backends.compute.operations import errors_of, is_taken, raise_first
from gputrain.errors import RequestError, TransientError
from gputrain.gcp import MissingError, PreconditionError, UndoneError
from gputrain.gcp.forms import Json
from gputrain.gcp.shared import Kept
from gputrain.retry import LOOK, WRITE
from gputrain.times import Since

WAITS = frozenset({"CREATING", "ACCEPTED"})
MADE_S = 120.0
"""How long a template, an empty group or a request may take to be written down."""
FADES_S = 20.0
"""How long an ending waits for a group to go, so that its template may; `clean_up` finds what stays."""
LEAVES_S = 600.0
"""How long a group may take to go with its VMs, where the next ask waits for it."""
LOOK_EVERY_S = 2.0
STATUS = "QUEUE"
"""What an orphan is called that is no VM."""


@attrs.frozen(kw_only=True)
class Left:
    """What is left of an ask, as its template tells."""

    name: str
    job_id: str
    zone: str

    @property
    def orphan(self) -> Orphan:
        """The same, as one that has no living job. What waits is free; what comes of it is listed as VMs."""
        return Orphan(name=self.name, place=self.zone, job_id=self.job_id, status=STATUS, price=None)


@attrs.define(kw_only=True, eq=False)
class Queue:
    """The flex-start queue of one project, for gangs."""

    calls: Calls
    _begun: Kept[str, bool] = attrs.field(init=False, factory=Kept)
    _swept: Kept[str, bool] = attrs.field(init=False, factory=Kept)

    def join(self, gang: VmNames, body: Mapping[str, Any]) -> None:
        """Ask for all VMs of a gang; again, where nobody knows what came of it, is the same ask.

        Raises:
            AccessError, RequestError, CapacityError: as Compute Engine answers; some of it may be made.
            TransientError: no answer came; ask again.
        """
        name, zone = gang.queue, gang.zone
        template = {"instance_template_resource": message("template", body["template"])}
        self._made(gang, "template", self._templates().insert_unary, template)
        self._begun.put(gang.nonce, True)
        group = {"zone": zone, "instance_group_manager_resource": message("group", body["group"])}
        self._made(gang, "group", self._groups().insert_unary, group)
        request = message("resizeRequests", body["resource"])
        asked = {"instance_group_manager_resize_request_resource": request}
        within = {"zone": zone, "instance_group_manager": name}
        self._made(gang, "request", self._requests().insert_unary, {**within, **asked})

    def has_begun(self, gang: VmNames) -> bool:
        """Whether this process has made something of an ask."""
        return bool(self._begun.get(gang.nonce))

    def request(self, gang: VmNames) -> Json | None:
        """The request as it is; None where there is none."""
        try:
            return self.calls.access.get(
                self._url(gang.zone, f"{gang.queue}/resizeRequests/{gang.queue}"),
                action=f"look at the queue for {gang.job_id}",
                policy=LOOK,
                params={"fields": "name,state,status,creationTimestamp"},
            )
        except MissingError:
            return None

    def deleted_by(self, gang: VmNames) -> str:
        """The account that deleted the group, and not through us; empty: none did, as far as is known."""
        wanted = f'targetLink eq ".*/instanceGroupManagers/{gang.queue}"'
        for one in self.calls.operations(gang.zone, wanted).seen:
            asked_as = str(one.get("clientOperationId", "")).replace("-", "")
            if one.get("operationType") == "delete" and not one.get("error") and asked_as[:12] != gang.nonce:
                return str(one.get("user", "")) or "somebody"
        return ""

    def cancel(self, zone: str, name: str) -> bool:
        """Wait no longer; whether it waits no more: one that is being served can only be removed."""
        asked = {"zone": zone, "instance_group_manager": name, "resize_request": name}
        try:
            self._written(self._requests().cancel_unary, asked, f"leave the queue in {zone}")
        except MissingError:
            return True
        except RequestError:  # CREATING, being served, or at its end: its group is what can be removed
            return False
        return True

    def withdraw(self, zone: str, name: str, *, within_s: float) -> bool:
        """Remove a request, its group with all VMs, and the template; whether nothing is there any more.

        Args:
            within_s: how long to wait for the group to go, without which its template cannot.
        """
        self.cancel(zone, name)
        asked = {"zone": zone, "instance_group_manager": name, "request_id": _ours(name)}
        with contextlib.suppress(MissingError):
            self._written(self._groups().delete_unary, asked, f"remove the group {name}")
        since = Since(self.calls.access.now)
        while self._is_there("group", self._url(zone, name)) or not self._has_left(name):
            if since.seconds > within_s:
                return False
            self.calls.access.sleep(LOOK_EVERY_S)
        return True

    def sweep(self, gang: VmNames) -> None:
        """Remove what is left of a gang's ask, once, as far as that can be done now."""
        if not gang.queue or self._swept.get(gang.nonce):
            return
        # The template is made first and removed last: without it nothing is left.
        is_gone = not self._is_there("template", self.calls.url(f"global/instanceTemplates/{gang.queue}"))
        is_gone = is_gone or self.withdraw(gang.zone, gang.queue, within_s=FADES_S)
        self._swept.put(gang.nonce, is_gone)

    def left(self, home: str) -> Iterator[Left]:
        """Every ask of a home of which something is left.

        Raises:
            TransientError: they could not all be listed.
        """
        found = self.calls.access.pages(
            self.calls.url("global/instanceTemplates"),
            action="list what is left of queued gangs",
            params={"filter": f'description eq "gputrain .*home={home}.*"', "fields": _FIELDS},
            policy=LOOK,
        )
        for one in found.whole("find what is left of queued gangs"):
            told = read_note(one.get("description"))
            if told.get("home") == home and told.get("job") and told.get("zone"):
                yield Left(name=str(one["name"]), job_id=told["job"], zone=told["zone"])

    def _made(self, gang: VmNames, what: str, call: Any, asked: Mapping[str, Any]) -> None:
        """Make one of the three, and see that it is there. One of its name is of this very ask."""
        action = f"queue {gang.job_id} in {gang.zone} ({what})"
        request_id = str(uuid.uuid5(uuid.NAMESPACE_OID, f"{gang.job_id} {gang.nonce} {what}"))
        with contextlib.suppress(PreconditionError):
            operation = self._written(call, {**asked, "request_id": request_id}, action)
            ended = self._end_of(gang.zone if "zone" in asked else "", operation)
            if is_taken(errors := errors_of(ended)):
                return
            try:
                raise_first(errors, ended, action, zone=gang.zone, access=self.calls.access)
            except TransientError as error:  # the same request would be told of the same end for ever
                raise UndoneError(error.what, why=error.why, fix=error.fix, raw=error.raw) from error

    def _end_of(self, zone: str, operation: Json) -> Json:
        scope = f"zones/{zone}" if zone else "global"
        url = self.calls.url(f"{scope}/operations/{operation['name']}")
        since = Since(self.calls.access.now)
        while operation.get("status") != "DONE":
            if since.seconds > MADE_S:
                raise TransientError(f"{operation['name']} is not done after {MADE_S:g} s")
            self.calls.access.sleep(EVERY_S)
            operation = self.calls.access.get(url, action=f"look at the operation {operation['name']}")
        return operation

    def _is_there(self, what: str, url: str) -> bool:
        action = f"look whether the {what} {url.rpartition('/')[2]} is there"
        try:
            self.calls.access.get(url, action=action, policy=LOOK, params={"fields": "name"})
        except MissingError:
            return False
        return True

    def _has_left(self, template: str) -> bool:
        """Whether a template is gone, or goes now: one is in use until its group is gone everywhere."""
        try:
            asked = {"instance_template": template}
            self._written(self._templates().delete_unary, asked, f"remove the template {template}")
        except MissingError:
            return True
        except RequestError:
            return False
        return True

    def _written(self, call: Any, asked: Mapping[str, Any], action: str) -> Json:
        project = self.calls.access.project
        return self.calls.access.tried(
            lambda: plain(call(request={"project": project, **asked}, timeout=WRITE.call_s, retry=None)),
            action=action,
            policy=WRITE,
            place=str(asked.get("zone", "")),
        )

    def _url(self, zone: str, path: str) -> str:
        return self.calls.url(f"zones/{zone}/instanceGroupManagers/{path}")

    def _templates(self) -> Any:
        return self.calls.client("InstanceTemplatesClient")

    def _groups(self) -> Any:
        return self.calls.client("InstanceGroupManagersClient")

    def _requests(self) -> Any:
        return self.calls.client("InstanceGroupManagerResizeRequestsClient")


def _ours(name: str) -> str:
    """The id of a request to delete a group: it begins with the nonce of the ask, as no stranger's does."""
    return str(uuid.UUID(hex=f"{name[-12:]}{secrets.token_hex(10)}", version=4))


_FIELDS = "items(name,description),nextPageToken,warning"
