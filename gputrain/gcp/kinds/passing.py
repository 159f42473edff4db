"""Refusals that pass: the same call may go through later."""

# ruff: noqa: E501  # Google's words stand whole, one row a sentence

from __future__ import annotations

from gputrain.errors import TransientError
from gputrain.gcp.answer import Answer, Surface
from gputrain.gcp.errors import UnclearError
from gputrain.gcp.kinds.kind import Kind, Mark, words

_CROWDED = words("CONCURRENT_OPERATIONS_QUOTA_EXCEEDED")

KINDS = (
    Kind(
        name="concurrency",
        title="too many operations at once",
        error=TransientError,
        marks=(
            Mark(codes=words("rateLimitExceeded"), reasons=_CROWDED),
            Mark(reasons=_CROWDED),
        ),
        fix="wait until some of the project's operations have ended; make fewer gangs at the same time",
        advice="Google runs ten calls for many VMs at a time. gputrain waits and tries again by itself.",
        example=Answer(
            surface=Surface.COMPUTE,
            status=403,
            codes=words("rateLimitExceeded"),
            reasons=_CROWDED,
            message="Rate Limit Exceeded",
        ),
    ),
    Kind(
        name="rate",
        title="too many calls within a minute",
        error=TransientError,
        each_minute=True,
        marks=(
            Mark(codes=words("rateLimitExceeded userRateLimitExceeded")),
            Mark(reasons=words("RATE_LIMIT_EXCEEDED")),
            Mark(
                message=r"Quota exceeded for quota metric '(?P<metric>[^']{1,200})' and limit '[^']* per minute"
            ),
            Mark(message=r"Quota exceeded for quota metric '(?P<metric>[^']{1,200})'"),
            Mark(
                message=r"Quota exceeded for (?P<metric>aiplatform\.googleapis\.com/\S{0,200}request\S{0,100})"
            ),
            Mark(
                surfaces=frozenset(Surface) - {Surface.OPERATION},
                statuses=frozenset({429, "RESOURCE_EXHAUSTED"}),
            ),
        ),
        fix="wait for the next minute; look with fewer processes, or ask for a higher limit",
        advice="gputrain waits and tries again by itself. The limit refills at the full minute; it holds for the whole"
        " project, so somebody else's script may be what uses it up.",
        example=Answer(
            surface=Surface.COMPUTE,
            status=403,
            codes=words("rateLimitExceeded"),
            message="Quota exceeded for quota metric 'Queries' and limit 'Queries per minute' of service "
            "'compute.googleapis.com' for consumer 'project_number:123456789012'.",
        ),
    ),
    Kind(
        name="source_busy",
        title="the image or snapshot is copied too often at once",
        error=TransientError,
        marks=(
            Mark(codes=words("RESOURCE_OPERATION_RATE_EXCEEDED")),
            Mark(message=r"Too frequent operations from the source resource"),
        ),
        fix="submit again in a few minutes; for a big gang take an image instead of a snapshot",
        advice="Many machines that copy one source at the same moment run into it.",
        example=Answer(
            surface=Surface.OPERATION,
            codes=words("RESOURCE_OPERATION_RATE_EXCEEDED"),
            message="Too frequent operations from the source resource",
        ),
    ),
    Kind(
        name="not_ready",
        title="it is still changing",
        error=TransientError,
        marks=(
            Mark(codes=words("resourceNotReady RESOURCE_NOT_READY")),
            Mark(message=r"The resource '[^']{1,400}' is not ready\b"),
        ),
        fix="wait until it has stopped changing; then try again",
        advice="A VM that is stopping cannot be started or deleted for a minute. gputrain waits by itself.",
        example=Answer(
            surface=Surface.COMPUTE,
            status=400,
            codes=words("resourceNotReady"),
            message="The resource 'projects/my-project/zones/us-central1-a/instances/job-1' is not ready",
        ),
    ),
    Kind(
        name="reservation_not_ready",
        title="the reservation is not ready yet",
        error=TransientError,
        marks=(Mark(message=r"Cannot insert instance to a reservation with status: \w+"),),
        fix="wait until `gcloud compute reservations describe NAME --zone ZONE` says READY; then submit again",
        advice="A reservation is made in minutes; one for a date is ready on that date.",
        example=Answer(
            surface=Surface.OPERATION,
            status=412,
            codes=words("CONDITION_NOT_MET"),
            message="Cannot insert instance to a reservation with status: CREATING, as it requires reservation to be in "
            "READY state.",
        ),
    ),
    Kind(
        name="token_unavailable",
        title="no token was to be had",
        error=TransientError,
        marks=(
            Mark(surfaces=frozenset({Surface.AUTH}), message=r"TransportError: "),
            Mark(message=r"Getting metadata from plugin failed with error: "),
            Mark(
                surfaces=frozenset({Surface.AUTH}),
                statuses=frozenset({408, 429, 500, 502, 503, 504, "internal_failure", "server_error"}),
            ),
        ),
        fix="check that this machine reaches https://oauth2.googleapis.com, or on a VM its metadata server",
        advice="The request itself was not sent: nothing was made. gputrain tries again by itself.",
        example=Answer(
            surface=Surface.AUTH,
            status=503,
            message="TransportError: Failed to retrieve http://metadata.google.internal/computeMetadata/v1/instance/"
            "service-accounts/default/token from the Google Compute Engine metadata service.",
        ),
    ),
    Kind(
        name="unclear",
        title="no answer that says what was done",
        error=UnclearError,
        marks=(
            Mark(surfaces=frozenset({Surface.TRANSPORT})),
            Mark(
                surfaces=frozenset(Surface) - {Surface.OPERATION, Surface.AUTH},
                statuses=frozenset({0, 408, 499, 500, 502, 503, 504})
                | words(
                    "INTERNAL UNAVAILABLE DEADLINE_EXCEEDED ABORTED CANCELLED backendError internalError"
                ),
            ),
        ),
        fix="look whether it was done before you do it again: `trainer.jobs()` lists what is there",
        advice="A connection broke, or a proxy answered for Google. A read is tried again by itself. A write is repeated"
        " only under the same request id, or after a look at what is there: never a second job.",
        example=Answer(
            surface=Surface.VERTEX,
            status=503,
            canonical="UNAVAILABLE",
            message="The service is currently unavailable.",
        ),
    ),
)
