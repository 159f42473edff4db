"""Google's errors as gputrain's: one ordered table of rules, read by text, then by code, then by status.

::

    with google_errors("create the job", project="my-project"):     what Google's libraries raise inside
        client.create_custom_job(...)                               comes out as one of gputrain's errors
    to_error(operation_error(body), "create the VM")                the same for an operation that failed

The table is errors.toml; the first rule that fits counts. An error that no rule knows is a `ProviderError`,
which is never retried.
"""

from __future__ import annotations

import json
import re
import string
from collections.abc import Iterable, Iterator, Mapping, Sequence
from contextlib import contextmanager
from typing import Any

import attrs

from gputrain import errors
from gputrain.catalog import is_of_all_regions
from gputrain.catalog.load import toml
from gputrain.errors import (
    CapacityError,
    GputrainError,
    ProviderError,
    QuotaExceededError,
    RequestError,
    Scope,
    TransientError,
)
from gputrain.google.endpoints import leads_here
from gputrain.google.forms import mapping, mappings, number
from gputrain.text import looks_secret, redact, redacted, sanitize

LONGEST = 4000
"""Letters of a message that are read and shown."""


class MissingError(RequestError):
    """What was asked for does not exist."""

    kind = "missing"


class PreconditionError(RequestError):
    """The resource is not in the state the call required: it exists already, or has changed."""

    kind = "changed"


class UnclearError(TransientError):
    """No answer, or one that does not say what was done: look before a write is repeated."""

    kind = "unclear"


class TooLargeError(ProviderError):
    """An answer is larger than what is kept in such a place, and was not read."""


def unlike_google(what: str, why: str, raw: Any = None) -> UnclearError:
    fix = "check what stands between this machine and Google: a proxy may answer for it"
    return UnclearError(what, why=why, fix=fix, raw=raw)


@attrs.frozen(kw_only=True)
class ReportedQuota:
    """Which quota an error is about."""

    metric: str = ""
    limit_name: str = ""
    limit: float | None = None
    future_limit: float | None = None
    """The limit that is being rolled out."""
    dimensions: Mapping[str, str] = attrs.field(factory=dict)

    @property
    def is_global(self) -> bool:
        """Whether it holds for all regions together."""
        is_named = "global" in self.dimensions or is_of_all_regions(self.metric)
        return is_named and not {"region", "zone"} & set(self.dimensions)


@attrs.frozen(kw_only=True)
class ErrorDetails:
    """What Google reported; without status, codes and message it is a reply that never came."""

    where: str = "call"
    """``call``; ``operation`` for how one ended; ``auth`` for tokens; ``network`` where no reply came."""
    status: int = 0
    codes: frozenset[str] = frozenset()
    """Canonical status, ``errors[].reason`` and ``.code``, ``ErrorInfo.reason``, OAuth's ``error``."""
    message: str = ""
    metadata: Mapping[str, str] = attrs.field(factory=dict)
    """Of ``ErrorInfo``; Compute Engine spells it ``metadatas``."""
    quota: ReportedQuota | None = None
    place: str = ""
    """The zone or region that was asked."""
    retry_after_s: float | None = None
    unreached: str = ""
    """The address that no connection could be opened to: nothing was sent."""
    raw: Any = attrs.field(default=None, repr=False)


@attrs.frozen
class Rule:
    """One kind of error: how it is recognized, what it becomes, and what to do; errors.toml has the words."""

    name: str
    error: type[GputrainError]
    title: str
    fix: str
    text: Sequence[str] = ()
    codes: Sequence[str] = ()
    status: Sequence[str] = ()
    facts: Mapping[str, Any] = attrs.field(factory=dict)

    @property
    def scope(self) -> Scope:
        return Scope(self.facts.get("scope", self.error.scope))

    @property
    def try_elsewhere(self) -> bool:
        """Whether another place may do better."""
        return bool(self.facts.get("try_elsewhere", self.error.try_elsewhere))

    def search(self, details: ErrorDetails) -> dict[str, str] | None:
        """The facts that its text finds in the message; None where it does not stand there."""
        words = f"{details.where}: {details.message}"
        found = re.search("|".join(self.text), words, re.DOTALL) if self.text else None
        groups = found.groupdict().items() if found else ()
        return {name.rstrip("0123456789"): text for name, text in groups if text} if found else None


