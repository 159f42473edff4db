"""From an API's refusal to one of gputrain's errors. Pure."""

from __future__ import annotations

import re
import string
from collections.abc import Callable, Iterable, Mapping
from typing import Any

import attrs

from gputrain.catalog.quotas import is_of_all_regions
from gputrain.errors import (
    ApiDisabledError,
    CapacityError,
    GputrainError,
    OrgPolicyError,
    PermissionDeniedError,
    ProviderError,
    QuotaExceededError,
    RequestError,
    Scope,
    TransientError,
)
from gputrain.gcp.answer import Answer, QuotaFact
from gputrain.gcp.endpoints import leads_here
from gputrain.gcp.kinds import KINDS, Evidence, Kind, Mark

_MARKS = sorted(((mark, kind) for kind in KINDS for mark in kind.marks), key=lambda pair: pair[0].evidence)
"""Codes before reasons, reasons before quotas, these before texts, the status last; then as in the table."""

_GRAVE = (QuotaExceededError, RequestError, CapacityError, ProviderError, TransientError)


Facts = dict[str, Any]
Found = Mapping[str, str]
_REMEDIES = {
    "constraints/compute.vmExternalIpAccess": "leave external_ip out",
    "constraints/compute.trustedImageProjects": "take a boot image of a trusted project (image_family=)",
    "constraints/compute.requireShieldedVm": "take a boot image that supports Shielded VM (image_family=)",
    "constraints/compute.requireOsLogin": "leave OS Login on",
    "constraints/gcp.restrictNonCmekServices": "name a key where the backend takes one (kms_key=)",
    "constraints/compute.restrictVpcPeering": "take a network that it allows (network=)",
}
"""What to change for the constraints that training meets. Source: Google's list, 2026-11-20."""


def kind_of(answer: Answer) -> Kind | None:
    """The row of the table that knows an answer; None for one that nobody foresaw."""
    mark, kind = _best(answer)
    if mark is None or mark.evidence is Evidence.STATUS:  # a code that is quoted says more than a status
        said, told = _best(answer.quoted)
        if said is not None and told is not None and not told.error.retryable:  # words alone repeat no write
            return told
    return kind


def _best(answer: Answer) -> tuple[Mark, Kind] | tuple[None, None]:
    return next(((mark, kind) for mark, kind in _MARKS if mark.meets(answer)), (None, None))


def to_error(
    answer: Answer, action: str, *, project: str = "", place: str = "", now: float | None = None
) -> GputrainError:
    """The error for a refusal, with Google's own words as its ``why`` and the payload as its ``raw``.

    Args:
        answer: what the API said.
        action: what was being done, in a few words: ``"create the job"``.
        project: whose it was, for the commands that the fix names; where it is not given, as Google says.
        place: the zone or region that was asked, where the answer does not tell.
        now: seconds since 1970: a limit per minute says by it when it refills. Google's minutes are those of
            the clock, not the last sixty seconds. Source: Compute Engine's pages, read 2026-11-20.

    >>> to_error(Answer(status=404, message="no such job"), "look at the job").kind
    'missing'
    """
    kind = kind_of(answer)
    if kind is None:
        return _unknown(answer, action)
    answer = answer if answer.place else attrs.evolve(answer, place=place)
    found = kind.read(answer)
    facts = facts_of(kind.error, answer, found)
    if kind.each_minute and now is not None:
        facts["refills_in_s"] = 60.0 - now % 60.0
    if kind.is_lasting:
        facts["is_lasting"] = True
    said = answer.message or f"Google said {answer.status or 'nothing'} and gave no reason"
    note = notes_of(kind.error, answer)
    return kind.error(
        f"could not {action}: {kind.title}",
        why=f"{said} ({note})" if note else said,
        fix=_way_to(answer.unreached)
        or _Fix().format(kind.fix, **{**words_of(answer, found, project), **facts}),
        raw=answer.raw,
        kind=kind.name,
        **{"scope": kind.reach, "try_elsewhere": kind.goes_elsewhere, **facts},
    )


def gravest(errors: Iterable[GputrainError]) -> GputrainError | None:
    """The error that counts among those of one operation: what a person must mend before what may pass.

    A gang that exceeds a quota often meets a stockout in the same breath. What nobody foresaw stands above
    what passes: it is never tried again.
    """
    return min(errors, key=_rank, default=None)


def _rank(error: GputrainError) -> int:
    return next((n for n, kind in enumerate(_GRAVE) if isinstance(error, kind)), -1)


def _unknown(answer: Answer, action: str) -> ProviderError:
    words = sorted(answer.codes | answer.reasons)
    code = words[0] if words else answer.canonical or str(answer.status)
    return ProviderError(
        f"could not {action}: Google's answer is unknown",
        why=answer.message or f"status {answer.status} {' '.join(words) or answer.canonical}".strip(),
        fix="look whether it was done; then report the answer in this error's raw field",
        raw=answer.raw,
        code=code,
    )


