"""`Answer`: what an API said when it refused, in one form for REST, gRPC, operations and tokens. Pure.

Bodies are read with suspicion: whatever has another type than Google documents is passed over, texts are
cut, and what looks like a credential is hidden.
"""

from __future__ import annotations

import enum
import math
import re
from collections.abc import Iterator, Mapping
from typing import Any

import attrs

from gputrain.catalog.quotas import is_of_all_regions
from gputrain.secrets import looks_secret, redact, redacted
from gputrain.terminal import safe

CANONICAL: Mapping[int, str] = {
    3: "INVALID_ARGUMENT",
    5: "NOT_FOUND",
    6: "ALREADY_EXISTS",
    7: "PERMISSION_DENIED",
    8: "RESOURCE_EXHAUSTED",
    9: "FAILED_PRECONDITION",
    16: "UNAUTHENTICATED",
    400: "INVALID_ARGUMENT",
    401: "UNAUTHENTICATED",
    403: "PERMISSION_DENIED",
    404: "NOT_FOUND",
    409: "ALREADY_EXISTS",
    412: "FAILED_PRECONDITION",
    429: "RESOURCE_EXHAUSTED",
    499: "CANCELLED",
    500: "INTERNAL",
    501: "UNIMPLEMENTED",
    503: "UNAVAILABLE",
    504: "DEADLINE_EXCEEDED",
}
"""HTTP status to canonical code, for answers that carry the status alone; below 17 the number of the code
in a google.rpc.Status, as a job's or operation's error is. Source: google/rpc/code.proto."""

LONGEST = 4000
"""Letters of a message that are read and shown."""


class Surface(enum.Enum):
    """Where it was said: the same code or status means other things in other places."""

    TRANSPORT = "no answer came"
    AUTH = "the token endpoint or the metadata server"
    COMPUTE = "Compute Engine, at once"
    OPERATION = "a Compute Engine operation, at its end"
    VERTEX = "Vertex AI, at once"
    STORAGE = "Cloud Storage"
    PLATFORM = "any other API of Google's"


@attrs.frozen(kw_only=True)
class QuotaFact:
    """Which quota an answer speaks of, by ``quotaInfo`` or by its metadata."""

    metric: str = ""
    limit_name: str = ""
    limit: float | None = None
    future_limit: float | None = None
    """The limit that is being rolled out."""
    dimensions: Mapping[str, str] = attrs.field(factory=dict)

    @property
    def is_global(self) -> bool:
        """Whether it holds for all regions together."""
        return not {"region", "zone"} & set(self.dimensions) and (
            "global" in self.dimensions or is_of_all_regions(self.metric)
        )


@attrs.frozen(kw_only=True)
class Answer:
    """A refusal; or, with ``status`` 0 and no code, no answer at all: nobody knows what was done."""

    surface: Surface = Surface.PLATFORM
    status: int = 0
    canonical: str = ""
    """The code's name in google.rpc.Code, such as ``RESOURCE_EXHAUSTED``."""
    message: str = ""
    codes: frozenset[str] = frozenset()
    """``errors[].reason`` and ``errors[].code``, OAuth's ``error``, the class of a google.auth exception."""
    reasons: frozenset[str] = frozenset()
    """``ErrorInfo.reason``."""
    metadata: Mapping[str, str] = attrs.field(factory=dict)
    """``ErrorInfo``'s map; Compute Engine spells it ``metadatas``."""
    quota: QuotaFact | None = None
    place: str = ""
    """The zone or region that was asked, where the address tells."""
    retry_after_s: float | None = None
    unreached: str = ""
    """The address to which no connection came about: nothing was sent."""
    raw: Any = attrs.field(default=None, repr=False)

    @property
    def quoted(self) -> Answer:
        """The same with the codes that another service writes into its own words: ``[GCE_STOCKOUT]``."""
        told = _QUOTED.findall(" ".join((*self.codes, self.message)))
        return attrs.evolve(self, codes=self.codes.union(told))