_TABLE = toml(__package__, "errors.toml")
_OWN = {kind.__name__: kind for kind in (MissingError, PreconditionError, UnclearError)}
RULES = tuple(
    Rule(**{**row, "error": _OWN.get(row["error"]) or getattr(errors, row["error"])})
    for row in _TABLE["rule"]
)
_BY_NAME = {rule.name: rule for rule in RULES}
_UNTRUSTED = re.compile(r"SSLCertVerification|CERTIFICATE_VERIFY_FAILED|\[X509|TLS CA certificate bundle")
_QUOTED = re.compile(r"\b(?:CODE_)?(?:GCE_)?([A-Z]{2,}(?:_[A-Z]+)+|[A-Z]{4,})\b")


def classify(details: ErrorDetails) -> Rule | None:
    """The rule for an error; None for one that no rule knows."""
    if details.where == "network" or details == ErrorDetails(place=details.place, raw=details.raw):
        return _BY_NAME["unclear"]
    rule = next((rule for rule in RULES if rule.search(details) is not None), None) or _by_code(details)
    is_global = details.quota is not None and details.quota.is_global
    if rule is not None and rule.name == "quota_region" and is_global:  # the sentence may leave that out
        return _BY_NAME["quota_project"]
    return rule


def _by_code(details: ErrorDetails) -> Rule | None:
    codes = details.codes | {f"{details.where}:{code}" for code in details.codes}
    quoted = set(_QUOTED.findall(" ".join((*sorted(details.codes), details.message))))
    words = codes | {str(details.status), f"{details.where}:{details.status}"}
    found = [rule for rule in RULES if codes.intersection(rule.codes)]
    # a code that is only quoted repeats no write
    found += [rule for rule in RULES if quoted.intersection(rule.codes) and not rule.error.retryable]
    found += [rule for rule in RULES if words.intersection(rule.status)]
    return found[0] if found else None


def to_error(details: ErrorDetails, action: str, *, project: str = "") -> GputrainError:
    """The error for what Google reported, with Google's words as its ``why`` and the payload as its ``raw``.

    Args:
        action: what was being done, in a few words: ``"create the job"``.
        project: for the fix.
    """
    rule = classify(details)
    if rule is None:
        codes = sorted(details.codes)
        return ProviderError(
            f"could not {action}: Google's answer is unknown",
            why=details.message or f"status {details.status} {' '.join(codes)}".strip(),
            fix="look whether it was done; then report the answer in this error's raw field",
            raw=details.raw,
            code=codes[0] if codes else str(details.status),
        )
    found = rule.search(details) or {}
    facts = {**rule.facts, "scope": rule.scope, "try_elsewhere": rule.try_elsewhere}
    facts |= _facts(rule, details, found)
    why, note = details.message or f"Google said {details.status or 'nothing'} and gave no reason", ""
    zones, quota = facts.get("zones_available"), details.quota
    if zones:
        note = f"Google has some in {' and '.join(zones)}"
    elif issubclass(rule.error, QuotaExceededError) and quota and quota.limit is not None:
        note = "a limit of 0 never clears by waiting" if quota.limit == 0 else ""
        if quota.future_limit is not None:
            note = f"a rise from {quota.limit:g} to {quota.future_limit:g} is under way"
    words = {
        "project": project,
        "account": found.get("account"),
        "change": _TABLE["constraint_fixes"].get(found.get("constraint"), "change what it names"),
    }
    return rule.error(
        f"could not {action}: {rule.title}",
        why=f"{why} ({note})" if note else why,
        fix=_way_to(details.unreached) or _Fix().format(rule.fix, **words, **facts),
        raw=details.raw,
        kind=rule.name,
        **facts,
    )


def most_severe(errors: Iterable[GputrainError]) -> GputrainError | None:
    """The error that counts among those of one operation: what a person must fix before what may pass.

    An unknown error stands above what passes, since it is never retried.
    """
    order = (QuotaExceededError, RequestError, CapacityError, ProviderError, TransientError)

    def rank(error: GputrainError) -> int:
        return next((rank for rank, kind in enumerate(order) if isinstance(error, kind)), -1)

    return min(errors, key=rank, default=None)


