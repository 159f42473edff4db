"""Refusals that the request must mend, and two that only callers of Google's APIs tell apart."""

# ruff: noqa: E501  # Google's words stand whole, one row a sentence

from __future__ import annotations

from gputrain.errors import RequestError, Scope
from gputrain.gcp.answer import Surface
from gputrain.gcp.errors import MissingError, PreconditionError
from gputrain.gcp.kinds.kind import Kind, Mark, words

_LISTED = r"(?:List of found errors:.{0,400}?Message: )?"
"""Vertex AI numbers the faults of single fields."""
_RESOURCE = r"The resource 'projects/[^']{1,200}/%s/[^']{1,200}' was not found"
_IMAGES = r"image(?:s|FamilyViews)"
_RESERVATION = (
    r".{0,400}?\b(?:Specified reservations? .{1,200}?(?:do(?:es)? not exist|can not be targeted)"
    r"|reservation must exist in the same project|no automatic reservation matching"
    r"|[Cc]ould not find the given reservation|Incompatible AggregateReservation|ReservationAffinity of\b"
    r"|[Tt]o consume reservation\b|to a reservation with status: (?!CREATING|UPDATING))"
)
"""It is not there, is another's, or is of another kind than the machine: Google's words for all three."""

KINDS = (
    Kind(
        name="live_migration",
        title="a machine with GPUs cannot be moved during maintenance",
        error=RequestError,
        marks=(
            Mark(
                codes="UNSUPPORTED_OPERATION",
                message=r".{0,200}\bguest accelerators do not support live migration",
            ),
            Mark(
                message=r"(?:Instance \S+ creation failed: )?Instances with guest accelerators do not support live"
            ),
        ),
        fix="set onHostMaintenance to TERMINATE",
    ),
    Kind(
        name="gpu_misfit",
        title="this machine does not carry these GPUs",
        error=RequestError,
        marks=(
            Mark(message=r"\[[\w-]+(?:, [\w-]+)*\] features are not compatible for creating instance"),
            Mark(message=_LISTED + r'The accelerator count "[^"]*" is not allowed\b'),
            Mark(message=_LISTED + r'(?:Accelerator )?"[^"]+" is not supported for machine type "'),
            Mark(message=r".{0,300}\bAt (?:most|least) \d+ \w{1,20} can be used along with \d+ accelerator"),
            Mark(message=r"Cannot use (?:\w+ ){0,3}machine type .{1,80} with (?:GPUs|accelerators)\b"),
        ),
        fix="leave machine_type out and name the GPUs alone (gpu='L4:2'), or take a pair that `gputrain gpus` lists",
    ),
    Kind(
        name="disk_misfit",
        title="this machine does not take this disk",
        error=RequestError,
        marks=(
            Mark(message=r"\[[\w-]+\] features and \[.{0,400}InstanceTaxonomies are not compatible"),
            Mark(message=r".{0,300}\bDisk type \S+ is not supported for machine type\b"),
        ),
        fix="take another disk type: hyperdisk-balanced on A3 Ultra, A4 and newer, pd-balanced or pd-ssd before",
    ),
    Kind(
        name="disk_too_small",
        title="the boot disk is smaller than its image",
        error=RequestError,
        marks=(Mark(message=r".{0,300}\bRequested disk size cannot be smaller than the image size"),),
        fix="make the boot disk at least as large as the answer says",
    ),
    Kind(
        name="image_missing",
        title="the boot image does not exist",
        error=MissingError,
        marks=(
            Mark(codes="RESOURCE_NOT_FOUND", message=_RESOURCE % _IMAGES),
            Mark(message=_RESOURCE % _IMAGES),
        ),
        fix="name an image or family that `gcloud compute images list` shows, or leave image_family out",
    ),
    Kind(
        name="subnet_missing",
        title="the subnetwork does not exist in this region",
        error=MissingError,
        scope=Scope.REGION,
        try_elsewhere=True,
        marks=(
            Mark(message=r".{0,300}\bThe referenced subnetwork resource cannot be found"),
            Mark(message=_RESOURCE % r"regions/[\w-]{1,40}/subnetworks"),
        ),
        fix="gcloud compute networks subnets list --project {project}; then name one of the region, or allow its region",
    ),
    Kind(
        name="network_missing",
        title="the network does not exist",
        error=MissingError,
        marks=(
            Mark(message=r".{0,300}\bThe referenced network resource cannot be found"),
            Mark(message=_RESOURCE % r"global/networks"),
        ),
        fix="gcloud compute networks list --project {project}; then name one: it is the same in every region",
    ),
    Kind(
        name="in_use",
        title="something it needs is in use",
        error=RequestError,
        marks=(
            Mark(codes="resourceInUseByAnotherResource RESOURCE_IN_USE_BY_ANOTHER_RESOURCE"),
            Mark(message=r"The \w[\w ]{0,60} resource '[^']+' is already being used by '"),
        ),
        fix="wait until what the answer names is gone, or delete it",
    ),
    Kind(
        name="reservation_unusable",
        title="the reservation cannot be used",
        error=RequestError,
        marks=(
            Mark(codes="UNSUPPORTED_OPERATION CONDITION_NOT_MET", message=_RESERVATION),
            Mark(codes="INVALID_RESERVATION RESERVATION_NOT_FOUND RESERVATION_INCOMPATIBLE"),
            Mark(message=_RESERVATION),
        ),
        fix="gcloud compute reservations list --project {project}; then name one of this project, zone and machine type",
    ),
    Kind(
        name="bucket_location",
        title="the bucket is not where the job runs",
        error=RequestError,
        marks=(
            Mark(
                message=r"The Cloud Storage bucket of \S{1,300} is in location `?(?P<location>[\w-]+)`?\. It must be in the same"
            ),
        ),
        fix="name a bucket in the job's region: gcloud storage buckets create gs://NAME --location REGION",
    ),
    Kind(
        name="retained",
        title="the bucket keeps an object as it is",
        error=RequestError,
        marks=(
            Mark(codes="retentionPolicyNotMet objectUnderActiveHold"),
            Mark(
                message=r"Object '.{1,1024}' is (?:subject to|under) .{1,200}\bcannot be (?:deleted|overwritten)"
            ),
        ),
        fix="name a bucket without a retention policy or holds: what is known of a job is written over as it goes on",
    ),
    Kind(
        name="missing",
        title="it does not exist",
        error=MissingError,
        marks=(
            Mark(
                statuses=frozenset({404, 410, "NOT_FOUND", "notFound"}),
                surfaces=frozenset(Surface) - {Surface.OPERATION},
            ),
        ),
        fix="check the project, the region and the name",
    ),
    Kind(
        name="name_taken",
        title="something of this name exists",
        error=PreconditionError,
        marks=(
            Mark(message=r"The resource '[^']{1,400}' already exists"),
            Mark(statuses=frozenset({409, "ALREADY_EXISTS", "alreadyExists"})),
        ),
        fix="look at what is there; it may be an earlier try of the same",
    ),
    Kind(
        name="changed",
        title="it has changed since it was read",
        error=PreconditionError,
        marks=(
            Mark(
                surfaces=frozenset(Surface) - {Surface.OPERATION},
                statuses=frozenset({412, "conditionNotMet"}),
            ),
            Mark(
                message=r"(?:Invalid fingerprint|Supplied fingerprint does not match|Labels fingerprint either invalid)\b"
            ),
        ),
        fix="read it again, then repeat the change",
    ),
    Kind(
        name="request",
        title="the request is refused",
        error=RequestError,
        marks=(
            Mark(
                surfaces=frozenset(Surface) - {Surface.AUTH},
                statuses=frozenset(
                    {400, 405, 411, 413, "INVALID_ARGUMENT", "FAILED_PRECONDITION", "OUT_OF_RANGE"}
                ),
            ),
            Mark(statuses=words("CONDITION_NOT_MET LIMIT_EXCEEDED invalid badRequest required")),
        ),
        fix="change what the answer names",
    ),
)
