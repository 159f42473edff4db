"""Preconditions on generation and metageneration, and the refusals of Cloud Storage in its own words."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass

from gputrain_emulator.errors import ApiError
from gputrain_emulator.faults import Refuse


def not_found(bucket: str, name: str) -> ApiError:
    return ApiError(404, f"No such object: {bucket}/{name}", reason="notFound")


def no_bucket() -> ApiError:
    return ApiError(404, "The specified bucket does not exist.", reason="notFound")


def too_fast(bucket: str, name: str) -> Refuse:
    """The 429 of a name written more than once a second, for `cloud.fail("storage.objects.insert", ...)`.

    Source: docs.cloud.google.com/storage/docs/gcs429, from memory; the emulator itself sets no such limit.
    """
    message = (
        f"The object {bucket}/{name} exceeded the rate limit for object mutation operations (create, update, "
        "and delete). Please reduce your request rate. See https://cloud.google.com/storage/docs/gcs429."
    )
    return Refuse(error=ApiError(429, message, reason="rateLimitExceeded", domain="usageLimits"))


def invalid(message: str) -> ApiError:
    return ApiError(400, message, reason="invalid")


def _failed() -> ApiError:
    message = "At least one of the pre-conditions you specified did not hold."
    return ApiError(412, message, reason="conditionNotMet")


def _not_modified() -> ApiError:
    return ApiError(304, "Not Modified", reason="notModified")


@dataclass(frozen=True, kw_only=True)
class Conditions:
    """What must be true of an object, or absent object (generation 0), for a call to go ahead."""

    generation_match: int | None = None
    generation_not_match: int | None = None
    metageneration_match: int | None = None
    metageneration_not_match: int | None = None

    @classmethod
    def of(cls, query: Mapping[str, str], infix: str = "") -> Conditions:
        """Read `if{infix}GenerationMatch` and its kin; infix is `Source` for the source of a copy."""
        return cls(
            generation_match=number(query, f"if{infix}GenerationMatch"),
            generation_not_match=number(query, f"if{infix}GenerationNotMatch"),
            metageneration_match=number(query, f"if{infix}MetagenerationMatch"),
            metageneration_not_match=number(query, f"if{infix}MetagenerationNotMatch"),
        )

    def check(self, generation: int, metageneration: int, *, reading: bool = False) -> None:
        """Raise 412, or 304 where a read asks only for something newer; an absent object is (0, 0)."""
        if self.generation_match not in (None, generation):
            raise _failed()
        if self.metageneration_match not in (None, metageneration):
            raise _failed()
        if generation == self.generation_not_match:
            raise _not_modified() if reading else _failed()
        if metageneration == self.metageneration_not_match and generation:
            raise _not_modified() if reading else _failed()


def number(query: Mapping[str, str], name: str) -> int | None:
    """An int64 query parameter, None where it is absent."""
    text = query.get(name)
    if text is None:
        return None
    try:
        value = int(text)
    except ValueError:
        raise invalid(f"Invalid value for {name}: '{text}' is not a valid integer") from None
    if not -(2**63) <= value < 2**63:
        raise invalid(f"Invalid value for {name}: '{text}' is out of range")
    return value
