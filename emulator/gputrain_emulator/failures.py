"""Every documented way in which a call to Compute Engine or Vertex AI goes wrong, by row, ready to be ordered.

``cloud.fail("compute.instances.insert", "C26")`` makes the next insert go wrong as row C26 says, and
``cloud.fail("aiplatform.customJobs.create", "V07")`` a create as V07 says. A small letter behind a number is
another form of the same failure. The sentences are Google's, as found in public threads and client sources
(read 2026-11-20); ``{project}``, ``{number}``, ``{zone}``, ``{region}`` and ``{name}`` are filled in.
"""

# ruff: noqa: E501 - one row a line, and the sentences are not ours to break

from __future__ import annotations

from dataclasses import dataclass
from typing import Any

from gputrain_emulator import faults
from gputrain_emulator.errors import ApiError, compute_error_info, error_info
from gputrain_emulator.faults import Fault, OperationFails, RawReply, Refuse

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
    quota: tuple[tuple[str, Any], ...] = ()
    """quotaInfo, where an operation's error carries one."""
    canonical: str = ""
    """google.rpc.Code of a Vertex AI refusal, where it is not the usual one of its status."""


_RESOURCE = "The resource 'projects/{project}/zones/{zone}/"
_STOPPED = "Instance '{name}' creation failed: Constraint constraints/"
_GLOBAL_GPUS = (
    ("metricName", "compute.googleapis.com/gpus_all_regions"), ("limitName", "GPUS-ALL-REGIONS-per-project"),
    ("dimensions", {"global": "global"}), ("limit", 0.0),
)  # fmt: skip
_FAMILY_GPUS = (
    ("metricName", "compute.googleapis.com/gpus_per_gpu_family"),
    ("limitName", "GPUS-PER-GPU-FAMILY-per-project-region"),
    ("dimensions", {"gpu_family": "NVIDIA_H100", "region": "us-central1"}), ("limit", 16.0),
    ("futureLimit", 32.0), ("rolloutStatus", "IN_PROGRESS"),
)  # fmt: skip
_SEEN = (("vmType", "a3-highgpu-8g"), ("attachment", "nvidia-h100-80gb:8"), ("zone", "{zone}"))
_POOL = "does not have enough resources available to fulfill the request."
_ACTIVATE = "https://console.developers.google.com/apis/api/compute.googleapis.com/overview?project={number}"