_QUOTED = re.compile(r"\b(?:CODE_)?(?:GCE_)?([A-Z]{2,}(?:_[A-Z]+)+|[A-Z]{4,})\b")
_ADDRESSES = (
    (re.compile(r"/compute/"), Surface.COMPUTE),
    (re.compile(r"/storage/v1/"), Surface.STORAGE),
    (re.compile(r"/locations/[^/?]+/customJobs\b"), Surface.VERTEX),
    (re.compile(r"/token$|/computeMetadata/"), Surface.AUTH),
)
_PLACE = re.compile(r"/(?:zones|regions|locations)/(?P<place>[a-z]+-[a-z]+\d+(?:-[a-z])?)\b")


def surface_of(url: str) -> Surface:
    """Whose address it is, by the paths that Google publishes: an emulator's host says nothing.

    >>> surface_of("https://compute.googleapis.com/compute/v1/projects/p/zones").name
    'COMPUTE'
    """
    path = url.partition("?")[0]
    return next((surface for form, surface in _ADDRESSES if form.search(path)), Surface.PLATFORM)


def place_of(url: str) -> str:
    """The zone or region in an address; empty where there is none."""
    found = _PLACE.search(url)
    return found["place"] if found else ""


def answer_of_json(
    body: Any, *, status: int = 0, retry_after_s: float | None = None, text: str = "", url: str = ""
) -> Answer:
    """The answer that a JSON error body holds: ``{"error": {...}}`` of any Google API, or an OAuth error.

    Args:
        body: what was read; of any type.
        status: HTTP status; where it is 0, the body's own code stands for it.
        text: what to show of a body without an error.
        url: what was asked.

    >>> answer_of_json({"error": {"code": 429, "message": "slow down"}}).canonical
    'RESOURCE_EXHAUSTED'
    """
    error = body.get("error") if isinstance(body, Mapping) else None
    known: dict[str, Any] = {
        "surface": surface_of(url),
        "place": place_of(url),
        "status": status,
        "canonical": CANONICAL.get(status, ""),
        "retry_after_s": retry_after_s,
        "raw": redacted(body) if body else cut(text),
    }
    if isinstance(error, str):  # OAuth: {"error": "invalid_grant", "error_description": "..."}
        said = cut(body.get("error_description")) or cut(error)
        return Answer(**{**known, "surface": Surface.AUTH, "message": said, "codes": frozenset({cut(error)})})
    if not isinstance(error, Mapping):
        return Answer(**known, message=cut(text))
    known["status"] = status or _status(error.get("code"))
    known["canonical"] = _word(error.get("status")) or CANONICAL.get(known["status"], "")
    details = [_flat(detail) for detail in _maps(error.get("details"))]
    known["retry_after_s"] = retry_after_s if retry_after_s is not None else _delay_s(details)
    return Answer(**known, message=cut(error.get("message")), **_evidence(error.get("errors"), details))


def answer_of_operation(error: Any, *, status: int = 0, place: str = "") -> Answer:
    """One of the errors that an operation of Compute Engine ended with, as its JSON writes it.

    >>> answer_of_operation({"code": "QUOTA_EXCEEDED", "message": "Quota 'CPUS' exceeded."}).codes
    frozenset({'QUOTA_EXCEEDED'})
    """
    error = error if isinstance(error, Mapping) else {}
    details = [
        one
        for detail in _maps(error.get("errorDetails"))
        for one in detail.values()
        if isinstance(one, Mapping)
    ]
    return Answer(
        surface=Surface.OPERATION,
        status=status,
        message=cut(error.get("message")),
        place=place,
        raw=redacted(error),
        **_evidence([error], details),
    )


def cut(text: Any) -> str:
    """A text that may be shown: as long as a person reads, without credentials or what moves a terminal.

    Empty for anything but a text.
    """
    if not isinstance(text, str):
        return ""
    clean = redact(text[: 2 * LONGEST])  # before it is cut: half a credential has another form
    short = clean if len(clean) <= LONGEST else f"{clean[:LONGEST]}..."
    return safe(short)


