"""The calls to Compute Engine, and what its operations say went wrong.

VMs are made and removed through Google's own client, all else is REST.

A request is the JSON that the plan shows, read strictly by the client's own types: a field that Google does
not know is refused here and never sent. The client's traps are kept out (google-cloud-compute 1.56.0,
measured 2026-11-20): its retries are off, its ``result()`` is never asked, because it polls another host and
takes an operation that is DONE with errors for a success. It is loaded with the first of these calls: a
process that only watches does without it.

A list asks for the few fields that are looked at (``fields=``), so that 1,000 VMs are 33 KB, packed; the
official client cannot ask for less than everything. See ``docs/design/decisions/`` for the figures.

``zoneOperations.wait`` is not called: each is billed to the heavy-weight read quota of the whole project
(documented, read 2026-11-20).
"""

from __future__ import annotations

import contextlib
import logging
import uuid
from collections.abc import Mapping, Sequence
from typing import Any

import attrs

from gputrain.errors import GputrainError, TransientError
from gputrain.google import (
    Api,
    GoogleClient,
    Listing,
    MissingError,
    UnclearError,
    most_severe,
    operation_error,
    to_error,
)
from gputrain.google.compute_lists import list_all_zones
from gputrain.google.forms import Json, mapping, mappings, value_of
from gputrain.retry import LOOK, WRITE, Policy

log = logging.getLogger("gputrain")

EVERY_S = 0.5
"""Between two looks: the end of an operation is seen within a second, the answer's own way included."""

LONGEST_S = 300.0
"""What was not seen done for so long is looked at by the names of what it makes."""

INSTANCE_FIELDS = "name,id,status,labels"
OPERATION_FIELDS = (
    "name,operationType,targetId,targetLink,user,status,insertTime,operationGroupId,"
    "httpErrorStatusCode,httpErrorMessage,error"
)
_RESOURCES = {
    "insert": "Instance",
    "bulkInsert": "BulkInsertInstanceResource",
    "resizeRequests": "InstanceGroupManagerResizeRequest",
    "template": "InstanceTemplate",
    "group": "InstanceGroupManager",
}


@attrs.define(kw_only=True, eq=False)
class Calls:
    """Compute Engine as one project sees it."""

    access: GoogleClient

    def start(self, zone: str, method: str, body: Mapping[str, Any], request_id: str) -> Json:
        """The one write that makes VMs, ``insert`` or ``bulkInsert``; the operation. Repeatable by its id.

        Raises:
            PreconditionError: a VM of one of the names exists.
            CapacityError, AccessError, RequestError: as Compute Engine answers at once.
            TransientError: no answer came for two minutes.
        """
        is_bulk = method == "bulkInsert"
        name = "bulk_insert_instance_resource_resource" if is_bulk else "instance_resource"
        call = "bulk_insert_unary" if is_bulk else "insert_unary"
        asked = {"zone": zone, "request_id": request_id, name: message(method, body)}
        return self.write("InstancesClient", call, asked, f"create the VMs in {zone}")

    def delete(self, zone: str, name: str, *, policy: Policy = WRITE) -> Json:
        """Delete a VM; the operation. MissingError: there is none of that name."""
        asked = {"zone": zone, "instance": name, "request_id": str(uuid.uuid4())}
        return self.write("InstancesClient", "delete_unary", asked, f"delete {name}", policy)

    def write(
        self, kind: str, method: str, asked: Mapping[str, Any], action: str, policy: Policy = WRITE
    ) -> Json:
        """Call a method of one of the official clients; the operation."""
        from google.cloud import compute_v1
        from google.protobuf.json_format import MessageToDict

        client = self.access.client(getattr(compute_v1, kind), self.access.url(Api.COMPUTE))
        request = {"project": self.access.project, **asked}

        def call() -> Json:
            answer = getattr(client, method)(request=dict(request), timeout=WRITE.call_s, retry=None)
            found: Json = MessageToDict(type(answer).pb(answer))
            if "name" not in found:
                what = f"{action}: the answer is no operation"
                raise UnclearError(what, fix="look whether a proxy answers")
            return found

        return self.access.tried(call, action=action, policy=policy)

    def operation(self, zone: str, name: str) -> Json:
        """One operation as it is now, of a zone or (where that is empty) of all of them."""
        url = self.url(f"{f'zones/{zone}' if zone else 'global'}/operations/{name}")
        return self.access.get(url, action=f"look at the operation {name}")

    def end_of(self, zone: str, operation: Json) -> Json:
        """The operation once it is done, well or with errors; its end is seen within a second.

        Raises:
            TransientError: it was not done after so long.
        """
        name, waited_s = str(operation["name"]), 0.0
        while operation.get("status") != "DONE":
            if waited_s > LONGEST_S:
                raise TransientError(f"{name} is not done after {waited_s:g} s")
            pause_s = max(EVERY_S, waited_s / 20)  # 16 submits side by side stay within their quota
            self.access.sleep(pause_s)
            waited_s += pause_s
            operation = self.operation(zone, name)
        return operation

    def operations(self, zone: str, wanted: str) -> Listing[Json]:
        """The zone's operations that a filter takes, of the last fortnight."""
        return self.list(f"zones/{zone}/operations", wanted, OPERATION_FIELDS)

    def instances(self, zone: str, wanted: str) -> Listing[Json]:
        """The zone's VMs that a filter takes."""
        return self.list(f"zones/{zone}/instances", wanted, INSTANCE_FIELDS)

    def instance(self, zone: str, name: str) -> Json | None:
        """One VM as it is now, also where lists are behind; None where there is none."""
        return self.find(f"zones/{zone}/instances/{name}", f"look at {name}", INSTANCE_FIELDS)

    def find(self, path: str, action: str, fields: str) -> Json | None:
        """Something of this project's as it is now; None where there is none."""
        with contextlib.suppress(MissingError):
            return self.access.get(self.url(path), action=action, policy=LOOK, params={"fields": fields})
        return None

    def all_instances(self, wanted: str) -> Listing[Json]:
        """The project's VMs that a filter takes, each with its ``zone``."""
        fields = f"{INSTANCE_FIELDS},zone,machineType,scheduling"
        found = list_all_zones(self.access, "instances", fields=fields, wanted=wanted, policy=LOOK)
        return found.listing

    def list(self, collection: str, wanted: str, fields: str) -> Listing[Json]:
        """What of a collection of this project's a filter takes."""
        fields = f"items({fields}),nextPageToken,warning"
        params = {"filter": wanted, "maxResults": "500", "fields": fields}
        action = f"list {collection}"
        return self.access.list_all(self.url(collection), action=action, params=params, policy=LOOK)

    def url(self, path: str) -> str:
        """The address of something of this project's."""
        return f"{self.access.url(Api.COMPUTE)}/compute/v1/projects/{self.access.project}/{path}"