@contextmanager
def google_errors(action: str, *, project: str = "") -> Iterator[None]:
    """Let what Google's libraries raise inside come out as gputrain's errors, the cause kept.

    Arguments as of `to_error`.

    Raises:
        AccessError, RequestError, CapacityError, TransientError, ProviderError: as Google reported.
    """
    from google.api_core.exceptions import GoogleAPIError
    from google.auth.exceptions import GoogleAuthError
    from google.protobuf.json_format import ParseError
    from requests import RequestException

    try:
        yield
    except (GoogleAPIError, GoogleAuthError, ParseError, OSError) as error:  # requests' are OSErrors
        # where the words hold a credential, such as an upload's address, no traceback shows them
        cause = error if redact(str(error)) == str(error) else None
        if not isinstance(error, GoogleAPIError) and _UNTRUSTED.search(repr(error)):
            raise RequestError(  # nothing was sent, and no waiting helps
                f"could not {action}: the connection cannot be trusted",
                why=shorten(str(error)),
                fix="name the certificates that this network's proxy needs, in a file that is there: "
                "REQUESTS_CA_BUNDLE",
            ) from cause
        if isinstance(error, OSError) and not isinstance(error, RequestException):
            raise
        raise to_error(details_of(error), action, project=project) from cause


def details_of(error: Exception) -> ErrorDetails:
    """What an exception of google-api-core, google-auth or requests reports."""
    from google.api_core.exceptions import GoogleAPICallError
    from google.auth.exceptions import GoogleAuthError
    from requests import TooManyRedirects

    response = getattr(error, "response", None)
    if hasattr(response, "status_code") and isinstance(error, (GoogleAPICallError, TooManyRedirects)):
        return response_error(response)  # its body says more than what the library read of it
    if isinstance(error, GoogleAPICallError):
        body = {"message": error.message, "errors": list(error.errors), "details": list(error.details)}
        return body_error({"error": body}, status=int(error.code or 0))
    if isinstance(error, GoogleAuthError):
        return _auth_error(error)
    host, why = _unreached(error)
    said = f"no answer from {host}: {why}" if host else shorten(f"{type(error).__name__}: {error}")
    return ErrorDetails(where="network", message=said, raw=shorten(repr(error)), unreached=host)


def response_error(response: Any) -> ErrorDetails:
    """What an HTTP response of `requests` with a status of 300 or more reports."""
    try:
        body = response.json()
    except (ValueError, RecursionError):
        body = None
    return body_error(
        body,
        status=response.status_code,
        text=f"HTTP {response.status_code} {response.reason}: {shorten(response.text)[:200]}",
        place=place_of(str(getattr(response, "url", None) or "")),
        retry_after_s=_seconds(response.headers.get("Retry-After")),
    )


def body_error(
    body: Any, *, status: int = 0, text: str = "", place: str = "", retry_after_s: float | None = None
) -> ErrorDetails:
    """What the JSON body of an error holds: ``{"error": {...}}`` of any Google API, or an OAuth error.

    A value of another type than Google documents is passed over.

    Args:
        status: HTTP status; where it is 0, the body's own code stands for it.
        text: shown for a body without an error.
    """
    error = mapping(body).get("error")
    known: dict[str, Any] = {
        "status": status,
        "place": place,
        "raw": redacted(body) if body else shorten(text),
    }
    if isinstance(error, str):
        said = shorten(body.get("error_description")) or shorten(error)
        return ErrorDetails(where="auth", codes=frozenset({shorten(error)}), message=said, **known)
    if not isinstance(error, Mapping):
        return ErrorDetails(message=shorten(text), retry_after_s=retry_after_s, **known)
    code = error.get("code")
    if not status and isinstance(code, int) and 0 < code < 1000:
        known["status"] = code
    details = [  # Compute Engine nests its own
        mapping(one.get("quotaInfo")) or mapping(one.get("errorInfo")) or one
        for one in mappings(error.get("details"))
    ]
    delays = (_seconds(one.get("retryDelay")) for one in details)
    return ErrorDetails(
        message=shorten(error.get("message")),
        retry_after_s=next((one for one in (retry_after_s, *delays) if one is not None), None),
        **known,
        **_evidence([{"code": error.get("status")}, *mappings(error.get("errors"))], details),
    )


