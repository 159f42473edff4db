"""The calls to Compute Engine, over REST: Google's JSON in, Google's JSON out.

The official client is not used for them: a request is sent as the plan shows it, a list asks for the few
fields that are looked at (1,000 VMs in 80 KB), and an operation that is DONE with errors cannot pass for a
success, as it can in google-cloud-compute 1.56.0 (measured 2026-11-20).
"""

from __future__ import annotations

from collections.abc import Callable, Mapping
from typing import Any

import attrs

from gputrain.errors import TransientError
from gputrain.gcp import LABEL_JOB, Access, Answer, Api, Listing, Page, read_all, to_error
from gputrain.gcp.paging import left_out_of
from gputrain.retry import READ, WRITE, Policy, retried

Json = dict[str, Any]

LOOK = Policy(budget_s=20.0)
"""A look that fails for longer is the watcher's to repeat."""

OPERATION_EVERY_S = 1.0
INSTANCE_FIELDS = "name,id,status"
OPERATION_FIELDS = (
    "items(name,operationType,targetId,targetLink,user,status,insertTime,operationGroupId,"
    "httpErrorStatusCode,error),nextPageToken,warning"
)


@attrs.frozen(kw_only=True)
class Calls:
    """Compute Engine as one project sees it."""

    access: Access

    def start(self, zone: str, method: str, body: Mapping[str, Any], request_id: str) -> Json:
        """The one write that makes VMs, ``insert`` or ``bulkInsert``; the operation. Repeatable by its id.

        Raises:
            PreconditionError: a VM of one of the names exists.
            CapacityError, AccessError, RequestError: as Compute Engine answers at once.
            TransientError: no answer came for two minutes.
        """
        url = self._url(f"zones/{zone}/instances") + ("/bulkInsert" if method == "bulkInsert" else "")
        return self._write("POST", url, f"create the VMs in {zone}", request_id, json=body)

    def delete(self, zone: str, name: str, request_id: str) -> Json:
        """Delete a VM; the operation.

        Raises:
            MissingError: there is none of that name.
        """
        return self._write(
            "DELETE", self._url(f"zones/{zone}/instances/{name}"), f"delete {name}", request_id
        )

    def end_of(self, zone: str, operation: Json) -> Json:
        """The operation once it is done, well or with errors; its end is seen within a second."""
        url = self._url(f"zones/{zone}/operations/{operation['name']}")
        while operation.get("status") != "DONE":
            self.access.sleep(OPERATION_EVERY_S)
            operation = self._read(url, f"look at the operation {operation['name']}", READ)
        return operation

    def operations(self, zone: str, wanted: str) -> Listing[Json]:
        """The zone's operations that a filter takes, of the last fortnight."""
        return self._list(f"zones/{zone}/operations", wanted, OPERATION_FIELDS)

    def instances(self, zone: str, wanted: str, *, fields: str = INSTANCE_FIELDS) -> Listing[Json]:
        """The zone's VMs that a filter takes."""
        return self._list(f"zones/{zone}/instances", wanted, f"items({fields}),nextPageToken,warning")

    def all_instances(self, wanted: str) -> Listing[Json]:
        """The project's VMs that a filter takes, each with its ``zone``."""
        fields = f"items/*/instances({INSTANCE_FIELDS},labels,zone,machineType,scheduling)"
        fields += ",nextPageToken,unreachables"

        def page(token: str) -> Page[Json]:
            params = {"filter": wanted, "maxResults": "500", "pageToken": token, "fields": fields}
            body = self._read(self._url("aggregated/instances"), "list the VMs", LOOK, params)
            items = [vm for place in body.get("items", {}).values() for vm in place.get("instances", ())]
            left_out = tuple(map(str, body.get("unreachables", ())))
            return Page(items=tuple(items), next_token=body.get("nextPageToken", ""), left_out=left_out)

        return read_all(page)

    def serial(self, zone: str, name: str, start: int) -> Json:
        """What a VM wrote to its serial port from an offset on, as far as the last MiB holds it.

        Raises:
            MissingError: the VM is gone, and its serial port with it.
        """
        url = self._url(f"zones/{zone}/instances/{name}/serialPort")
        params = {"port": "1", "start": str(start), "fields": "contents,start,next"}
        return self._read(url, f"read the serial port of {name}", LOOK, params)

    def image(self, path: str) -> Json:
        """An image, or the newest of a family, by the name a disk uses.

        Raises:
            MissingError: there is none.
        """
        url = f"{self.access.url(Api.COMPUTE)}/compute/v1/{path}"
        return self._read(url, "look for the boot image", READ, {"fields": "name,selfLink,architecture"})

    def _list(self, collection: str, wanted: str, fields: str) -> Listing[Json]:
        def page(token: str) -> Page[Json]:
            params = {"filter": wanted, "maxResults": "500", "pageToken": token, "fields": fields}
            body = self._read(self._url(collection), f"list {collection}", LOOK, params)
            return Page(
                items=tuple(body.get("items", ())),
                next_token=body.get("nextPageToken", ""),
                left_out=left_out_of(body),
            )

        return read_all(page)

    def _url(self, path: str) -> str:
        return f"{self.access.url(Api.COMPUTE)}/compute/v1/projects/{self.access.project}/{path}"

    def _read(self, url: str, action: str, policy: Policy, params: Mapping[str, str] | None = None) -> Json:
        sent = {name: value for name, value in (params or {}).items() if value}
        return self._tried(lambda: self.access.rest_json("GET", url, action=action, params=sent), policy)

    def _write(self, method: str, url: str, action: str, request_id: str, **options: Any) -> Json:
        params = {"requestId": request_id}
        return self._tried(
            lambda: self.access.rest_json(method, url, action=action, params=params, **options), WRITE
        )

    def _tried(self, call: Callable[[], Json], policy: Policy) -> Json:
        return retried(call, policy=policy, sleep=self.access.sleep)


