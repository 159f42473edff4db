"""The calls to Compute Engine: lists over plain REST, everything on which money hangs through `official`.

A list asks for the few fields that are looked at (``fields=``), so that 1,000 VMs are 140 KB; the official
client cannot ask for less than everything. See ``docs/design/decisions/`` for the figures.
"""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any

import attrs

from gputrain.backends.compute.official import Json, Official
from gputrain.backends.compute.operations import Operations
from gputrain.gcp import (
    LABEL_JOB,
    Access,
    Api,
    Listing,
    MissingError,
    answer_of_operation,
    gravest,
    to_error,
)
from gputrain.gcp.places import aggregated
from gputrain.retry import LOOK, READ, Policy

INSTANCE_FIELDS = "name,id,status,labels"
OPERATION_FIELDS = (
    "items(name,operationType,targetId,targetLink,user,status,insertTime,operationGroupId,"
    "httpErrorStatusCode,error),nextPageToken,warning"
)


@attrs.frozen(kw_only=True)
class Calls:
    """Compute Engine as one project sees it."""

    access: Access
    official: Official = attrs.field(init=False)
    _awaited: Operations = attrs.field(init=False)

    @official.default
    def _make_official(self) -> Official:
        return Official(access=self.access)

    @_awaited.default
    def _make_awaited(self) -> Operations:
        return Operations(self.official, lambda zone, wanted: self.operations(zone, wanted, policy=READ))

    def end_of(self, zone: str, operation: Json) -> Json:
        """The operation once it is done, well or with errors; its end is seen within a second."""
        return self._awaited.end_of(zone, operation)

    def operations(self, zone: str, wanted: str, *, policy: Policy = LOOK) -> Listing[Json]:
        """The zone's operations that a filter takes, of the last fortnight."""
        return self._list(f"zones/{zone}/operations", wanted, OPERATION_FIELDS, policy)

    def instances(self, zone: str, wanted: str, *, fields: str = INSTANCE_FIELDS) -> Listing[Json]:
        """The zone's VMs that a filter takes."""
        return self._list(f"zones/{zone}/instances", wanted, f"items({fields}),nextPageToken,warning")

    def instance(self, zone: str, name: str) -> Json | None:
        """One VM as it is now, whatever lists say yet; None where there is none."""
        url = self._url(f"zones/{zone}/instances/{name}")
        try:
            return self.access.get(
                url, action=f"look at {name}", policy=LOOK, params={"fields": INSTANCE_FIELDS}
            )
        except MissingError:
            return None

    def all_instances(self, wanted: str) -> Listing[Json]:
        """The project's VMs that a filter takes, each with its ``zone``."""
        fields = f"{INSTANCE_FIELDS},zone,machineType,scheduling"
        found = aggregated(self.access, "instances", fields=fields, wanted=wanted, policy=LOOK)
        return found.listing.map(dict)

    def serial(self, zone: str, name: str, start: int) -> Json:
        """What a VM wrote to its serial port from an offset on, as far as the last MiB holds it.

        Raises:
            MissingError: the VM is gone, and its serial port with it.
        """
        url = self._url(f"zones/{zone}/instances/{name}/serialPort")
        params = {"port": "1", "start": str(start), "fields": "contents,start,next"}
        return self.access.get(url, action=f"read the serial port of {name}", policy=LOOK, params=params)

    def _list(self, collection: str, wanted: str, fields: str, policy: Policy = LOOK) -> Listing[Json]:
        params = {"filter": wanted, "maxResults": "500", "fields": fields}
        return self.access.pages(
            self._url(collection), action=f"list {collection}", params=params, policy=policy
        )

    def _url(self, path: str) -> str:
        return f"{self.access.url(Api.COMPUTE)}/compute/v1/projects/{self.access.project}/{path}"


def errors_of(operation: Mapping[str, Any]) -> tuple[Json, ...]:
    """What went wrong, Google's neutral "minimum not reached" left out; empty for a success.

    Only ``error.errors`` decides: a status code may be missing beside it.
    """
    error = operation.get("error")
    errors = error.get("errors") if isinstance(error, dict) else ()
    told = [one for one in errors if isinstance(one, dict)] if isinstance(errors, list) else []
    return tuple(one for one in told if one.get("code") != "VM_MIN_COUNT_NOT_REACHED")


def raise_first(errors: tuple[Json, ...], status: int, action: str, *, zone: str, project: str) -> None:
    """Raise what the gravest of an operation's errors means; nothing where there are none."""
    answers = [answer_of_operation(one, status=status, place=zone) for one in errors]
    error = gravest(to_error(answer, action, project=project) for answer in answers)
    if error is not None:
        raise error


def ours(job_id: str = "") -> str:
    """The list filter that takes our VMs, or those of one job."""
    return f"labels.{LABEL_JOB}={job_id}" if job_id else f"labels.{LABEL_JOB}:*"