def seconds(value: Any) -> float | None:
    """Seconds of a ``Retry-After`` header or of a duration such as ``"30s"``; None for anything else."""
    found = re.fullmatch(r"(\d{1,6}(?:\.\d{1,9})?)s?", value) if isinstance(value, str) else None
    return float(found[1]) if found else None


def _evidence(errors: Any, details: list[Mapping[str, Any]]) -> dict[str, Any]:
    """Everything machine-readable: codes, reasons, metadata and quota."""
    codes = {_word(one.get(key)) for one in _maps(errors) for key in ("reason", "code")}
    reasons = {_word(one.get("reason")) for one in details}
    metadata: dict[str, str] = {}
    quota = None
    for one in details:
        for name in ("metadata", "metadatas"):
            found = one.get(name)
            metadata |= (
                {cut(key): cut(value) for key, value in found.items()} if isinstance(found, Mapping) else {}
            )
        quota = quota or _quota(one)
    return {
        "codes": frozenset(codes - {""}),
        "reasons": frozenset(reasons - {""}),
        "metadata": {key: value for key, value in metadata.items() if key and value},
        "quota": quota or _quota_of_metadata(metadata),
    }


def _flat(detail: Mapping[str, Any]) -> Mapping[str, Any]:
    """A detail of google.rpc; Compute Engine nests its own under names such as ``quotaInfo``."""
    nested = [detail[name] for name in ("quotaInfo", "errorInfo") if isinstance(detail.get(name), Mapping)]
    return nested[0] if nested else detail


def _quota(detail: Mapping[str, Any]) -> QuotaFact | None:
    metric, limit_name = cut(detail.get("metricName")), cut(detail.get("limitName"))
    if not metric and not limit_name:
        return None
    found = detail.get("dimensions")
    dimensions = {cut(key): cut(value) for key, value in found.items()} if isinstance(found, Mapping) else {}
    is_rising = detail.get("rolloutStatus") == "IN_PROGRESS"
    return QuotaFact(
        metric=metric,
        limit_name=limit_name,
        limit=_number(detail.get("limit")),
        future_limit=_number(detail.get("futureLimit")) if is_rising else None,
        dimensions=dimensions,
    )


def _quota_of_metadata(metadata: Mapping[str, str]) -> QuotaFact | None:
    """One Platform's way: the facts of a quota among the metadata of its ErrorInfo."""
    if "quota_metric" not in metadata:
        return None
    place = metadata.get("quota_location", "")
    return QuotaFact(
        metric=metadata["quota_metric"],
        limit_name=metadata.get("quota_limit", ""),
        limit=_number(metadata.get("quota_limit_value")),
        dimensions={} if not place else {"global" if place == "global" else "region": place},
    )


def _delay_s(details: list[Mapping[str, Any]]) -> float | None:
    """The wait that a google.rpc.RetryInfo asks for."""
    return next((found for one in details if (found := seconds(one.get("retryDelay"))) is not None), None)


def _maps(value: Any) -> Iterator[Mapping[str, Any]]:
    return (one for one in (value if isinstance(value, (list, tuple)) else ()) if isinstance(one, Mapping))


def _word(value: Any) -> str:
    """A machine's word: short, of letters."""
    is_word = isinstance(value, str) and re.fullmatch(r"[\w.-]{1,100}", value, re.ASCII)
    return value if is_word and not looks_secret(value) else ""


def _status(value: Any) -> int:
    return value if isinstance(value, int) and not isinstance(value, bool) and 0 < value < 1000 else 0


def _number(value: Any) -> float | None:
    """A finite number; Google writes 64-bit ones as texts."""
    if isinstance(value, bool) or not isinstance(value, (int, float, str)):
        return None
    try:
        number = float(value)
    except (ValueError, OverflowError):
        return None
    return number if math.isfinite(number) else None
