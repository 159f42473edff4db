"""Whether a project's quotas are enough for a job: limits and usage, read before anything is made.

::

    trainer.quotas("H100:8", num_nodes=2)        a table: limit, usage, need, verdict, source and time
    request_increase(row, 16, email, why)        shows what would be sent to Google; nothing is sent
    request_increase(..., dry_run=False)         sends it, once

A quota that could not be read is unknown: not 0, and it blocks nothing.
"""

from gputrain.quota.increase import (
    Increase as Increase,
    IncreaseState as IncreaseState,
    request_increase as request_increase,
)
from gputrain.quota.model import (
    EVERYWHERE as EVERYWHERE,
    LimitSource as LimitSource,
    QuotaReading as QuotaReading,
    QuotaStatus as QuotaStatus,
    Verdict as Verdict,
    contradictions as contradictions,
    deciding as deciding,
    explained as explained,
)
from gputrain.quota.reader import Quotas as Quotas
