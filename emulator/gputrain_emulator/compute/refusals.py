"""Compute Engine's refusals, in its words as far as public threads show them (read 2026-11-20)."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from http import HTTPStatus
from typing import Any

from gputrain_emulator.compute.links import relative
from gputrain_emulator.errors import ApiError
from gputrain_emulator.quotas import FAMILY_METRIC, GLOBAL, Exceeded


@dataclass(frozen=True, kw_only=True)
class OperationError:
    """How an asynchronous operation fails: ``errors[]`` and the HTTP status that stands for them."""

    errors: Sequence[dict[str, Any]]
    http_status: int | None = None

    @property
    def fields(self) -> dict[str, Any]:
        """What the operation's document says of it."""
        fields: dict[str, Any] = {"error": {"errors": [dict(error) for error in self.errors]}}
        if self.http_status is not None:
            fields["httpErrorStatusCode"] = self.http_status
            fields["httpErrorMessage"] = HTTPStatus(self.http_status).phrase.upper()
        return fields


def operation_error(
    code: str, message: str, *, http_status: int | None = None, **more: Any
) -> OperationError:
    return OperationError(errors=({"code": code, "message": message, **more},), http_status=http_status)


def invalid(field: str, value: object, sentence: str) -> ApiError:
    """400 ``Invalid value for field``."""
    return ApiError(
        400, f"Invalid value for field '{field}': '{value}'. {sentence}".rstrip(), reason="invalid"
    )


def unless_between(field: str, value: int, least: int, most: int, unit: str = "") -> None:
    """400 for a number that is not between the two."""
    if not least <= value <= most:
        raise invalid(field, value, f"Must be between {least} and {most}{unit}.")


def not_found(resource: str) -> ApiError:
    return ApiError(404, f"The resource '{resource}' was not found")


def already_exists(resource: str) -> ApiError:
    return ApiError(409, f"The resource '{resource}' already exists")


def not_ready(resource: str) -> ApiError:
    return ApiError(400, f"The resource '{resource}' is not ready", reason="resourceNotReady")


def incompatible(*features: str) -> ApiError:
    """400 ``[a, b] features are not compatible for creating instance.``"""
    return ApiError(400, f"[{', '.join(features)}] features are not compatible for creating instance.")


def live_migration(name: str) -> ApiError:
    why = "Instances with guest accelerators do not support live migration"
    return ApiError(400, f"Instance {name} creation failed: {why}")


def in_use(resource: str, user: str) -> ApiError:
    sentence = f"The resource '{resource}' is already being used by '{relative(user)}'"
    return ApiError(400, sentence, reason="resourceInUseByAnotherResource")


def permission(name: str, resource: str) -> ApiError:
    return ApiError(403, f"Required '{name}' permission for '{resource}'")


def act_as_denied(account: str, caller: str) -> ApiError:
    why = f"The user does not have access to service account '{account}'.  User: '{caller}'."
    todo = "Ask a project owner to grant you the iam.serviceAccountUser role on the service account"
    return ApiError(400, f"{why}  {todo}")


def _quota_sentence(exceeded: Exceeded) -> str:
    where = "globally" if exceeded.key.region == GLOBAL else f"in region {exceeded.key.region}"
    return f"Quota '{exceeded.key.metric}' exceeded.  Limit: {exceeded.limit:.1f} {where}."


def quota_later(exceeded: Exceeded) -> OperationError:
    """QUOTA_EXCEEDED in the operation, with ``quotaInfo``."""
    key = exceeded.key
    dimensions = {"global": "global"} if key.region == GLOBAL else {"region": key.region}
    if key.metric == FAMILY_METRIC:
        dimensions["gpu_family"] = key.family
    tail = "per-project" if key.region == GLOBAL else "per-project-region"
    info = {
        "metricName": f"compute.googleapis.com/{key.metric.lower()}",
        "limitName": f"{key.metric.replace('_', '-')}-{tail}",
        "dimensions": dimensions,
        "limit": exceeded.limit,
    }
    return operation_error(
        "QUOTA_EXCEEDED", _quota_sentence(exceeded), http_status=403, errorDetails=[{"quotaInfo": info}]
    )


def stockout(
    project: str, zone: str, machine: str, attachment: str, zones_available: Sequence[str]
) -> OperationError:
    """ZONE_RESOURCE_POOL_EXHAUSTED_WITH_DETAILS, naming the zones that do have capacity."""
    gpu, _, count = attachment.partition(":")
    with_gpus = f" with {count} {gpu} accelerator(s)" if gpu else ""
    hint = ""
    if zones_available:
        hint = (
            f" Consider trying your request in the {', '.join(zones_available)} zone(s), which currently "
            "has capacity to accommodate your request."
        )
    localized = f"A {machine} VM instance{with_gpus} is currently unavailable in the {zone} zone.{hint}"
    metadatas = {
        "vmType": machine,
        "attachment": attachment,
        "zone": zone,
        "zonesAvailable": ",".join(zones_available),
    }
    url = "https://cloud.google.com/compute/docs/resource-error"
    details = [
        {"help": {"links": [{"description": "Troubleshooting documentation", "url": url}]}},
        {"localizedMessage": {"locale": "en-US", "message": localized}},
        {
            "errorInfo": {
                "reason": "resource_availability",
                "domain": "compute.googleapis.com",
                "metadatas": metadatas,
            }
        },
    ]
    message = (
        f"The zone 'projects/{project}/zones/{zone}' does not have enough resources available to fulfill "
        "the request.  '(resource type:compute)'."
    )
    code = "ZONE_RESOURCE_POOL_EXHAUSTED_WITH_DETAILS"
    return operation_error(code, message, http_status=503, errorDetails=details)


def insufficient_capacity() -> ApiError:
    """bulkInsert's immediate 503."""
    return ApiError(503, "insufficient capacity", reason="insufficientCapacity")


def min_count(count: int) -> dict[str, Any]:
    """The neutral first error of a failed bulkInsert; the cause is in the child operations."""
    return {
        "code": "VM_MIN_COUNT_NOT_REACHED",
        "message": f"Requested minimum count of {count} VMs could not be created.",
    }
