"""When VMs of a job began and ended: by the board's clock, and spans by each guest's own."""

from __future__ import annotations

from datetime import datetime, timezone

from gputrain.backends.compute.causes import VmReport, seconds_of
from gputrain.keeper.status import ENDED, WAITING
from gputrain.records import Record

NOTICE_S = 150.0
"""From Google's word that a VM ends to its end, at most: a Spot VM's notice and its 30 s of shutdown."""

SKEW_S = 60.0
"""How far the clock of a guest that is in order may be off."""


DATE_S = 1.0
"""The board's clock tells whole seconds: without this, what has just happened moved with the next look."""


def ran(record: Record, nodes: tuple[VmReport, ...]) -> int:
    """Seconds that an attempt has taken of the time limit: rather too many than too few.

    A VM that Google took may never have written when it began or ended; then the time of the ask counts,
    and Google's own word on its end with all the notice that it may have had.
    """
    starts = [moment.timestamp() for moment in moments(record, nodes, WAITING)]
    asked = record.latest
    if not starts and asked.way.model == "flex-start":
        return 0  # what it waited in Google's queue was free
    ends = [moment.timestamp() for moment in moments(record, nodes, ENDED)]
    for node in nodes:
        ends += [seconds_of(one.get("insertTime")) + NOTICE_S for one in node.operations]
    until = max(ends, default=0.0) if all(node.is_over for node in nodes) else record.now
    began = min(starts, default=asked.at)
    took_s = max(0.0, (until or record.now) - began)
    return int(took_s if record.unread else min(took_s, record.left_s))


def moments(record: Record, nodes: tuple[VmReport, ...], phase: str) -> list[datetime]:
    """When guests came to a phase, by the board's clock.

    Money is counted by it, and a guest's clock may be a day off: one that has it begin before the ask, or
    after the look, is moved to begin at the ask, so its spans stay as it measured them.
    """
    found = []
    for node in nodes:
        first, told = record.latest.at, node.told.at(phase)
        began = node.told.at(WAITING)
        if told is not None:
            off_s = (began or told).timestamp() - first
            is_off = not -SKEW_S <= off_s <= record.now + SKEW_S - first
            at = told.timestamp() - (off_s if is_off else 0.0)
            latest = max(first, record.now + DATE_S)
            found.append(datetime.fromtimestamp(min(max(at, first), latest), timezone.utc))
    return found
