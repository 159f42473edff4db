"""Whether a project's quotas carry a job: limits and usage as Google tells them, before anything is made.

A quota that nobody could read is unknown: never 0, never a block.
"""

from gputrain.quota.increase import Increase, IncreaseState, request_increase
from gputrain.quota.shown import Quotas
from gputrain.quota.targets import explained
from gputrain.quota.values import (
    EVERYWHERE,
    Reading,
    Source,
    Standing,
    Verdict,
    contradictions,
    deciding,
    verdict_of,
)

__all__ = [
    "EVERYWHERE",
    "Increase",
    "IncreaseState",
    "Quotas",
    "Reading",
    "Source",
    "Standing",
    "Verdict",
    "contradictions",
    "deciding",
    "explained",
    "request_increase",
    "verdict_of",
]
