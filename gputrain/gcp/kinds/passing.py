"""Refusals that pass: the same call may go through later."""

# ruff: noqa: E501  # Google's words stand whole, one row a sentence

from __future__ import annotations

from gputrain.errors import TransientError
from gputrain.gcp.answer import Surface
from gputrain.gcp.errors import UnclearError
from gputrain.gcp.kinds.kind import Kind, Mark, words

_CALLS = frozenset(Surface) - {Surface.OPERATION, Surface.AUTH}
_CROWDED = "CONCURRENT_OPERATIONS_QUOTA_EXCEEDED"

KINDS = (
    Kind(
        name="concurrency",
        title="too many operations at once",
        error=TransientError,
        marks=(Mark(codes="rateLimitExceeded", reasons=_CROWDED), Mark(reasons=_CROWDED)),
        fix="wait until some of the project's operations have ended; make fewer gangs at the same time",
    ),
    Kind(
        name="rate",
        title="too many calls within a minute",
        error=TransientError,
        each_minute=True,
        marks=(
            Mark(codes="rateLimitExceeded userRateLimitExceeded"),
            Mark(reasons="RATE_LIMIT_EXCEEDED"),
            Mark(message=r"Quota exceeded for quota (?:metric|group) '(?P<metric>[^']{1,200})'"),
            Mark(
                message=r"Quota exceeded for (?P<metric>aiplatform\.googleapis\.com/\S{0,200}request\S{0,100})"
            ),
            Mark(message=r".{0,400}?\bexceed(?:ed|s) the rate limit\b"),
            Mark(
                surfaces=frozenset(Surface) - {Surface.OPERATION},
                statuses=frozenset({429, "RESOURCE_EXHAUSTED"}),
            ),
        ),
        fix="wait for the next minute; look with fewer processes, or ask for a higher limit",
    ),
    Kind(
        name="source_busy",
        title="the image or snapshot is copied too often at once",
        error=TransientError,
        marks=(
            Mark(codes="RESOURCE_OPERATION_RATE_EXCEEDED"),
            Mark(message=r"Too frequent operations from the source resource"),
        ),
        fix="submit again in a few minutes; for a big gang take an image instead of a snapshot",
    ),
    Kind(
        name="not_ready",
        title="it is still changing",
        error=TransientError,
        marks=(
            Mark(codes="resourceNotReady RESOURCE_NOT_READY"),
            Mark(message=r"The resource '[^']{1,400}' is not ready\b"),
        ),
        fix="wait until it has stopped changing; then try again",
    ),
    Kind(
        name="reservation_not_ready",
        title="the reservation is not ready yet",
        error=TransientError,
        marks=(
            Mark(message=r"Cannot insert instance to a reservation with status: (?:CREATING|UPDATING)\b"),
        ),
        fix="wait until `gcloud compute reservations describe NAME --zone ZONE` says READY; then submit again",
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
    ),
    Kind(
        name="unclear",
        title="no answer that says what was done",
        error=UnclearError,
        marks=(
            Mark(surfaces=frozenset({Surface.TRANSPORT})),
            Mark(surfaces=_CALLS, statuses=frozenset({0}), message=r"\A\Z"),
            Mark(
                surfaces=_CALLS,
                statuses=frozenset({408, 499, 500, 502, 503, 504})
                | words(
                    "INTERNAL UNAVAILABLE DEADLINE_EXCEEDED ABORTED CANCELLED backendError internalError"
                ),
            ),
        ),
        fix="look whether it was done before you do it again: `trainer.jobs()` lists what is there",
    ),
)