def errors_of(operation: Mapping[str, Any]) -> tuple[Json, ...]:
    """What went wrong, Google's neutral "minimum not reached" left out; empty for a success.

    Only ``error.errors`` decides: a status code may be missing beside it.
    """
    errors = (operation.get("error") or {}).get("errors") or ()
    return tuple(one for one in errors if one.get("code") != "VM_MIN_COUNT_NOT_REACHED")


def answer_of(error: Mapping[str, Any], status: int) -> Answer:
    """One error of an operation as an answer, to be told apart by the same rules as an immediate one."""
    reasons = {str(error.get("code", ""))}
    metadata: Json = {}
    for detail in error.get("errorDetails") or ():
        info = detail.get("errorInfo") or {}
        reasons |= {str(info["reason"])} if info.get("reason") else set()
        metadata |= info.get("metadatas") or info.get("metadata") or {}
    return Answer(
        status=status,
        message=str(error.get("message", "")),
        reasons=frozenset(reasons),
        metadata={str(key): str(value) for key, value in metadata.items()},
        raw=dict(error),
    )


def raise_first(errors: tuple[Json, ...], status: int, action: str) -> None:
    """Raise what the gravest of an operation's errors means: access, then the request, then capacity.

    A gang that exceeds a quota often meets a stockout in the same breath; only the former needs a person.
    """
    found = [to_error(answer_of(one, status), action) for one in errors]
    passing = [error for error in found if isinstance(error, TransientError)]
    capacity = [error for error in found if type(error).__name__ == "CapacityError"]
    grave = [error for error in found if error not in passing and error not in capacity]
    for error in (*grave, *capacity, *passing):
        raise error


def ours(job_id: str = "") -> str:
    """The list filter that takes our VMs, or those of one job."""
    return f"labels.{LABEL_JOB}={job_id}" if job_id else f"labels.{LABEL_JOB}:*"
