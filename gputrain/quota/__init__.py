"""Whether a project's quotas carry a job: limits and usage as Google tells them, before anything is made.

::

    trainer.quotas("H100:8", num_nodes=2)        a table: limit, usage, need, verdict, source and time
    request_increase(row, 16, email, why)        what would be asked of Google; nothing is sent
    request_increase(..., dry_run=False)         asks, once

A quota that nobody could read is unknown: never 0, never a block.
"""

from gputrain import lazy
from gputrain.quota.targets import explained
from gputrain.quota.values import (
    EVERYWHERE,
    LimitSource,
    Reading,
    Standing,
    Verdict,
    contradictions,
    deciding,
    verdict_of,
)

TYPE_CHECKING = False
if TYPE_CHECKING:
    from gputrain.quota.increase import Increase, IncreaseState, request_increase
    from gputrain.quota.shown import Quotas

_HOMES = {
    "Increase": "increase",
    "IncreaseState": "increase",
    "Quotas": "shown",
    "request_increase": "increase",
}
"""What a plan does not need is loaded when it is first asked for."""

__all__ = [
    "EVERYWHERE",
    "Increase",
    "IncreaseState",
    "Quotas",
    "Reading",
    "LimitSource",
    "Standing",
    "Verdict",
    "contradictions",
    "deciding",
    "explained",
    "request_increase",
    "verdict_of",
]


__getattr__, __dir__ = lazy.names(__name__, _HOMES)
