"""The total table from an API's refusal to the error it becomes. Pure.

Rows are tried from the top: permission, rate, quota, capacity, the request, passing failures. Class and HTTP
status come last, because Google says a stockout with 503, an exceeded quota with 403 and a missing
permission with 400. Texts are matched by anchored patterns only where no code exists.
Source of the codes and texts: Google's protos, documentation and public threads, read 2026-11-20.
"""

from __future__ import annotations

import re
from collections.abc import Callable
from typing import Any

import attrs

from gputrain.errors import (
    ApiDisabledError,
    AuthError,
    CapacityError,
    GputrainError,
    OrgPolicyError,
    PermissionDeniedError,
    QuotaExceededError,
    RequestError,
    TransientError,
)
from gputrain.gcp.answer import Answer
from gputrain.gcp.errors import MissingError, PreconditionError, UnclearError

Facts = Callable[[Answer, re.Match[str] | None], dict[str, Any]]


def _no_facts(_answer: Answer, _match: re.Match[str] | None) -> dict[str, Any]:
    return {}


@attrs.frozen(kw_only=True)
class Rule:
    """One row: a refusal that meets any of the marks becomes ``error``."""

    name: str
    error: type[GputrainError]
    reasons: frozenset[str] = frozenset()
    message: re.Pattern[str] | None = None
    canonicals: frozenset[str] = frozenset()
    statuses: frozenset[int] = frozenset()
    fix: str = ""
    facts: Facts = _no_facts

    def matches(self, answer: Answer) -> tuple[bool, re.Match[str] | None]:
        """Whether the row takes the answer, and what its pattern found."""
        found = self.message.search(answer.message) if self.message else None
        meets = bool(self.reasons & answer.reasons) or found is not None
        meets = meets or answer.canonical in self.canonicals or answer.status in self.statuses
        return meets, found


def _api(answer: Answer, _: re.Match[str] | None) -> dict[str, Any]:
    found = re.search(r"([a-z]+)\.googleapis\.com", answer.metadata.get("service", "") or answer.message)
    return {"api": found.group(0) if found else ""}


def _permission(answer: Answer, found: re.Match[str] | None) -> dict[str, Any]:
    named = found.group(1) if found and found.lastindex else ""
    return {"permission": answer.metadata.get("permission") or named}


def _act_as(_answer: Answer, found: re.Match[str] | None) -> dict[str, Any]:
    account = re.search(r"[\w.-]+@[\w.-]+\w", found.string) if found else None
    return {
        "permission": "iam.serviceAccounts.actAs",
        "account": account.group(0) if account else "SERVICE_ACCOUNT",
    }


def _constraint(_answer: Answer, found: re.Match[str] | None) -> dict[str, Any]:
    return {"constraint": found.group(1) if found else ""}


def _quota(answer: Answer, found: re.Match[str] | None) -> dict[str, Any]:
    groups = found.groupdict() if found else {}
    limit = groups.get("limit")
    metric = groups.get("metric") or groups.get("metrics") or answer.metadata.get("quota_metric", "")
    return {
        "metric": metric.strip(", "),
        "limit": None if limit is None else float(limit),
        "where": groups.get("region") or answer.metadata.get("quota_location", ""),
    }


def _busy(answer: Answer, _: re.Match[str] | None) -> dict[str, Any]:
    return {"retry_after_s": answer.retry_after_s}


def _place(answer: Answer, found: re.Match[str] | None) -> dict[str, Any]:
    zones = answer.metadata.get("zonesAvailable", "")
    return {
        "place": (found.groupdict().get("place") if found else None) or answer.metadata.get("zone", ""),
        "zones_available": tuple(zone.strip() for zone in zones.split(",") if zone.strip()),
    }


_LOGIN = "run `gcloud auth application-default login`, or pass credentials="

