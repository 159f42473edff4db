"""The calls on which money hangs, through Google's own client: what makes VMs, removes them, and says so.

A request is the JSON that the plan shows, read strictly by the client's own types: a field that Google does
not know is refused here and never sent. The client's traps are kept out (google-cloud-compute 1.56.0,
measured 2026-11-20): its retries are off, its ``result()`` is never asked, because it polls another host and
takes an operation that is DONE with errors for a success.

The client is loaded with the first of these calls: a process that only watches does without it.
"""

from __future__ import annotations

import json
from collections.abc import Callable, Mapping
from typing import Any

import attrs

from gputrain.errors import RequestError
from gputrain.gcp import Access, Api
from gputrain.retry import READ, WRITE, Policy

Json = dict[str, Any]

_RESOURCES = {"insert": "Instance", "bulkInsert": "BulkInsertInstanceResource"}


@attrs.frozen(kw_only=True)
class Official:
    """Compute Engine through ``google.cloud.compute_v1``, for one project."""

    access: Access

    def start(
        self,
        zone: str,
        method: str,
        body: Mapping[str, Any],
        request_id: str,
        *,
        before: Callable[[], object] = lambda: None,
    ) -> Json:
        """The one write that makes VMs, ``insert`` or ``bulkInsert``; the operation. Repeatable by its id.

        Args:
            before: called before each time that it is sent.

        Raises:
            PreconditionError: a VM of one of the names exists.
            CapacityError, AccessError, RequestError: as Compute Engine answers at once.
            TransientError: no answer came for two minutes.
        """
        resource = message(method, body)
        asked = {"project": self.access.project, "zone": zone, "request_id": request_id}
        if method == "bulkInsert":
            call = self._client("Instances").bulk_insert_unary
            asked["bulk_insert_instance_resource_resource"] = resource
        else:
            call = self._client("Instances").insert_unary
            asked["instance_resource"] = resource

        def sent(**options: Any) -> Any:
            before()
            return call(**options)

        return self._tried(sent, asked, f"create the VMs in {zone}", WRITE)

    def delete(self, zone: str, name: str, request_id: str) -> Json:
        """Delete a VM; the operation.

        Raises:
            MissingError: there is none of that name.
        """
        asked = {"project": self.access.project, "zone": zone, "instance": name, "request_id": request_id}
        return self._tried(self._client("Instances").delete_unary, asked, f"delete {name}", WRITE)

    def operation(self, zone: str, name: str) -> Json:
        """One operation as it is now."""
        asked = {"project": self.access.project, "zone": zone, "operation": name}
        return self._tried(self._client("ZoneOperations").get, asked, f"look at the operation {name}", READ)

    def image(self, path: str) -> Json:
        """An image, or the newest of a family, by the name that a disk uses.

        Raises:
            MissingError: there is none.
        """
        project, _, name = path.removeprefix("projects/").partition("/global/images/")
        family = name.removeprefix("family/")
        images = self._client("Images")
        if family != name:
            call, asked = images.get_from_family, {"project": project, "family": family}
        else:
            call, asked = images.get, {"project": project, "image": name}
        return self._tried(call, asked, "look for the boot image", READ)

    def _client(self, service: str) -> Any:
        from google.cloud import compute_v1

        return self.access.client(getattr(compute_v1, f"{service}Client"), self.access.url(Api.COMPUTE))

    def _tried(self, call: Callable[..., Any], asked: Mapping[str, Any], action: str, policy: Policy) -> Json:
        return self.access.tried(
            lambda: plain(call(request=dict(asked), timeout=policy.call_s, retry=None)),
            action=action,
            policy=policy,
            place=str(asked.get("zone", "")),
        )


def message(method: str, body: Mapping[str, Any]) -> Any:
    """The client's own value of a request's JSON.

    Raises:
        RequestError: a field that Google's client does not know, or a value that does not fit it.
    """
    from google.cloud.compute_v1 import types
    from google.protobuf.json_format import ParseError

    try:
        return getattr(types, _RESOURCES[method]).from_json(json.dumps(body))
    except ParseError as error:
        raise RequestError(
            f"{method} takes no such request",
            why=str(error),
            fix="this release of google-cloud-compute does not know it: install 1.56 or newer",
            raw=dict(body),
        ) from error


def plain(answer: Any) -> Json:
    """An answer of the client as Google's JSON."""
    from google.protobuf.json_format import MessageToDict

    found: Json = MessageToDict(type(answer).pb(answer))
    return found
