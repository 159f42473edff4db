"""Refusals for want of quota."""

# ruff: noqa: E501  # Google's words stand whole, one row a sentence

from __future__ import annotations

from gputrain.errors import QuotaExceededError, Scope
from gputrain.gcp.answer import Answer, QuotaFact, Surface
from gputrain.gcp.kinds.kind import Kind, Mark, words

_CODES = words("QUOTA_EXCEEDED quotaExceeded")
_SHORT = r"Quota '(?P<metric>[\w-]+)' exceeded\.\s+Limit: (?P<limit>\d{1,12}(?:\.\d{1,6})?)"
_GLOBAL = _SHORT + r" globally\b"
_REGIONAL = _SHORT + r"(?: in region (?P<region>[\w-]+\w))?"
_VERTEX = r"The following quota metrics exceed quota limits: (?P<metrics>[^\n]+)"
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
            Mark(codes=words("dailyLimitExceeded")),
            Mark(codes=words("rateLimitExceeded"), message=_PER_DAY),
            Mark(reasons=words("RATE_LIMIT_EXCEEDED"), message=_PER_DAY),
            Mark(message=_PER_DAY),
        ),
        fix=f"wait until the day is over, or ask for a higher limit at {_MORE}",
        advice="It looks like a limit per minute and is not: trying again within the day only adds to the count.",
        example=Answer(
            surface=Surface.COMPUTE,
            status=403,
            codes=words("rateLimitExceeded"),
            message="Quota exceeded for quota metric 'Queries' and limit 'Queries per day' of service "
            "'compute.googleapis.com' for consumer 'project_number:123456789012'.",
        ),
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
        advice="It counts the GPUs of all regions together: no other zone or region helps. A new project has 0 of it."
        " `gputrain.quota.request_increase(...)` prepares the request. Vertex AI has quotas of its own.",
        example=Answer(
            surface=Surface.OPERATION,
            status=403,
            codes=words("QUOTA_EXCEEDED"),
            message="Quota 'GPUS_ALL_REGIONS' exceeded.  Limit: 0.0 globally.",
            quota=QuotaFact(
                metric="compute.googleapis.com/gpus_all_regions",
                limit_name="GPUS-ALL-REGIONS-per-project",
                limit=0.0,
                dimensions={"global": "global"},
            ),
        ),
    ),
    Kind(
        name="quota_region",
        title="a quota is too small",
        error=QuotaExceededError,
        marks=(
            Mark(codes=_CODES, message=_REGIONAL),
            Mark(codes=_CODES),
            Mark(codes=words("rateLimitExceeded"), message=_VERTEX),
            Mark(reasons=words("RATE_LIMIT_EXCEEDED QUOTA_EXCEEDED"), message=_VERTEX),
            Mark(reasons=words("QUOTA_EXCEEDED")),
            Mark(is_global=False, message=r"Quota '"),
            Mark(message=_VERTEX),
            Mark(message=_REGIONAL),
        ),
        fix=f"ask for more of {{metric}} at {_MORE}, or allow another GPU, region or provisioning_model",
        advice="A quota holds for one region, one kind of GPU and one way to pay: `spot` and `flex-start` draw on the"
        " preemptible ones. Another zone of the region does not help, another region may. A limit of 0 never clears"
        " by waiting. `trainer.quotas()` shows them all; `gputrain.quota.request_increase(...)` asks for more.",
        example=Answer(
            surface=Surface.VERTEX,
            status=429,
            canonical="RESOURCE_EXHAUSTED",
            message="The following quota metrics exceed quota limits: "
            "aiplatform.googleapis.com/custom_model_training_nvidia_l4_gpus",
        ),
    ),
)
