"""Whether a project's quotas carry a job: limits and usage as Google tells them, before anything is made.

::

    trainer.quotas("H100:8", num_nodes=2)        a table: limit, usage, need, verdict, source and time
    request_increase(row, 16, email, why)        what would be asked of Google; nothing is sent
    request_increase(..., dry_run=False)         asks, once

A quota that nobody could read is unknown: never 0, never a block.
"""

from gputrain.quota.increase import (
    Increase as Increase,
    IncreaseState as IncreaseState,
    request_increase as request_increase,
)
from gputrain.quota.shown import Quotas as Quotas
from gputrain.quota.targets import explained as explained
from gputrain.quota.values import (
    EVERYWHERE as EVERYWHERE,
    LimitSource as LimitSource,
    Reading as Reading,
    Standing as Standing,
    Verdict as Verdict,
    contradictions as contradictions,
    deciding as deciding,
    verdict_of as verdict_of,
)
