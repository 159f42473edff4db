"""Every documented way in which a Compute Engine call goes wrong, by row, ready to be ordered.

``cloud.fail("compute.instances.insert", "C26")`` makes the next insert go wrong as row C26 says. The
sentences are Google's, as found in public threads and client sources (read 2026-11-20); ``{project}``,
``{number}``, ``{zone}``, ``{region}`` and ``{name}`` are filled in.
"""

# ruff: noqa: E501 - one row a line, and the sentences are not ours to break

from __future__ import annotations

from dataclasses import dataclass
from typing import Any

from gputrain.emulator import faults
from gputrain.emulator.errors import ApiError, compute_error_info
from gputrain.emulator.faults import Fault, OperationFails, RawReply, Refuse

AT_ONCE, LATER, WIRE, LIST = "at once", "in the operation", "on the wire", "in a list"


@dataclass(frozen=True, kw_only=True)
class Failure:
    """One row: where it shows, with which status and code, in which words."""

    where: str
    http: int | None
    code: str
    """Old-style reason where it shows at once, ``errors[].code`` in an operation, warning code in a list."""
    message: str
    domain: str = "global"
    info: str = ""
    """ErrorInfo.reason, where the reply carries one."""
    facts: tuple[tuple[str, str], ...] = ()
    """ErrorInfo.metadatas."""


_POOL = "does not have enough resources available to fulfill the request."
_ACTIVATE = "https://console.developers.google.com/apis/api/compute.googleapis.com/overview?project={number}"

ROWS = {
    "C01": Failure(where=LATER, http=503, code="ZONE_RESOURCE_POOL_EXHAUSTED", message="The zone 'projects/{project}/zones/{zone}' " + _POOL + "  Try a different zone, or try again later."),
    "C02": Failure(where=LATER, http=503, code="ZONE_RESOURCE_POOL_EXHAUSTED_WITH_DETAILS", message="The zone 'projects/{project}/zones/{zone}' " + _POOL + "  '(resource type:compute)'."),
    "C03": Failure(where=LATER, http=503, code="REGION_RESOURCE_POOL_EXHAUSTED", message="The region 'projects/{project}/regions/{region}' " + _POOL),
    "C04": Failure(where=AT_ONCE, http=503, code="insufficientCapacity", message="insufficient capacity"),
    "C05": Failure(where=LATER, http=503, code="VM_MIN_COUNT_NOT_REACHED", message="Requested minimum count of 4 VMs could not be created."),
    "C06": Failure(where=LATER, http=403, code="QUOTA_EXCEEDED", message="Quota 'GPUS_ALL_REGIONS' exceeded.  Limit: 0.0 globally."),
    "C07": Failure(where=AT_ONCE, http=403, code="quotaExceeded", domain="usageLimits", message="Quota 'CPUS' exceeded.  Limit: 24.0 in region {region}."),
    "C08": Failure(where=AT_ONCE, http=403, code="rateLimitExceeded", domain="usageLimits", message="Quota exceeded for quota metric 'Queries' and limit 'Queries per minute' of service 'compute.googleapis.com' for consumer 'project_number:{number}'."),
    "C08d": Failure(where=AT_ONCE, http=403, code="rateLimitExceeded", domain="usageLimits", message="Quota exceeded for quota metric 'Queries' and limit 'Queries per day' of service 'compute.googleapis.com' for consumer 'project_number:{number}'."),
    "C09": Failure(where=AT_ONCE, http=403, code="rateLimitExceeded", domain="usageLimits", message="Rate Limit Exceeded", info="CONCURRENT_OPERATIONS_QUOTA_EXCEEDED", facts=(("containerType", "PROJECT"), ("containerId", "{number}"), ("location", "global"))),
    "C10": Failure(where=LATER, http=None, code="RESOURCE_OPERATION_RATE_EXCEEDED", message="Too frequent operations from the source resource"),
    "C11": Failure(where=AT_ONCE, http=400, code="resourceNotReady", message="The resource 'projects/{project}/zones/{zone}/instances/{name}' is not ready"),
    "C12": Failure(where=AT_ONCE, http=404, code="notFound", message="The resource 'projects/{project}/zones/{zone}/acceleratorTypes/nvidia-tesla-p100' was not found"),
    "C13": Failure(where=LATER, http=404, code="RESOURCE_NOT_FOUND", message="The resource 'projects/{project}/zones/{zone}/instances/{name}' was not found"),
    "C14": Failure(where=LATER, http=None, code="UNSUPPORTED_OPERATION", message="Instance was preempted during creation."),
    "C15": Failure(where=LATER, http=400, code="UNSUPPORTED_OPERATION", message="Instance {name} creation failed: Instances with guest accelerators do not support live migration"),
    "C16": Failure(where=AT_ONCE, http=400, code="invalid", message="Invalid value for field 'resource.machineType': 'zones/{zone}/machineTypes/a2-highgpu-1g'. Machine type with name 'a2-highgpu-1g' does not exist in zone '{zone}'."),
    "C17": Failure(where=AT_ONCE, http=400, code="badRequest", message="[nvidia-tesla-a100, n1-highmem-8] features are not compatible for creating instance."),
    "C18": Failure(where=AT_ONCE, http=400, code="badRequest", message="[pd-extreme] features and [instance_type: VIRTUAL_MACHINE\nfamily: COMPUTE_OPTIMIZED] InstanceTaxonomies are not compatible for creating instance."),
    "C19": Failure(where=AT_ONCE, http=400, code="invalid", message="Invalid value for field 'resource.disks[0].initializeParams.diskSizeGb': '10'. Requested disk size cannot be smaller than the image size (50 GB)"),
    "C20": Failure(where=AT_ONCE, http=400, code="invalid", message="Invalid value for field 'resource.networkInterfaces[0].subnetwork': 'regions/{region}/subnetworks/none'. The referenced subnetwork resource cannot be found."),
    "C21": Failure(where=AT_ONCE, http=409, code="alreadyExists", message="The resource 'projects/{project}/zones/{zone}/instances/{name}' already exists"),
    "C22": Failure(where=AT_ONCE, http=400, code="resourceInUseByAnotherResource", message="The disk resource 'projects/{project}/zones/{zone}/disks/{name}' is already being used by 'projects/{project}/zones/{zone}/instances/other'"),
    "C23": Failure(where=AT_ONCE, http=412, code="conditionNotMet", message="Invalid fingerprint."),
    "C24": Failure(where=LATER, http=412, code="CONDITION_NOT_MET", message="Instance '{name}' creation failed: Constraint constraints/compute.vmExternalIpAccess violated for project {number}. Add instance projects/{project}/zones/{zone}/instances/{name} to the constraint to use external IP with it."),
    "C25": Failure(where=LATER, http=412, code="CONDITION_NOT_MET", message="Specified reservation '{name}' does not have available resources for the request."),
    "C26": Failure(where=AT_ONCE, http=403, code="forbidden", message="Required 'compute.instances.create' permission for 'projects/{project}/zones/{zone}/instances/{name}'"),
    "C27": Failure(where=AT_ONCE, http=403, code="accessNotConfigured", domain="usageLimits", message="Compute Engine API has not been used in project {number} before or it is disabled. Enable it by visiting " + _ACTIVATE + " then retry. If you enabled this API recently, wait a few minutes for the action to propagate to our systems and retry.", info="SERVICE_DISABLED", facts=(("service", "compute.googleapis.com"), ("consumer", "projects/{number}"), ("activationUrl", _ACTIVATE))),
    "C28": Failure(where=LATER, http=400, code="SERVICE_ACCOUNT_ACCESS_DENIED", message="The user does not have access to service account 'trainer@{project}.iam.gserviceaccount.com'.  User: 'owner@{project}.example.com'.  Ask a project owner to grant you the iam.serviceAccountUser role on the service account"),
    "C29": Failure(where=AT_ONCE, http=400, code="invalid", message="Invalid value for field 'resource.serviceAccounts[0].email': 'trainer@{project}.iam.gserviceaccount.com'. Service account trainer@{project}.iam.gserviceaccount.com does not exist."),
    "C30": Failure(where=AT_ONCE, http=403, code="forbidden", message="Location {zone} is not found or access is unauthorized."),
    "C31": Failure(where=LATER, http=400, code="IP_SPACE_EXHAUSTED", message="IP space of 'projects/{project}/regions/{region}/subnetworks/default' is exhausted."),
    "C32": Failure(where=AT_ONCE, http=400, code="badRequest", message="Network profile only allows resource creation in location {zone}"),
    "C33": Failure(where=AT_ONCE, http=401, code="authError", message=faults.invalid_credentials().message),
    "C34": Failure(where=AT_ONCE, http=403, code="forbidden", message="Request had insufficient authentication scopes.", info="ACCESS_TOKEN_SCOPE_INSUFFICIENT", facts=(("service", "compute.googleapis.com"),)),
    "C35": Failure(where=WIRE, http=502, code="backendError", message=""),
    "C36": Failure(where=AT_ONCE, http=503, code="backendError", message="The service is currently unavailable."),
    "C37": Failure(where=LIST, http=200, code="UNREACHABLE", message=""),
}  # fmt: skip
"""By row. C02, C06, C16, C20, C21, C23 to C28 and others also come about by themselves when the world's rules are broken."""


