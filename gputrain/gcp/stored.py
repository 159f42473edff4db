"""What Cloud Storage says of an object, and what it holds: values. Pure."""

from __future__ import annotations

from collections.abc import Mapping
from datetime import datetime
from typing import Any

import attrs

from gputrain.errors import TransientError
from gputrain.gcp.forms import mapping, whole_number
from gputrain.times import moment_of


class DamagedError(TransientError):
    """An object does not hold what is written there: it was cut on its way, or somebody wrote it by hand."""

    kind = "damaged"


@attrs.frozen(kw_only=True)
class StoredInfo:
    """What Cloud Storage says of an object."""

    name: str
    generation: int
    size: int
    md5: str
    """As Cloud Storage writes it, in base64; empty for composed objects."""
    updated: datetime
    created: datetime
    metadata: Mapping[str, str]
    seen_at: datetime
    """The service's time when it said so."""

    @property
    def age_s(self) -> float:
        """Seconds since it was last written, by the service's clock alone."""
        return max(0.0, (self.seen_at - self.updated).total_seconds())


@attrs.frozen(kw_only=True)
class Stored:
    """An object that was read."""

    content: bytes = attrs.field(repr=False)
    generation: int
    updated: datetime
    seen_at: datetime
    """The service's time when it was read."""

    @property
    def age_s(self) -> float:
        """Seconds since it was last written, by the service's clock alone."""
        return max(0.0, (self.seen_at - self.updated).total_seconds())


@attrs.frozen(kw_only=True)
class Document:
    """An object that was read as JSON."""

    fields: Mapping[str, Any]
    generation: int
    updated: datetime
    age_s: float


def info_of(body: Mapping[str, Any], seen_at: datetime) -> StoredInfo | None:
    """What is said of an object; None where it cannot be read."""
    generation, size = whole_number(body.get("generation")), whole_number(body.get("size"))
    updated, created = moment_of(body.get("updated")), moment_of(body.get("timeCreated"))
    name = body.get("name")
    if generation is None or size is None or updated is None or created is None or not isinstance(name, str):
        return None
    told = mapping(body.get("metadata")).items()
    return StoredInfo(
        name=name,
        generation=generation,
        size=size,
        md5=str(body.get("md5Hash", "")),
        updated=updated,
        created=created,
        metadata={key: value for key, value in told if isinstance(value, str)},
        seen_at=seen_at,
    )
