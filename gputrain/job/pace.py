"""How often a job is looked at, and for how long nothing may be seen. Pure."""

from __future__ import annotations

BLIND_FOR_AT_MOST_S = 300.0
"""How long every look may fail, one after the other, before `Job.wait` gives up."""


LONGEST_PAUSE_S = 0.3
"""A platform whose looks cost nothing is looked at that often for as long as the job lives, at the least."""


def pause_s(poll_s: float, waited_s: float) -> float:
    """Seconds until the next look: who has waited long may wait a little longer, and costs less meanwhile.

    >>> pause_s(0.03, 1.0), pause_s(0.03, 3600.0), pause_s(1.5, 3600.0)
    (0.03, 0.3, 1.5)
    """
    return max(poll_s, min(LONGEST_PAUSE_S, waited_s / 50))