ROWS = {
    "C01": Failure(where=LATER, http=503, code="ZONE_RESOURCE_POOL_EXHAUSTED", message="The zone 'projects/{project}/zones/{zone}' " + _POOL + "  Try a different zone, or try again later."),
    "C02": Failure(where=LATER, http=503, code="ZONE_RESOURCE_POOL_EXHAUSTED_WITH_DETAILS", message="The zone 'projects/{project}/zones/{zone}' " + _POOL + "  '(resource type:compute)'.", info="resource_availability", facts=(*_SEEN, ("zonesAvailable", ""))),
    "C02a": Failure(where=LATER, http=503, code="ZONE_RESOURCE_POOL_EXHAUSTED_WITH_DETAILS", message="The zone 'projects/{project}/zones/{zone}' " + _POOL + " 'NULL:0/NULL:0/NULL:0 (state:STOCKOUT, sub-state:STOCKOUT)'.", info="resource_availability", facts=(*_SEEN, ("zonesAvailable", "{region}-b,{region}-f"))),
    "C03": Failure(where=LATER, http=503, code="REGION_RESOURCE_POOL_EXHAUSTED", message="The region 'projects/{project}/regions/{region}' " + _POOL),
    "C03a": Failure(where=LATER, http=503, code="RESOURCE_POOL_EXHAUSTED", message="The zone 'projects/{project}/zones/{zone}' " + _POOL),
    "C03b": Failure(where=LATER, http=503, code="INSUFFICIENT_CAPACITY", message="There is not enough capacity for the request."),
    "C04": Failure(where=AT_ONCE, http=503, code="insufficientCapacity", message="insufficient capacity"),
    "C05": Failure(where=LATER, http=503, code="VM_MIN_COUNT_NOT_REACHED", message="Requested minimum count of 4 VMs could not be created."),
    "C06": Failure(where=LATER, http=403, code="QUOTA_EXCEEDED", message="Quota 'GPUS_ALL_REGIONS' exceeded.  Limit: 0.0 globally.", quota=_GLOBAL_GPUS),
    "C06a": Failure(where=LATER, http=403, code="QUOTA_EXCEEDED", message="Quota 'GPUS_PER_GPU_FAMILY' exceeded.  Limit: 16.0 in region {region}.", quota=_FAMILY_GPUS),
    "C06b": Failure(where=LATER, http=403, code="QUOTA_EXCEEDED", message="Quota 'PREEMPTIBLE_NVIDIA_L4_GPUS' exceeded.  Limit: 0.0 in region {region}."),
    "C07": Failure(where=AT_ONCE, http=403, code="quotaExceeded", domain="usageLimits", message="Quota 'CPUS' exceeded.  Limit: 24.0 in region {region}."),
    "C08": Failure(where=AT_ONCE, http=403, code="rateLimitExceeded", domain="usageLimits", message="Quota exceeded for quota metric 'Queries' and limit 'Queries per minute' of service 'compute.googleapis.com' for consumer 'project_number:{number}'."),
    "C08d": Failure(where=AT_ONCE, http=403, code="rateLimitExceeded", domain="usageLimits", message="Quota exceeded for quota metric 'Queries' and limit 'Queries per day' of service 'compute.googleapis.com' for consumer 'project_number:{number}'."),
    "C09": Failure(where=AT_ONCE, http=403, code="rateLimitExceeded", domain="usageLimits", message="Rate Limit Exceeded", info="CONCURRENT_OPERATIONS_QUOTA_EXCEEDED", facts=(("containerType", "PROJECT"), ("containerId", "{number}"), ("location", "global"))),
    "C10": Failure(where=LATER, http=None, code="RESOURCE_OPERATION_RATE_EXCEEDED", message="Too frequent operations from the source resource"),
    "C11": Failure(where=AT_ONCE, http=400, code="resourceNotReady", message="The resource 'projects/{project}/zones/{zone}/instances/{name}' is not ready"),
    "C12": Failure(where=AT_ONCE, http=404, code="notFound", message="The resource 'projects/{project}/zones/{zone}/acceleratorTypes/nvidia-tesla-p100' was not found"),
    "C12a": Failure(where=AT_ONCE, http=404, code="notFound", message="The resource 'projects/{project}/global/images/none' was not found"),
    "C12b": Failure(where=LATER, http=404, code="RESOURCE_NOT_FOUND", message=_RESOURCE + "machineTypes/a2-highgpu-1g' was not found"),
    "C13": Failure(where=LATER, http=404, code="RESOURCE_NOT_FOUND", message="The resource 'projects/{project}/zones/{zone}/instances/{name}' was not found"),
    "C14": Failure(where=LATER, http=None, code="UNSUPPORTED_OPERATION", message="Instance was preempted during creation."),
    "C15": Failure(where=LATER, http=400, code="UNSUPPORTED_OPERATION", message="Instance {name} creation failed: Instances with guest accelerators do not support live migration"),
    "C16": Failure(where=AT_ONCE, http=400, code="invalid", message="Invalid value for field 'resource.machineType': 'zones/{zone}/machineTypes/a2-highgpu-1g'. Machine type with name 'a2-highgpu-1g' does not exist in zone '{zone}'."),
    "C17": Failure(where=AT_ONCE, http=400, code="badRequest", message="[nvidia-tesla-a100, n1-highmem-8] features are not compatible for creating instance."),
    "C18": Failure(where=AT_ONCE, http=400, code="badRequest", message="[pd-extreme] features and [instance_type: VIRTUAL_MACHINE\nfamily: COMPUTE_OPTIMIZED] InstanceTaxonomies are not compatible for creating instance."),
    "C19": Failure(where=AT_ONCE, http=400, code="invalid", message="Invalid value for field 'resource.disks[0].initializeParams.diskSizeGb': '10'. Requested disk size cannot be smaller than the image size (50 GB)"),
    "C19a": Failure(where=AT_ONCE, http=400, code="invalid", message="Invalid value for field 'resource.disks[0].type': 'zones/{zone}/diskTypes/pd-standard'. Disk type pd-standard is not supported for machine type c3-standard-16."),
    "C20": Failure(where=AT_ONCE, http=400, code="invalid", message="Invalid value for field 'resource.networkInterfaces[0].subnetwork': 'regions/{region}/subnetworks/none'. The referenced subnetwork resource cannot be found."),
    "C21": Failure(where=AT_ONCE, http=409, code="alreadyExists", message="The resource 'projects/{project}/zones/{zone}/instances/{name}' already exists"),
    "C22": Failure(where=AT_ONCE, http=400, code="resourceInUseByAnotherResource", message="The disk resource 'projects/{project}/zones/{zone}/disks/{name}' is already being used by 'projects/{project}/zones/{zone}/instances/other'"),
    "C22a": Failure(where=AT_ONCE, http=400, code="resourceInUseByAnotherResource", message="The resource_policy resource 'projects/{project}/regions/{region}/resourcePolicies/{name}' is already being used by 'projects/{project}/zones/{zone}/instances/other'"),
    "C23": Failure(where=AT_ONCE, http=412, code="conditionNotMet", message="Invalid fingerprint."),
    "C23a": Failure(where=AT_ONCE, http=412, code="conditionNotMet", message="Supplied fingerprint does not match current metadata fingerprint."),
    "C23b": Failure(where=AT_ONCE, http=412, code="conditionNotMet", message="Labels fingerprint either invalid or resource labels have changed"),
    "C24": Failure(where=LATER, http=412, code="CONDITION_NOT_MET", message="Instance '{name}' creation failed: Constraint constraints/compute.vmExternalIpAccess violated for project {number}. Add instance projects/{project}/zones/{zone}/instances/{name} to the constraint to use external IP with it."),
    "C24a": Failure(where=LATER, http=412, code="CONDITION_NOT_MET", message=_STOPPED + "compute.trustedImageProjects violated for project {number}. Use of images from project debian-cloud is prohibited."),
    "C24b": Failure(where=LATER, http=412, code="CONDITION_NOT_MET", message=_STOPPED + "compute.requireShieldedVm violated for project {number}."),
    "C24c": Failure(where=AT_ONCE, http=412, code="conditionNotMet", message="Constraint constraints/gcp.resourceLocations violated for [orgpolicy:projects/{project}] attempting to create an instance in [{zone}]."),
    "C25": Failure(where=LATER, http=412, code="CONDITION_NOT_MET", message="Specified reservation '{name}' does not have available resources for the request."),
    "C25a": Failure(where=LATER, http=412, code="CONDITION_NOT_MET", message="Specified reservation '{name}' does not exist."),
    "C25b": Failure(where=LATER, http=412, code="CONDITION_NOT_MET", message="Cannot insert instance to a reservation with status: CREATING, as it requires reservation to be in READY state."),
    "C25c": Failure(where=LATER, http=412, code="CONDITION_NOT_MET", message="No available resources in specified reservations '{name}'"),
    "C25d": Failure(where=LATER, http=412, code="CONDITION_NOT_MET", message="The reservation must exist in the same project as the instance."),
    "C25e": Failure(where=LATER, http=412, code="CONDITION_NOT_MET", message="There is no automatic reservation matching the request."),
    "C25f": Failure(where=LATER, http=412, code="CONDITION_NOT_MET", message="All automatic reservations matching the request are fully consumed."),
    "C26": Failure(where=AT_ONCE, http=403, code="forbidden", message="Required 'compute.instances.create' permission for 'projects/{project}/zones/{zone}/instances/{name}'"),
    "C27": Failure(where=AT_ONCE, http=403, code="accessNotConfigured", domain="usageLimits", message="Compute Engine API has not been used in project {number} before or it is disabled. Enable it by visiting " + _ACTIVATE + " then retry. If you enabled this API recently, wait a few minutes for the action to propagate to our systems and retry.", info="SERVICE_DISABLED", facts=(("service", "compute.googleapis.com"), ("consumer", "projects/{number}"), ("activationUrl", _ACTIVATE))),
    "C28": Failure(where=LATER, http=400, code="SERVICE_ACCOUNT_ACCESS_DENIED", message="The user does not have access to service account 'trainer@{project}.iam.gserviceaccount.com'.  User: 'owner@{project}.example.com'.  Ask a project owner to grant you the iam.serviceAccountUser role on the service account"),
    "C29": Failure(where=AT_ONCE, http=400, code="invalid", message="Invalid value for field 'resource.serviceAccounts[0].email': 'trainer@{project}.iam.gserviceaccount.com'. Service account trainer@{project}.iam.gserviceaccount.com does not exist."),
    "C30": Failure(where=AT_ONCE, http=403, code="forbidden", message="Location {zone} is not found or access is unauthorized."),
    "C31": Failure(where=LATER, http=400, code="IP_SPACE_EXHAUSTED", message="IP space of 'projects/{project}/regions/{region}/subnetworks/default' is exhausted."),
    "C31a": Failure(where=LATER, http=403, code="PERMISSIONS_ERROR", message="The service agent of project {number} lacks permissions on the network."),
    "C32": Failure(where=AT_ONCE, http=400, code="badRequest", message="Network profile only allows resource creation in location {zone}"),
    "C33": Failure(where=AT_ONCE, http=401, code="authError", message=faults.invalid_credentials().message),
    "C34": Failure(where=AT_ONCE, http=403, code="forbidden", message="Request had insufficient authentication scopes.", info="ACCESS_TOKEN_SCOPE_INSUFFICIENT", facts=(("service", "compute.googleapis.com"),)),
    "C35": Failure(where=WIRE, http=502, code="backendError", message=""),
    "C35a": Failure(where=AT_ONCE, http=500, code="internalError", message="Internal error. Please try again or contact Google Support."),
    "C35b": Failure(where=AT_ONCE, http=503, code="backendError", message="Backend Error"),
    "C36": Failure(where=AT_ONCE, http=503, code="backendError", message="The service is currently unavailable."),
    "C37": Failure(where=LIST, http=200, code="UNREACHABLE", message=""),
    "C37a": Failure(where=LIST, http=200, code="LIST_OVERHEAD_QUOTA_EXCEED", message=""),
    "C37b": Failure(where=LIST, http=200, code="PARTIAL_SUCCESS", message=""),
}  # fmt: skip
"""By row. C02, C06, C16, C20, C21, C23 to C28 and others also come about by themselves when the world's rules are broken."""

