"""The refusals of Cloud Storage, in its own words."""

from __future__ import annotations

from gputrain_emulator.errors import ApiError
from gputrain_emulator.faults import Refuse


def invalid(message: str, *, reason: str = "invalid") -> ApiError:
    return ApiError(400, message, reason=reason)


def required(message: str = "Required") -> ApiError:
    return ApiError(400, message, reason="required")


def not_found(bucket: str, name: str) -> ApiError:
    return ApiError(404, f"No such object: {bucket}/{name}", reason="notFound")


def no_bucket() -> ApiError:
    return ApiError(404, "The specified bucket does not exist.", reason="notFound")


def not_carried_out(what: str) -> ApiError:
    """501 for a rule that Google would keep and the emulator cannot."""
    message = f"{what} is not implemented by this emulator. Leave it out, or try it on Google Cloud."
    return ApiError(501, message, reason="notImplemented")


def condition_not_met() -> ApiError:
    message = "At least one of the pre-conditions you specified did not hold."
    return ApiError(412, message, reason="conditionNotMet")


def not_modified() -> ApiError:
    return ApiError(304, "Not Modified", reason="notModified")


def too_fast(bucket: str, name: str) -> Refuse:
    """The 429 of a name written more than once a second, for `cloud.fail("storage.objects.insert", ...)`.

    Source: docs.cloud.google.com/storage/docs/gcs429, from memory; the emulator itself sets no such limit.
    """
    message = (
        f"The object {bucket}/{name} exceeded the rate limit for object mutation operations (create, update, "
        "and delete). Please reduce your request rate. See https://cloud.google.com/storage/docs/gcs429."
    )
    return Refuse(error=ApiError(429, message, reason="rateLimitExceeded", domain="usageLimits"))


def bucket_taken(*, ours: bool) -> ApiError:
    if ours:
        message = "Your previous request to create the named bucket succeeded and you already own it."
    else:
        message = (
            "The requested bucket name is not available. The bucket namespace is shared by all users of "
            "the system. Please select a different name and try again."
        )
    return ApiError(409, message, reason="conflict")


def bucket_not_empty() -> ApiError:
    return ApiError(409, "The bucket you tried to delete is not empty.", reason="conflict")