def operation_error(error: Any, *, status: int = 0, place: str = "") -> ErrorDetails:
    """One of the errors that an operation of Compute Engine ended with, as its JSON writes it."""
    error = mapping(error)
    message = shorten(error.get("message"))
    details = [one for detail in mappings(error.get("errorDetails")) for one in detail.values()]
    evidence = _evidence([error], mappings(details))
    if status >= 500 and not evidence["codes"] and re.fullmatch("[A-Z ]*", message):
        evidence["codes"] = frozenset({"INTERNAL_ERROR"})  # "SERVICE UNAVAILABLE" says no more than 503
    return ErrorDetails(
        where="operation", status=status, message=message, place=place, raw=redacted(error), **evidence
    )


_REGION_NAME, _IN_REGION = r"[a-z]+-[a-z]+\d+", r"(?:ai\d)?[a-z]"
"""A region, and what a zone's name has behind it; AI zones are named ``us-central1-ai1a``."""


def place_of(url: str) -> str:
    """The zone or region in an address; empty where there is none."""
    place = rf"/(?:zones|regions|locations)/({_REGION_NAME}(?:-{_IN_REGION})?)\b"
    found = re.search(place, url.partition("?")[0])
    return found[1] if found else ""


def shorten(text: Any) -> str:
    """A text that may be shown: without credentials or what moves a terminal. Empty for any other type."""
    if not isinstance(text, str):
        return ""
    clean = redact(text[: 2 * LONGEST])  # before it is cut: half a credential has another form
    return sanitize(clean if len(clean) <= LONGEST else f"{clean[:LONGEST]}...")


class _Fix(string.Formatter):
    """Fills in what is known; an unknown fact stays as a word in capitals for the reader to fill in."""

    def get_value(self, key: Any, args: Any, kwargs: Any) -> Any:  # noqa: ARG002  # string.Formatter's
        return kwargs.get(key) or str(key).upper()


def _way_to(unreached: str) -> str:
    """What to do where no connection could be opened; empty otherwise."""
    if leads_here(unreached):
        start = f"start the emulator, gputrain-emulator --port {unreached.rpartition(':')[2]}"
        return f"{start}; or name no endpoint, nor GPUTRAIN_ENDPOINT, to go to Google"
    return unreached and "check this machine's network, its DNS, and the proxy that HTTPS_PROXY names"


def _facts(rule: Rule, details: ErrorDetails, found: Mapping[str, str]) -> dict[str, Any]:
    """What an error of this class carries, as far as Google reported it."""
    metadata, quota = details.metadata, details.quota or ReportedQuota()
    metrics = re.split(r"[,\s]+", found.get("metrics") or found.get("metric") or quota.metric)
    metric, region = metrics[0], found.get("region") or quota.dimensions.get("region", "")
    is_global = quota.is_global or details.message.rstrip(".").endswith("globally")
    zones = re.split(r"[,\s]+", metadata.get("zonesAvailable", ""))
    named = metadata.get("service") or details.message
    api = re.search(r"\b[a-z]{1,60}\.googleapis\.com", named.partition("/apis/api/")[2] or named)
    permission = metadata.get("permission") or found.get("permission")
    facts = {
        "metric": metric,
        "metrics": tuple(filter(None, metrics)),
        "limit": float(found["limit"]) if "limit" in found else quota.limit,
        "limit_name": quota.limit_name,
        "future_limit": quota.future_limit,
        "dimensions": dict(quota.dimensions),
        "where": "global" if is_global else region or details.place,
        "place": found.get("zone") or found.get("region") or metadata.get("zone") or details.place,
        "zones_available": tuple(z for z in zones if re.fullmatch(f"{_REGION_NAME}-{_IN_REGION}", z)),
        "permission": permission or rule.facts.get("permission", ""),
        "service_account": found.get("account", ""),
        "api": api[0] if api else "",
        "constraint": found.get("constraint", ""),
        "retry_after_s": details.retry_after_s,
        "unreached": details.unreached,
    }
    is_wide = issubclass(rule.error, QuotaExceededError) and is_of_all_regions(metric)
    scope = {"scope": Scope.PROJECT} if is_wide else {}
    return scope | {name: value for name, value in facts.items() if hasattr(rule.error, name)}