def fault(row: str, **names: str) -> Fault:
    """The fault of one row, its sentences filled in with ``names``; raises LookupError for a row there is not."""
    failure = ROWS.get(row)
    if failure is None:
        raise LookupError(f"no such row: {row!r}; there are {', '.join(ROWS)}")
    if failure.where == WIRE:
        return RawReply(status=502, body=faults.HTML_502)
    if failure.where == LIST:
        return faults.partial_page(failure.code)
    message = failure.message.format(**names)
    if failure.where == LATER:
        return OperationFails(
            errors=[_operation_error(row, failure, message, names)], http_status=failure.http
        )
    details = []
    if failure.info:
        filled = {key: text.format(**names) for key, text in failure.facts}
        details.append(compute_error_info(failure.info, **filled))
    return Refuse(
        error=ApiError(
            failure.http or 500, message, reason=failure.code, domain=failure.domain, details=details
        )
    )


def _operation_error(row: str, failure: Failure, message: str, names: dict[str, str]) -> dict[str, Any]:
    error: dict[str, Any] = {"code": failure.code, "message": message}
    if row == "C02":
        metadatas = {
            "vmType": "a3-highgpu-8g",
            "attachment": "nvidia-h100-80gb:8",
            "zone": names["zone"],
            "zonesAvailable": "",
        }
        info = {"reason": "resource_availability", "domain": "compute.googleapis.com", "metadatas": metadatas}
        error["errorDetails"] = [{"errorInfo": info}]
    if row == "C06":
        quota = {
            "metricName": "compute.googleapis.com/gpus_all_regions", "limitName": "GPUS-ALL-REGIONS-per-project",
            "dimensions": {"global": "global"}, "limit": 0.0,
        }  # fmt: skip
        error["errorDetails"] = [{"quotaInfo": quota}]
    return error