TABLE: tuple[Rule, ...] = (
    Rule(
        name="the API is switched off",
        error=ApiDisabledError,
        reasons=frozenset({"SERVICE_DISABLED", "accessNotConfigured"}),
        fix="gcloud services enable {api} --project {project}; then wait a few minutes",
        facts=_api,
    ),
    Rule(
        name="the clock of this machine is wrong",
        error=AuthError,
        message=re.compile(r"^Invalid JWT: Token must be a short-lived token"),
        fix="set this machine's clock (timedatectl set-ntp true) and try again",
    ),
    Rule(
        name="the credentials lack a scope",
        error=AuthError,
        reasons=frozenset({"ACCESS_TOKEN_SCOPE_INSUFFICIENT"}),
        fix="give the credentials the scope https://www.googleapis.com/auth/cloud-platform",
    ),
    Rule(
        name="the credentials are not accepted",
        error=AuthError,
        reasons=frozenset({"authError", "invalid_grant", "invalid_client", "CREDENTIALS_MISSING"}),
        canonicals=frozenset({"UNAUTHENTICATED"}),
        statuses=frozenset({401}),
        fix=_LOGIN,
    ),
    Rule(
        name="the caller may not act as the service account",
        error=PermissionDeniedError,
        reasons=frozenset({"SERVICE_ACCOUNT_ACCESS_DENIED"}),
        message=re.compile(
            r"^You do not have permission to act as service_account: "
            r"|^The user does not have access to service account '"
        ),
        fix="gcloud iam service-accounts add-iam-policy-binding {account} --member user:YOU"
        " --role roles/iam.serviceAccountUser",
        facts=_act_as,
    ),
    Rule(
        name="an organization policy forbids it",
        error=OrgPolicyError,
        message=re.compile(r"\bConstraint (constraints/[\w.]+) violated\b"),
        fix="ask the organization's administrator about {constraint}, or change the request to keep it",
        facts=_constraint,
    ),
    Rule(
        name="the daily limit on calls is used up",
        error=QuotaExceededError,
        reasons=frozenset({"dailyLimitExceeded"}),
        message=re.compile(r"^Quota exceeded for quota metric '(?P<metric>[^']+)' and limit '[^']* per day'"),
        fix="wait for the next day, or ask for a higher limit",
        facts=_quota,
    ),
    Rule(
        name="too many calls",
        error=TransientError,
        reasons=frozenset(
            {
                "rateLimitExceeded",
                "userRateLimitExceeded",
                "RATE_LIMIT_EXCEEDED",
                "CONCURRENT_OPERATIONS_QUOTA_EXCEEDED",
                "RESOURCE_OPERATION_RATE_EXCEEDED",
            }
        ),
        message=re.compile(r"^Quota exceeded for (?:quota metric|aiplatform\.googleapis\.com/\S*request)"),
        facts=_busy,
    ),
    Rule(
        name="a quota is too small",
        error=QuotaExceededError,
        reasons=frozenset({"QUOTA_EXCEEDED", "quotaExceeded"}),
        message=re.compile(
            r"^The following quota metrics exceed quota limits: (?P<metrics>.+)$"
            r"|^Quota '(?P<metric>[\w-]+)' exceeded\.\s+Limit: (?P<limit>\d+(?:\.\d+)?)"
            r"(?: in region (?P<region>[\w-]+\w))?"
        ),
        fix="ask for more of {metric} at https://console.cloud.google.com/iam-admin/quotas,"
        " or allow another GPU, region or provisioning_model",
        facts=_quota,
    ),
    Rule(
        name="no machines left",
        error=CapacityError,
        reasons=frozenset(
            {
                "ZONE_RESOURCE_POOL_EXHAUSTED",
                "ZONE_RESOURCE_POOL_EXHAUSTED_WITH_DETAILS",
                "RESOURCE_POOL_EXHAUSTED",
                "REGION_RESOURCE_POOL_EXHAUSTED",
                "INSUFFICIENT_CAPACITY",
                "insufficientCapacity",
                "resource_availability",
                "STOCKOUT",
            }
        ),
        message=re.compile(r"^Resources are insufficient in region: (?P<place>[\w-]+)"),
        fix="allow more regions, GPUs or provisioning models, or try again later",
        facts=_place,
    ),
    Rule(
        name="the region does not have this machine",
        error=CapacityError,
        message=re.compile(r'^Machine type "[^"]+" is not supported\.'),
        fix="allow more regions",
        facts=_place,
    ),
    Rule(
        name="a GPU machine must stop for host maintenance",  # shares its code with the next row but one
        error=RequestError,
        message=re.compile(r"\bdo not support live migration$"),
        fix="set onHostMaintenance to TERMINATE",
    ),
    Rule(
        name="the zone does not have it",
        error=CapacityError,
        reasons=frozenset({"IP_SPACE_EXHAUSTED"}),
        message=re.compile(
            r"\bMachine type with name '[^']+' does not exist in zone '(?P<place>[\w-]+)'"
            r"|/zones/[\w-]+/acceleratorTypes/[^']+' was not found$"
            r"|^Location [\w-]+ is not found or access is unauthorized"
            r"|^Network profile only allows resource creation in location "
        ),
        fix="allow more zones or regions",
        facts=_place,
    ),
    Rule(
        name="a VM was reclaimed while it was made",  # said so by operations only
        error=CapacityError,
        reasons=frozenset({"UNSUPPORTED_OPERATION", "RESOURCE_NOT_FOUND"}),
        fix="try again later, or allow another provisioning model",
        facts=_place,
    ),
    Rule(
        name="it is still changing",
        error=TransientError,
        reasons=frozenset({"resourceNotReady", "RESOURCE_NOT_READY"}),
    ),
    Rule(
        name="the caller lacks a permission",
        error=PermissionDeniedError,
        reasons=frozenset({"IAM_PERMISSION_DENIED", "forbidden"}),
        message=re.compile(r"\b(?:Permission|Required) '([\w.]+)' (?:denied|permission)"),
        canonicals=frozenset({"PERMISSION_DENIED"}),
        statuses=frozenset({403}),
        fix="ask for a role with {permission}:"
        " gcloud projects add-iam-policy-binding {project} --member user:YOU --role ROLE",
        facts=_permission,
    ),
    Rule(
        name="it does not exist",
        error=MissingError,
        reasons=frozenset({"notFound"}),
        canonicals=frozenset({"NOT_FOUND"}),
        statuses=frozenset({404, 410}),
        fix="check the project, the region and the name",
    ),
    Rule(
        name="it exists already or has changed",
        error=PreconditionError,
        reasons=frozenset({"alreadyExists", "conditionNotMet"}),
        canonicals=frozenset({"ALREADY_EXISTS"}),
        statuses=frozenset({409, 412}),
        fix="look at what is there; it may be an earlier try of the same",
    ),
    Rule(
        name="the request is refused",
        error=RequestError,
        canonicals=frozenset({"INVALID_ARGUMENT", "FAILED_PRECONDITION", "OUT_OF_RANGE"}),
        statuses=frozenset({400, 405, 411, 413}),
        fix="change what the answer names",
    ),
    Rule(
        name="too many calls",
        error=TransientError,
        canonicals=frozenset({"RESOURCE_EXHAUSTED"}),
        statuses=frozenset({429}),
        facts=_busy,
    ),
    Rule(
        name="no answer that says what was done",
        error=UnclearError,
        canonicals=frozenset({"INTERNAL", "UNAVAILABLE", "DEADLINE_EXCEEDED", "ABORTED", "CANCELLED"}),
        statuses=frozenset({0, 408, 499, 500, 502, 503, 504}),
        facts=_busy,
    ),
)