def message(method: str, body: Mapping[str, Any]) -> Any:
    """The client's own value of a request's JSON.

    Raises:
        RequestError: a field that Google's client does not know, or a value that does not fit it.
    """
    from google.cloud.compute_v1 import types

    return value_of(getattr(types, _RESOURCES[method]), body, of=method, library="google-cloud-compute")


def errors_of(operation: Mapping[str, Any]) -> tuple[Json, ...]:
    """What went wrong; empty for a success.

    A status code may be missing beside ``error.errors``, and stand alone: with words that say no more.
    """
    error = operation.get("error")
    errors = mappings(mapping(error).get("errors"))
    if not errors and (error or operation.get("httpErrorStatusCode")):
        return ({"message": operation.get("httpErrorMessage")},)
    return errors


def is_taken(operation: Json) -> bool:
    """Whether something already has a requested name."""
    return any(one.get("code") == "RESOURCE_ALREADY_EXISTS" for one in errors_of(operation))


def error_of(
    operation: Mapping[str, Any], action: str, members: Sequence[Json] = (), zone: str = "", project: str = ""
) -> GputrainError | None:
    """What the most severe of an operation's errors means, or of its members'; None where there are none.

    Google's neutral "minimum not reached" counts without another reason.
    """
    status, errors = int(operation.get("httpErrorStatusCode") or 0), (*errors_of(operation), *members)
    errors = tuple(one for one in errors if one.get("code") != "VM_MIN_COUNT_NOT_REACHED") or errors
    details = [operation_error(one, status=status, place=zone) for one in errors]
    return most_severe(to_error(one, action, project=project) for one in details)


def errors_of_members(calls: Calls, zone: str, operation: Json) -> tuple[Json, ...]:
    """What the parent's error hides: the cause stands in the operations of the members."""
    group = operation.get("operationGroupId")
    if not group:
        return ()
    try:
        members = calls.operations(zone, f'operationGroupId="{group}"').items
    except GputrainError as error:  # the parent's own words must do
        log.info("could not look at the members of %s: %s", group, error)
        return ()
    return tuple(one for member in members for one in errors_of(member))