_L4 = "aiplatform.googleapis.com/custom_model_training_nvidia_l4_gpus"
_PARENT = "//aiplatform.googleapis.com/projects/{project}/locations/{region}"

VERTEX_ROWS = {
    "V01": Failure(where=AT_ONCE, http=429, code="", message="The following quota metrics exceed quota limits: " + _L4),
    "V01a": Failure(where=AT_ONCE, http=429, code="", message="The following quota metrics exceed quota limits: aiplatform.googleapis.com/custom_model_training_cpus, " + _L4 + ", "),
    "V03": Failure(where=AT_ONCE, http=429, code="", message="Quota exceeded for quota metric 'aiplatform.googleapis.com/job_writes' and limit 'requests per minute' of service 'aiplatform.googleapis.com' for consumer 'project_number:{number}'.", info="RATE_LIMIT_EXCEEDED", facts=(("quota_metric", "aiplatform.googleapis.com/job_writes"), ("quota_location", "{region}"), ("quota_limit_value", "60"))),
    "V03a": Failure(where=AT_ONCE, http=429, code="", message="Quota exceeded for aiplatform.googleapis.com/online_requests_per_minute. Please submit a quota increase request."),
    "V04": Failure(where=AT_ONCE, http=400, code="", message='Machine type "a2-highgpu-1g" is not supported.'),
    "V05": Failure(where=AT_ONCE, http=400, code="", message='The accelerator count "8" is not allowed. The allowed numbers of accelerator "NVIDIA_L4" to use with machine type "g2-standard-8" are: [1].'),
    "V06": Failure(where=AT_ONCE, http=400, code="", message='Accelerator "NVIDIA_L4" is not supported for machine type "n1-standard-4".'),
    "V06a": Failure(where=AT_ONCE, http=400, code="", message='"NVIDIA_TESLA_P100" is not supported for machine type "n1-standard-4".'),
    "V07": Failure(where=AT_ONCE, http=400, code="", message="You do not have permission to act as service_account: trainer@{project}.iam.gserviceaccount.com. (or it may not exist)."),
    "V08": Failure(where=AT_ONCE, http=403, code="", message="Permission 'aiplatform.customJobs.create' denied on resource '" + _PARENT + "' (or it may not exist).", info="IAM_PERMISSION_DENIED", facts=(("permission", "aiplatform.customJobs.create"), ("resource", "projects/{project}/locations/{region}"))),
    "V09": Failure(where=AT_ONCE, http=403, code="", message="Vertex AI API has not been used in project {number} before or it is disabled. Enable it by visiting " + _ACTIVATE.replace("compute", "aiplatform") + " then retry.", info="SERVICE_DISABLED", facts=(("service", "aiplatform.googleapis.com"), ("consumer", "projects/{number}"))),
    "V10": Failure(where=AT_ONCE, http=400, code="", message="The Cloud Storage bucket of gs://my-bucket is in location us. It must be in the same regional location as the service location {region}.", canonical="FAILED_PRECONDITION"),
}  # fmt: skip
"""Refusals of a create, by row. All but V03a also come about by themselves; so do queues (V02) and ends (V11 to V19)."""


