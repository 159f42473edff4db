"""What the nodes of an attempt write into its folder in the bucket, and how it is read: statuses and logs.

A status is the document that a `Supervisor` shows. A node's log lies there in parts, each named by where it
begins (`gputrain.runtime.reports`): the next one is read by its name, and nothing is listed to follow a log.
"""

from __future__ import annotations

import json
import re
from collections.abc import Mapping, Sequence
from datetime import datetime

import attrs

from gputrain.backends.agent_reports import Status as AgentStatus, read
from gputrain.concurrency import gather
from gputrain.google import Objects
from gputrain.google.errors import TooLargeError
from gputrain.google.storage import BucketPrefix
from gputrain.retry import LOOK
from gputrain.runtime.contract import LOG_PART, LOG_PART_BYTES

LARGEST_REPORT = 1_000_000
"""Bytes of what one node writes of itself; its result is of some thousand."""


@attrs.frozen(kw_only=True)
class Report:
    """What one node wrote last of itself, and when, by Cloud Storage's clock."""

    agent: AgentStatus
    written_at: float
    seen_at: float


Reports = dict[int, Report]


@attrs.frozen(kw_only=True)
class RunReports:
    """Reads what nodes write of themselves."""

    stored: Objects
    bucket: BucketPrefix

    def folder(self, job_id: str, *attempt: str) -> str:
        """Where the nodes of a job write, or those of one attempt."""
        return self.bucket.object_name("jobs", job_id, *attempt, "")

    def read(self, job_id: str, attempt: str, rank: int) -> Report | None:
        """That of one node; what is no JSON object, or too large, is none."""
        name = f"{self.folder(job_id, attempt)}status-{rank}.json"
        try:
            found = self.stored.read(name, most_bytes=LARGEST_REPORT, policy=LOOK)
            document = json.loads(found.content) if found else None
        except (TooLargeError, ValueError, RecursionError):
            return None
        if found is None or not isinstance(document, dict):
            return None
        written_at, seen_at = found.updated.timestamp(), found.seen_at.timestamp()
        return Report(agent=read(document), written_at=written_at, seen_at=seen_at)

    def read_all(self, job_id: str, attempt: str, nodes: int) -> Reports:
        """Those of all nodes that have written one."""
        ranks = range(nodes)
        found = zip(ranks, gather(lambda rank: self.read(job_id, attempt, rank), ranks))
        return {rank: one for rank, one in found if one is not None}


def times(reports: Reports, phase: str) -> list[datetime]:
    """When each that came to a phase did so."""
    return [at for one in reports.values() if (at := one.agent.at(phase))]


@attrs.frozen
class BucketLogs:
    """The logs of a job's nodes in the bucket, as of `LogStore`."""

    stored: Objects
    folder: str
    """Of the job; an attempt's is below it."""
    settles_s = 2.0

    def is_finished(self, size: int) -> bool:
        return size >= LOG_PART_BYTES

    def read(self, attempt: str, rank: int, part: int, first: int, most: int) -> bytes:
        name = LOG_PART.format(node_rank=rank, offset=part)
        return self.stored.read_range(f"{self.folder}{attempt}/{name}", first, most)

    def parts(self, attempt: str) -> Mapping[int, Sequence[tuple[int, int]]]:
        folder, found = f"{self.folder}{attempt}/logs/", dict[int, list[tuple[int, int]]]()
        for one in self.stored.list(folder):
            if name := re.fullmatch(r"(\d{1,6})-(\d{15})", one.name[len(folder) :]):
                found.setdefault(int(name[1]), []).append((int(name[2]), one.size))
        return found
