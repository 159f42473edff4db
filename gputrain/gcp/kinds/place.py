"""Refusals of a place: another zone or region may do."""

# ruff: noqa: E501  # Google's words stand whole, one row a sentence

from __future__ import annotations

from gputrain.errors import CapacityError, Scope
from gputrain.gcp.answer import Surface
from gputrain.gcp.kinds.kind import Kind, Mark

_OPERATION = frozenset({Surface.OPERATION})
_FAILING = frozenset({500, 502, 503, 504})
"""Of an operation that is at its end: told with no more than the words that HTTP has for them."""
_ELSEWHERE = "allow more regions, GPUs or provisioning models, or try again later"
_LISTED = r"(?:List of found errors:.{0,400}?Message: )?"
_IN = r".{0,400}?"
"""Another service quotes Compute Engine in the middle of a sentence."""
_LACK = (
    r"(?:not have (?:enough|sufficient) (?:resources|capacity) available|not enough resources available"
    r"|not currently have sufficient capacity|currently unavailable in the (?P<zone>[\w-]+) zone"
    r"|[Nn]o available zone found|could not provision queued instances)"
)
"""Whatever the service: something is lacking, and it is room."""
_POOL = r"The zone 'projects/[^']{1,100}/zones/(?P<zone>[\w-]+)' does not have enough resources available"

KINDS = (
    Kind(
        name="not_in_zone",
        title="the zone does not have it",
        error=CapacityError,
        is_lasting=True,
        marks=(
            Mark(
                codes="RESOURCE_NOT_FOUND",
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
    ),
    Kind(
        name="not_in_region",
        title="the region does not have this machine",
        error=CapacityError,
        is_lasting=True,
        scope=Scope.REGION,
        marks=(Mark(message=_LISTED + r'Machine type "[^"]+" is not supported\.'),),
        fix="allow more regions",
    ),
    Kind(
        name="network_elsewhere",
        title="the network belongs to another zone",
        error=CapacityError,
        is_lasting=True,
        marks=(Mark(message=r"Network profile only allows resource creation in location (?P<only>[\w-]*)"),),
        fix="allow the zone that the answer names, or make a network for this one",
    ),
    Kind(
        name="addresses_exhausted",
        title="the subnetwork has no address left",
        error=CapacityError,
        scope=Scope.REGION,
        marks=(
            Mark(codes="IP_SPACE_EXHAUSTED IP_SPACE_EXHAUSTED_WITH_DETAILS"),
            Mark(message=r"IP space of '[^']{1,300}' is exhausted"),
        ),
        fix="gcloud compute networks subnets expand-ip-range SUBNET --region REGION --prefix-length 20; or allow more regions",
    ),
    Kind(
        name="reservation_full",
        title="the reservation is used up",
        error=CapacityError,
        marks=(
            Mark(codes="RESERVATION_CAPACITY_EXCEEDED"),
            Mark(message=r"Specified reservation \S{1,300} does not have available resources"),
            Mark(message=r"No available resources in specified reservations"),
            Mark(
                message=_IN
                + r"\b[Rr]eservations? (?:\S{1,300} )?(?:do|does) not have (?:enough|sufficient)\b"
            ),
            Mark(message=r"All automatic reservations\b.{0,300} fully consumed"),
        ),
        fix="wait until its machines are free, or allow provisioning_model='standard' or 'spot' beside it",
    ),
    Kind(
        name="stockout_region",
        title="no machines are left in the region",
        error=CapacityError,
        scope=Scope.REGION,
        marks=(
            Mark(codes="REGION_RESOURCE_POOL_EXHAUSTED REGION_RESOURCE_POOL_EXHAUSTED_WITH_DETAILS"),
            Mark(message=r"Resources are insufficient in region: (?P<region>[\w-]+)"),
        ),
        fix=_ELSEWHERE,
    ),
    Kind(
        name="stockout",
        title="no machines are left in the zone",
        error=CapacityError,
        marks=(
            Mark(
                codes=(
                    "ZONE_RESOURCE_POOL_EXHAUSTED ZONE_RESOURCE_POOL_EXHAUSTED_WITH_DETAILS RESOURCE_POOL_EXHAUSTED "
                    "INSUFFICIENT_CAPACITY insufficientCapacity STOCKOUT"
                )
            ),
            Mark(reasons="resource_availability stockout"),
            Mark(message=_POOL),
            Mark(codes="LIMIT_EXCEEDED", message=_IN + r"\bcould not provision queued instances"),
            Mark(message=_IN + r"\b" + _LACK),
        ),
        fix=_ELSEWHERE,
    ),
    Kind(
        name="reclaimed",
        title="a VM was reclaimed while it was made",
        error=CapacityError,
        marks=(
            Mark(surfaces=_OPERATION, codes="UNSUPPORTED_OPERATION RESOURCE_NOT_FOUND PREEMPTED"),
            Mark(
                surfaces=_OPERATION,
                message=_IN + r"\b(?:(?:due to|because of|by) preemption|(?:was|were|been) preempted)\b",
            ),
        ),
        fix="try again later, or allow another zone or provisioning_model",
    ),
    Kind(
        name="failed_inside",
        title="the zone failed at it, and Google does not say how",
        error=CapacityError,
        marks=(
            Mark(surfaces=_OPERATION, codes="INTERNAL_ERROR"),
            Mark(surfaces=_OPERATION, statuses=_FAILING, message=r"(?:[A-Z][A-Z ]*)?\Z"),
            Mark(
                surfaces=_OPERATION, message=r"Internal error\. Please try again or contact Google Support\b"
            ),
            Mark(
                surfaces=frozenset({Surface.VERTEX}),
                message=r"Internal error occurred for the current attempt",
            ),
        ),
        fix="try again later, or allow another zone: nothing is left of the try",
    ),
    Kind(
        name="gang_incomplete",
        title="not all of the VMs could be made",
        error=CapacityError,
        marks=(Mark(surfaces=_OPERATION, codes="VM_MIN_COUNT_NOT_REACHED"),),
        fix=_ELSEWHERE,
    ),
)