def fault(row: str, **names: str) -> Fault:
    """The fault of one row, its sentences filled in with ``names``; raises LookupError for a row there is not."""
    failure = ROWS.get(row) or VERTEX_ROWS.get(row)
    if failure is None:
        raise LookupError(f"no such row: {row!r}; there are {', '.join((*ROWS, *VERTEX_ROWS))}")
    if failure.where == WIRE:
        return RawReply(status=502, body=faults.HTML_502)
    if failure.where == LIST:
        return faults.partial_page(failure.code)
    message = failure.message.format(**names)
    facts = {key: text.format(**names) for key, text in failure.facts}
    if failure.where == LATER:
        error = _operation_error(failure, message, facts)
        return OperationFails(errors=[error], http_status=failure.http)
    write = error_info if row in VERTEX_ROWS else _compute_info
    return Refuse(
        error=ApiError(
            failure.http or 500,
            message,
            reason=failure.code,
            domain=failure.domain,
            canonical=failure.canonical,
            details=[write(failure.info, "googleapis.com", **facts)] if failure.info else (),
        )
    )


def _compute_info(reason: str, _domain: str, **facts: str) -> dict[str, Any]:
    return compute_error_info(reason, **facts)


def _operation_error(failure: Failure, message: str, facts: dict[str, str]) -> dict[str, Any]:
    error: dict[str, Any] = {"code": failure.code, "message": message}
    if failure.info:
        info = {"reason": failure.info, "domain": "compute.googleapis.com", "metadatas": facts}
        error["errorDetails"] = [{"errorInfo": info}]
    if failure.quota:
        error["errorDetails"] = [{"quotaInfo": dict(failure.quota)}]
    return error
