"""What guests write of themselves, and what it tells of times."""

from __future__ import annotations

import json
from collections.abc import Iterable, Mapping, Sequence
from datetime import datetime, timezone
from typing import Any

import attrs

from gputrain.backends.agent_reports import Status as Told, read
from gputrain.backends.compute.causes import VmReport, seconds_of
from gputrain.backends.compute.request import AttemptVms
from gputrain.google import Objects
from gputrain.google.errors import TooLargeError
from gputrain.google.storage import BucketPrefix
from gputrain.jobstore import JobRecord
from gputrain.keeper.status import ENDED, PHASES, WAITING
from gputrain.retry import LOOK
from gputrain.spec import TrainingSpec

LARGEST_REPORT = 1_000_000
"""Bytes of what one guest writes of itself; its result is of some thousand."""
NOTICE_S = 150.0
"""From Google's word that a VM ends to its end, at most: a Spot VM's notice and its 30 s of shutdown."""
SKEW_S = 60.0
"""How far the clock of a guest that is in order may be off."""
CREATES = ("insert", "bulkInsert")


@attrs.frozen(kw_only=True)
class Report:
    """What one guest wrote last, and when, by Cloud Storage's clock."""

    document: Mapping[str, Any]
    told: Told
    written_at: float
    seen_at: float

    def at(self, phase: str) -> float | None:
        """When it came to a phase, in seconds since 1970; a guest's clock that is far off is set right."""
        moment = self.told.at(phase)
        if moment is None:
            return None
        newest = max(one.timestamp() for phase in PHASES if (one := self.told.at(phase)))
        off_s = self.written_at - newest
        return max(0.0, moment.timestamp() + (off_s if abs(off_s) > SKEW_S else 0.0))


@attrs.define(kw_only=True, eq=False)
class GuestReports:
    """What the guests of attempts write of themselves into the bucket."""

    stored: Objects
    bucket: BucketPrefix

    def read(self, vms: AttemptVms, rank: int) -> Report | None:
        """That of one node; whatever is no JSON object, or of a size no guest writes, is none."""
        name = f"{vms.folder(self.bucket)}status-{rank}.json"
        try:
            found = self.stored.read(name, most_bytes=LARGEST_REPORT, policy=LOOK)
            document = json.loads(found.content) if found else None
        except (TooLargeError, ValueError, RecursionError):
            return None
        if found is None or not isinstance(document, dict):
            return None
        written_at, seen_at = found.updated.timestamp(), found.seen_at.timestamp()
        return Report(document=document, told=read(document), written_at=written_at, seen_at=seen_at)


Reports = dict[int, Report]


def first(reports: Iterable[Report], phase: str) -> datetime | None:
    """When the first of them came to a phase."""
    return _moment(min(_times(reports, phase), default=None))


def last(reports: Iterable[Report], phase: str) -> datetime | None:
    """When the last of them came to a phase."""
    return _moment(max(_times(reports, phase), default=None))


def ran_s(record: JobRecord, nodes: Sequence[VmReport], reports: Reports) -> float:
    """Seconds that an attempt has taken of the time limit: rather too many than too few.

    A VM that Google took may never have written when it began or ended; then Google's operations on it tell,
    with all the notice that it may have had. What it waited in Google's queue was free.
    """
    operations = [(one.get("operationType") in CREATES, one) for node in nodes for one in node.operations]
    times = [(is_create, seconds_of(one.get("insertTime"))) for is_create, one in operations]
    starts = _times(reports.values(), WAITING)
    if not starts and record.attempt is not None and record.attempt.option.model != "flex-start":
        starts = [at for is_create, at in times if is_create and at]
    untold = any(not node.told.is_over for node in nodes)
    ends = _times(reports.values(), ENDED)
    ends += [at + NOTICE_S for is_create, at in times if untold and not is_create and at]
    ends = ends or [one.seen_at for one in reports.values()]
    took_s = max(0.0, max(ends) - min(starts)) if starts and ends else 0.0
    return min(took_s, TrainingSpec.from_dict(record.spec).max_run_duration.total_seconds())


def _times(reports: Iterable[Report], phase: str) -> list[float]:
    return [at for one in reports if (at := one.at(phase)) is not None]


def _moment(at: float | None) -> datetime | None:
    return None if at is None else datetime.fromtimestamp(at, timezone.utc)