def _way_to(unreached: str) -> str:
    """What to do where no connection came about; empty where one did."""
    if leads_here(unreached):
        port = unreached.rpartition(":")[2]
        start = f"start the emulator, gputrain-emulator --port {port}"
        return f"{start}; or name no endpoint, nor GPUTRAIN_ENDPOINT, to go to Google"
    return unreached and "check this machine's network, its DNS, and the proxy that HTTPS_PROXY names"


class _Fix(string.Formatter):
    """Fills in what is known; an unknown fact stays as a word in capitals for the reader to fill in."""

    def get_value(self, key: Any, args: Any, kwargs: Any) -> Any:  # noqa: ARG002  # string.Formatter's
        return kwargs.get(key) or str(key).upper()


def facts_of(error: type[GputrainError], answer: Answer, found: Found) -> Facts:
    """What an error of this class carries, as far as the answer tells.

    Args:
        found: what the pattern that recognized the answer picked out of its message.
    """
    return next((read(answer, found) for kind, read in _READERS.items() if issubclass(error, kind)), {})


def words_of(answer: Answer, found: Found, project: str) -> dict[str, str]:
    """What the sentences of a fix may name, as far as the answer tells."""
    constraint = found.get("constraint", "")
    return {
        "project": project or _project(answer),
        "account": found.get("account", ""),
        "remedy": _REMEDIES.get(constraint, "change what it names"),
    }


def notes_of(error: type[GputrainError], answer: Answer) -> str:
    """What a reader should know beside Google's words; mostly nothing."""
    zones = _zones(answer)
    if issubclass(error, CapacityError) and zones:
        return f"Google has some in {' and '.join(zones)}"
    quota = answer.quota if issubclass(error, QuotaExceededError) else None
    if quota is None or quota.limit is None:
        return ""
    if quota.future_limit is not None:
        return f"a rise from {quota.limit:g} to {quota.future_limit:g} is under way"
    return "a limit of 0 never clears by waiting" if quota.limit == 0 else ""


def _quota(answer: Answer, found: Found) -> Facts:
    told = answer.quota or QuotaFact()
    named = found.get("metrics") or found.get("metric") or told.metric
    metrics = tuple(word for word in re.split(r"[,\s]+", named) if word) if "metrics" in found else (named,)
    limit = float(found["limit"]) if "limit" in found else told.limit
    is_global = told.is_global or answer.message.rstrip(".").endswith("globally")
    region = found.get("region") or told.dimensions.get("region", "")
    metric = metrics[0] if metrics else ""
    return {
        **({"scope": Scope.PROJECT} if is_of_all_regions(metric) else {}),
        "metric": metric,
        "metrics": metrics if any(metrics) else (),
        "limit": limit,
        "limit_name": told.limit_name,
        "future_limit": told.future_limit,
        "dimensions": dict(told.dimensions),
        "where": "global" if is_global else region or answer.place,
    }


def _place(answer: Answer, found: Found) -> Facts:
    place = found.get("zone") or found.get("region") or answer.metadata.get("zone") or answer.place
    return {"place": place, "zones_available": _zones(answer)}


def _zones(answer: Answer) -> tuple[str, ...]:
    """The zones with room that a stockout names."""
    zones = re.split(r"[,\s]+", answer.metadata.get("zonesAvailable", ""))
    return tuple(zone for zone in zones if re.fullmatch(r"[a-z]+-[a-z]+\d+-[a-z]", zone))


def _permission(answer: Answer, found: Found) -> Facts:
    named = answer.metadata.get("permission") or found.get("permission", "")
    return {"permission": named, "service_account": found.get("account", "")}


def _api(answer: Answer, _: Found) -> Facts:
    said = answer.metadata.get("service") or answer.message
    found = re.search(r"\b[a-z]{1,60}\.googleapis\.com", said.partition("/apis/api/")[2] or said)
    return {"api": found.group(0) if found else ""}


def _constraint(_: Answer, found: Found) -> Facts:
    return {"constraint": found.get("constraint", "")}


def _passing(answer: Answer, found: Found) -> Facts:
    metric = found.get("metric") or (answer.quota.metric if answer.quota else "")
    return {"retry_after_s": answer.retry_after_s, "metric": metric, "unreached": answer.unreached}


_READERS: Mapping[type[GputrainError], Callable[[Answer, Found], Facts]] = {
    ApiDisabledError: _api,
    CapacityError: _place,
    OrgPolicyError: _constraint,
    PermissionDeniedError: _permission,
    QuotaExceededError: _quota,
    TransientError: _passing,
}


def _project(answer: Answer) -> str:
    """The project that Google names, by its number or its id."""
    named = answer.metadata.get("consumer", "").rpartition("/")[2]
    found = re.search(r"\bprojects?[/ _](?:number:)?([a-z][a-z0-9-]{4,28}[a-z0-9]|\d{6,})\b", answer.message)
    return named or (found.group(1) if found else "")
