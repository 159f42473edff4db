"""Refusals of a place: another zone or region may do."""

# ruff: noqa: E501  # Google's words stand whole, one row a sentence

from __future__ import annotations

from gputrain.errors import CapacityError, Scope
from gputrain.gcp.answer import Answer, Surface
from gputrain.gcp.kinds.kind import Kind, Mark, words

_OPERATION = frozenset({Surface.OPERATION})
_ELSEWHERE = "allow more regions, GPUs or provisioning models, or try again later"
_LISTED = r"(?:List of found errors:.{0,400}?Message: )?"
_POOL = r"The zone 'projects/[^']{1,100}/zones/(?P<zone>[\w-]+)' does not have enough resources available"

KINDS = (
    Kind(
        name="not_in_zone",
        title="the zone does not have it",
        error=CapacityError,
        is_lasting=True,
        marks=(
            Mark(
                codes=words("RESOURCE_NOT_FOUND"),
                message=r"The resource '[^']{1,200}/zones/(?P<zone>[\w-]+)/(?:acceleratorTypes|machineTypes)/[^']+' was not found",
            ),
            Mark(
                message=r"The resource '[^']{1,200}/zones/(?P<zone>[\w-]+)/(?:acceleratorTypes|machineTypes)/[^']+' was not found"
            ),
            Mark(
                message=r".{0,400}\bMachine type with name '[^']{1,80}' does not exist in zone '(?P<zone>[\w-]+)'"
            ),
            Mark(message=r"Location (?P<zone>[\w-]+) is not found or access is unauthorized"),
        ),
        fix="allow more zones or regions",
        advice="Not a matter of stock: the zone never had this machine, or your project may not see the zone."
        " `gputrain gpus` lists the zones of each GPU.",
        example=Answer(
            surface=Surface.COMPUTE,
            status=400,
            codes=words("invalid"),
            message="Invalid value for field 'resource.machineType': 'zones/europe-west2-b/machineTypes/a2-highgpu-1g'. "
            "Machine type with name 'a2-highgpu-1g' does not exist in zone 'europe-west2-b'.",
        ),
    ),
    Kind(
        name="not_in_region",
        title="the region does not have this machine",
        error=CapacityError,
        is_lasting=True,
        scope=Scope.REGION,
        marks=(Mark(message=_LISTED + r'Machine type "[^"]+" is not supported\.'),),
        fix="allow more regions",
        advice="Vertex AI offers fewer machines in fewer regions than Compute Engine does.",
        example=Answer(
            surface=Surface.VERTEX,
            status=400,
            canonical="INVALID_ARGUMENT",
            message='Machine type "a2-highgpu-1g" is not supported.',
        ),
    ),
    Kind(
        name="network_elsewhere",
        title="the network belongs to another zone",
        error=CapacityError,
        is_lasting=True,
        marks=(Mark(message=r"Network profile only allows resource creation in location (?P<only>[\w-]*)"),),
        fix="allow the zone that the answer names, or make a network for this one",
        advice="A network for RDMA is made for a single zone.",
        example=Answer(
            surface=Surface.COMPUTE,
            status=400,
            codes=words("badRequest"),
            message="Network profile only allows resource creation in location us-central1-a",
        ),
    ),
    Kind(
        name="addresses_exhausted",
        title="the subnetwork has no address left",
        error=CapacityError,
        scope=Scope.REGION,
        marks=(
            Mark(codes=words("IP_SPACE_EXHAUSTED IP_SPACE_EXHAUSTED_WITH_DETAILS")),
            Mark(message=r"IP space of '[^']{1,300}' is exhausted"),
        ),
        fix="gcloud compute networks subnets expand-ip-range SUBNET --region REGION --prefix-length 20; or allow more regions",
        advice="Every VM takes an address, also one without an address on the internet.",
        example=Answer(
            surface=Surface.OPERATION,
            status=400,
            codes=words("IP_SPACE_EXHAUSTED"),
            message="IP space of 'projects/my-project/regions/us-central1/subnetworks/default' is exhausted.",
        ),
    ),
    Kind(
        name="reservation_full",
        title="the reservation is used up",
        error=CapacityError,
        marks=(
            Mark(message=r"Specified reservation '[^']*' does not have available resources"),
            Mark(message=r"No available resources in specified reservations"),
            Mark(message=r"All automatic reservations\b.{0,300} fully consumed"),
        ),
        fix="wait until its machines are free, or allow provisioning_model='standard' or 'spot' beside it",
        advice="`gcloud compute reservations describe NAME --zone ZONE` shows how many of it are in use.",
        example=Answer(
            surface=Surface.OPERATION,
            status=412,
            codes=words("CONDITION_NOT_MET"),
            message="Specified reservation 'mine' does not have available resources for the request.",
        ),
    ),
    Kind(
        name="stockout_region",
        title="no machines are left in the region",
        error=CapacityError,
        scope=Scope.REGION,
        marks=(
            Mark(codes=words("REGION_RESOURCE_POOL_EXHAUSTED REGION_RESOURCE_POOL_EXHAUSTED_WITH_DETAILS")),
            Mark(message=r"Resources are insufficient in region: (?P<region>[\w-]+)"),
        ),
        fix=_ELSEWHERE,
        advice="All zones of the region were tried by Google itself. On Vertex AI it is the job that fails, after some"
        " minutes; gputrain makes it again in the next region that you allow.",
        example=Answer(
            surface=Surface.VERTEX,
            status=429,
            canonical="RESOURCE_EXHAUSTED",
            message="Resources are insufficient in region: us-central1. Please try a different region or use a different "
            "accelerator.",
        ),
    ),
    Kind(
        name="stockout",
        title="no machines are left in the zone",
        error=CapacityError,
        marks=(
            Mark(
                codes=words(
                    "ZONE_RESOURCE_POOL_EXHAUSTED ZONE_RESOURCE_POOL_EXHAUSTED_WITH_DETAILS RESOURCE_POOL_EXHAUSTED "
                    "INSUFFICIENT_CAPACITY insufficientCapacity STOCKOUT"
                ),
            ),
            Mark(reasons=words("resource_availability stockout")),
            Mark(message=_POOL),
        ),
        fix=_ELSEWHERE,
        advice="Not a quota: Google has no such machine free there now. Zones that Google names instead are in"
        " `error.zones_available`, and `submit` tries these first. Spot and Flex-start draw on other stock.",
        example=Answer(
            surface=Surface.OPERATION,
            status=503,
            codes=words("ZONE_RESOURCE_POOL_EXHAUSTED_WITH_DETAILS"),
            reasons=words("resource_availability"),
            metadata={
                "vmType": "n1-standard-4",
                "attachment": "nvidia-tesla-t4:1",
                "zone": "us-central1-b",
                "zonesAvailable": "us-central1-a,us-central1-f",
            },
            message="The zone 'projects/my-project/zones/us-central1-b' does not have enough resources available to "
            "fulfill the request.  '(resource type:compute)'.",
        ),
    ),
    Kind(
        name="reclaimed",
        title="a VM was reclaimed while it was made",
        error=CapacityError,
        marks=(Mark(surfaces=_OPERATION, codes=words("UNSUPPORTED_OPERATION RESOURCE_NOT_FOUND")),),
        fix="try again later, or allow another zone or provisioning_model",
        advice="Spot machines can be taken back before they have started. gputrain waits until nothing of the gang is left.",
        example=Answer(
            surface=Surface.OPERATION,
            status=404,
            codes=words("RESOURCE_NOT_FOUND"),
            message="The resource 'projects/my-project/zones/us-central1-a/instances/job-1' was not found",
        ),
    ),
    Kind(
        name="gang_incomplete",
        title="not all of the VMs could be made",
        error=CapacityError,
        marks=(Mark(surfaces=_OPERATION, codes=words("VM_MIN_COUNT_NOT_REACHED")),),
        fix=_ELSEWHERE,
        advice="Told only where Google names no cause for any of the VMs. Those that were made are deleted again.",
        example=Answer(
            surface=Surface.OPERATION,
            status=503,
            codes=words("VM_MIN_COUNT_NOT_REACHED"),
            message="Requested minimum count of 4 VMs could not be created.",
        ),
    ),
)
