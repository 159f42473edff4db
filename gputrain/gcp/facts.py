"""What an answer tells beside its kind: metric, limit, place, permission, account, API. Pure."""

from __future__ import annotations

import re
from collections.abc import Callable, Mapping
from typing import Any

from gputrain.errors import (
    ApiDisabledError,
    CapacityError,
    GputrainError,
    OrgPolicyError,
    PermissionDeniedError,
    QuotaExceededError,
    TransientError,
)
from gputrain.gcp.answer import Answer, QuotaFact

Facts = dict[str, Any]
Found = Mapping[str, str]

_REMEDIES = {
    "constraints/compute.vmExternalIpAccess": "leave external_ip out",
    "constraints/compute.trustedImageProjects": "take a boot image of a trusted project (image_family=)",
    "constraints/compute.requireShieldedVm": "take a boot image that supports Shielded VM (image_family=)",
    "constraints/compute.requireOsLogin": "leave OS Login on",
    "constraints/compute.restrictVpcPeering": "take a network that it allows (network=)",
}
"""What to change for the constraints that training meets. Source: Google's list, 2026-11-20."""


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
    return {
        "metric": metrics[0] if metrics else "",
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
    return {"retry_after_s": answer.retry_after_s, "metric": metric}


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