def _evidence(errors: Any, details: Sequence[Mapping[str, Any]]) -> dict[str, Any]:
    """Codes, metadata and quota of an error's parts."""
    codes = {_code(one.get(key)) for one in errors for key in ("reason", "code")}
    codes |= {_code(one.get("reason")) for one in details}
    given = [mapping(one.get(name)).items() for one in details for name in ("metadata", "metadatas")]
    metadata = {shorten(key): shorten(value) for items in given for key, value in items}
    quota = None
    if detail := next((one for one in details if one.get("metricName") or one.get("limitName")), None):
        is_rising = detail.get("rolloutStatus") == "IN_PROGRESS"
        quota = ReportedQuota(
            metric=shorten(detail.get("metricName")),
            limit_name=shorten(detail.get("limitName")),
            limit=number(detail.get("limit")),
            future_limit=number(detail.get("futureLimit")) if is_rising else None,
            dimensions={shorten(k): shorten(v) for k, v in mapping(detail.get("dimensions")).items()},
        )
    elif "quota_metric" in metadata:  # the way of all services but Compute Engine
        place = metadata.get("quota_location", "")
        quota = ReportedQuota(
            metric=metadata["quota_metric"],
            limit_name=metadata.get("quota_limit", ""),
            limit=number(metadata.get("quota_limit_value")),
            dimensions={"global" if place == "global" else "region": place} if place else {},
        )
    return {
        "codes": frozenset(codes - {""}),
        "metadata": {key: value for key, value in metadata.items() if key and value},
        "quota": quota,
    }


def _code(value: Any) -> str:
    """A machine's word; empty for anything else."""
    is_word = isinstance(value, str) and re.fullmatch(r"[\w.-]{1,100}", value, re.ASCII)
    return value if is_word and not looks_secret(value) else ""


def _seconds(value: Any) -> float | None:
    """Seconds of a ``Retry-After`` header or of a duration such as ``"30s"``; None for anything else."""
    found = re.fullmatch(r"(\d{1,6}(?:\.\d{1,9})?)s?", value) if isinstance(value, str) else None
    return float(found[1]) if found else None


def _auth_error(error: Any) -> ErrorDetails:
    """What google-auth reports: no credentials, no token, or one that is not accepted. Nothing was sent."""
    from google.auth.exceptions import GoogleAuthError, TransportError

    for body in map(_document, error.args):
        if "error" in body:
            details = body_error(body)
            status = details.status or (0 if error.retryable else 400)
            return attrs.evolve(details, where="auth", status=status)
    cause = error.args[0] if error.args and isinstance(error.args[0], GoogleAuthError) else error
    is_passing = isinstance(cause, TransportError) or error.retryable
    said = cause.args[0] if cause.args else cause
    host, why = _unreached(said)
    return ErrorDetails(
        where="auth",
        status=503 if is_passing else 401,
        message=shorten(f"{type(cause).__name__}: {f'no answer from {host}: {why}' if host else said}"),
        unreached=host,
        codes=frozenset() if is_passing else frozenset({type(cause).__name__}),
        raw=shorten(repr(error)),
    )


def _document(value: Any) -> Mapping[str, Any]:
    """A JSON object, as it is or as text; empty for anything else."""
    if isinstance(value, str) and value.lstrip().startswith("{"):
        try:
            value = json.loads(value)
        except (ValueError, RecursionError):
            return {}
    return mapping(value)


def _unreached(error: Any) -> tuple[str, str]:
    """The address that no connection could be opened to, and why; empty otherwise."""
    from urllib3.exceptions import ConnectTimeoutError, MaxRetryError, NewConnectionError

    url = str(getattr(getattr(error, "request", None), "url", ""))
    met = error.args[0] if url and error.args else None
    met = met.reason if isinstance(met, MaxRetryError) else met
    if not isinstance(met, (NewConnectionError, ConnectTimeoutError)):
        return "", ""
    why = getattr(met.__context__, "strerror", None) or "no connection in time"
    scheme, _, rest = url.partition("://")
    return f"{scheme}://{rest.partition('/')[0]}", shorten(why)
