"""Refusals for want of quota."""

from __future__ import annotations

from gputrain.errors import QuotaExceededError, Scope
from gputrain.gcp.kinds.kind import Kind, Mark

_CODES = "QUOTA_EXCEEDED quotaExceeded"
_SHORT = r"Quota '(?P<metric>[\w-]+)' exceeded\.\s+Limit: (?P<limit>\d{1,12}(?:\.\d{1,6})?)"
_INSUFFICIENT = (
    r'Insufficient (?:\w+ )?quota to satisfy (?:the )?request(?:[\w:, ]{0,20}resource:? "(?P<metric>\w+)")?'
)
_SAID = r".{0,400}?\b[Qq]uota (?:failure for\b|(?:is |was )?exceeded\b(?! for\b))"
"""No call a minute, which would pass, but a share of machines: of one service's words or another's."""
_GLOBAL = _SHORT + r" globally\b"
_REGIONAL = _SHORT + r"(?: in region (?P<region>[\w-]+\w))?"
_VERTEX = r"The following quota(?:s are exceeded| metrics exceed quota limits): (?P<metrics>[^\n\"]+)"
_PER_DAY = r"Quota exceeded for quota metric '(?P<metric>[^']+)' and limit '[^']* per day\b"
_MORE = "https://console.cloud.google.com/iam-admin/quotas?project={project}"

KINDS = (
    Kind(
        name="daily_limit",
        title="the day's number of calls is used up",
        error=QuotaExceededError,
        scope=Scope.PROJECT,
        try_elsewhere=False,
        marks=(
            Mark(codes="dailyLimitExceeded"),
            Mark(codes="rateLimitExceeded", message=_PER_DAY),
            Mark(reasons="RATE_LIMIT_EXCEEDED", message=_PER_DAY),
            Mark(message=_PER_DAY),
        ),
        fix=f"wait until the day is over, or ask for a higher limit at {_MORE}",
    ),
    Kind(
        name="quota_project",
        title="a quota of the whole project is too small",
        error=QuotaExceededError,
        scope=Scope.PROJECT,
        try_elsewhere=False,
        marks=(
            Mark(codes=_CODES, is_global=True),
            Mark(codes=_CODES, message=_GLOBAL),
            Mark(is_global=True, message=r"Quota '"),
            Mark(message=_GLOBAL),
        ),
        fix=f"ask for more of {{metric}} at {_MORE}",
    ),
    Kind(
        name="quota_region",
        title="a quota is too small",
        error=QuotaExceededError,
        marks=(
            Mark(codes=_CODES, message=_REGIONAL),
            Mark(codes=_CODES),
            Mark(codes="rateLimitExceeded", message=_VERTEX),
            Mark(reasons="RATE_LIMIT_EXCEEDED QUOTA_EXCEEDED", message=_VERTEX),
            Mark(reasons="QUOTA_EXCEEDED"),
            Mark(is_global=False, message=r"Quota '"),
            Mark(message=_VERTEX),
            Mark(message=_REGIONAL),
            Mark(message=_INSUFFICIENT),
            Mark(message=_SAID),
            Mark(message=r".{0,400}?\b(?:insufficient quota to|due to quota restrictions)\b"),
        ),
        fix=f"ask for more of {{metric}} at {_MORE}, or allow another GPU, region or provisioning_model",
    ),
)
