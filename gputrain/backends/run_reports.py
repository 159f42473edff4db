"""What the nodes of an attempt write into its folder in the bucket, and how it is read: statuses and logs.

A status is the document of `gputrain.keeper.status`. A node's log lies there in parts, each named by where it
begins (`gputrain.keeper.reports`): the next one is read by its name, and nothing is listed to follow a log.
"""

from __future__ import annotations

import json
import re
from collections.abc import Callable, Iterable, Mapping, Sequence
from datetime import datetime, timezone
from typing import Any

import attrs

from gputrain.backends.agent_reports import Status as AgentStatus, Tail, merged, read
from gputrain.backends.base import LogPage
from gputrain.concurrency import gather
from gputrain.entrypoint.contract import LOG_PART, LOG_PART_BYTES
from gputrain.google import Objects
from gputrain.google.errors import TooLargeError
from gputrain.google.storage import BucketPrefix
from gputrain.retry import LOOK

LARGEST_REPORT = 1_000_000
"""Bytes of what one node writes of itself; its result is of some thousand."""

SETTLES_S = 2.0
"""How long lines of several nodes wait for each other. One that comes later is shown after younger ones of
other nodes."""

SLACK_S = 1.0
"""How far ahead of this machine's a clock may be."""

PAGE_BYTES = 1_000_000
"""How much of a node's log one page reads: a page stays small, however much a rank writes."""

MOST_PART = 8 << 20
"""Of a part, when the last lines are looked for; a node writes at most half of that."""


@attrs.frozen(kw_only=True)
class Report:
    """What one node wrote last of itself, and when, by Cloud Storage's clock."""

    document: Mapping[str, Any]
    agent: AgentStatus
    written_at: float
    seen_at: float

    def at(self, phase: str) -> float | None:
        """When it came to a phase, in seconds since 1970."""
        moment = self.agent.at(phase)
        return moment.timestamp() if moment else None


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
        return Report(document=document, agent=read(document), written_at=written_at, seen_at=seen_at)

    def read_all(self, job_id: str, attempt: str, nodes: int) -> Reports:
        """Those of all nodes that have written one."""
        ranks = range(nodes)
        found = zip(ranks, gather(lambda rank: self.read(job_id, attempt, rank), ranks))
        return {rank: one for rank, one in found if one is not None}


def first(reports: Iterable[Report], phase: str) -> datetime | None:
    """When the first of them came to a phase."""
    return _moment(min(times(reports, phase), default=None))


def last(reports: Iterable[Report], phase: str) -> datetime | None:
    """When the last of them came to a phase."""
    return _moment(max(times(reports, phase), default=None))


def times(reports: Iterable[Report], phase: str) -> list[float]:
    """When each that came to a phase did so."""
    return [at for one in reports if (at := one.at(phase)) is not None]


def _moment(at: float | None) -> datetime | None:
    return None if at is None else datetime.fromtimestamp(at, timezone.utc)


Place = tuple[int, int]
"""Offsets in a node's log: where the part begins that is read, and how far it was read."""


@attrs.frozen(kw_only=True)
class RunLogs:
    """The log of a job, attempt by attempt, with the lines of all nodes in the order of time."""

    stored: Objects
    folder: str
    """Of the job; an attempt's is below it."""
    attempts: Sequence[str]
    """Those that may have written, the present one last."""
    nodes: int
    """How many the largest of them had."""
    is_over: bool
    """Whether the present attempt writes no more."""
    now: Callable[[], float]

    def read(self, cursor: str) -> LogPage:
        """The next page.

        Args:
            cursor: ``attempt/part.offset,part.offset...``, one pair a node; empty: the beginning.
        """
        begin = [(0, 0)] * self.nodes
        index, at = self._read_cursor(cursor) or (0, begin)
        while True:
            page = self._page(self.attempts[index], at)
            if page.lines or index == len(self.attempts) - 1:
                return page
            index, at = index + 1, begin

    def _page(self, attempt: str, at: Sequence[Place]) -> LogPage:
        is_past = self.is_over or attempt != self.attempts[-1]
        settled = float("inf") if is_past or self.nodes == 1 else self.now() - SETTLES_S
        read = gather(lambda rank: self._read(attempt, rank, *at[rank]), range(self.nodes))
        shown = merged([tail for tail, _ in read], settled)
        ends = {one.node_rank: one.end for one in shown}
        after = []
        for rank, (_, parts) in enumerate(read):
            end = ends.get(rank, at[rank][1])
            after.append((max(part for part in parts if part <= end), end))
        return LogPage(lines=tuple(one.line for one in shown), cursor=_cursor(attempt, after))

    def _read(self, attempt: str, rank: int, part: int, offset: int) -> tuple[Tail, list[int]]:
        """A page of one node's log, and where the parts begin of which it is."""
        data, parts, most = b"", [part], PAGE_BYTES
        while True:
            end, name = offset + len(data), self._part(attempt, rank, parts[-1])
            data += self.stored.read_range(name, end - parts[-1], most - len(data))
            end, has_more = offset + len(data), len(data) == most
            if has_more and b"\n" not in data and most < MOST_PART:
                most += PAGE_BYTES
            elif has_more or end - parts[-1] < LOG_PART_BYTES:
                break
            else:
                parts.append(end)
        if has_more:
            data = data[: data.rfind(b"\n") + 1] or data
        return Tail.of(data, rank, offset, self.now() + SLACK_S, has_more=has_more), parts

    @property
    def begin(self) -> str:
        """The cursor of the present attempt's beginning."""
        return _cursor(self.attempts[-1], [(0, 0)] * self.nodes) if self.attempts else ""

    def near_end(self, lines: int) -> str:
        """A cursor for `read` after which so many lines of each node are left that has more; empty where the
        present attempt is to be read from its beginning."""
        attempt, parts = self.attempts[-1], dict[int, list[tuple[int, int]]]()
        folder = f"{self.folder}{attempt}/logs/"
        for one in self.stored.list(folder):
            found = re.fullmatch(r"(\d{1,6})-(\d{15})", one.name[len(folder) :])
            if found:
                parts.setdefault(int(found[1]), []).append((int(found[2]), one.size))
        at = gather(lambda rank: self._near_end(attempt, rank, parts.get(rank, []), lines), range(self.nodes))
        return _cursor(attempt, at) if any(offset for _, offset in at) else ""

    def _near_end(self, attempt: str, rank: int, parts: Sequence[tuple[int, int]], lines: int) -> Place:
        left = max(1, lines)
        for begin, size in reversed(parts):
            data = self.stored.read_range(self._part(attempt, rank, begin), 0, min(size, MOST_PART))
            count = data.count(b"\n")
            if count >= left:
                rows = data.split(b"\n", count - left)
                return begin, begin + len(data) - len(rows[-1])
            left -= count
        return 0, 0

    def _part(self, attempt: str, rank: int, begin: int) -> str:
        return f"{self.folder}{attempt}/" + LOG_PART.format(node_rank=rank, offset=begin)

    def _read_cursor(self, cursor: str) -> tuple[int, list[Place]] | None:
        """The attempt, by its place among those that wrote, and the places of its nodes."""
        found = re.fullmatch(r"([a-z0-9]{1,18})/((?:\d{1,15}\.\d{1,15},?)*)", cursor)
        pairs = [pair.split(".") for pair in found[2].split(",") if pair] if found else []
        if found is None or len(pairs) != self.nodes:
            return None
        if found[1] not in self.attempts:  # it never ran, and another has taken its place
            return len(self.attempts) - 1, [(0, 0)] * self.nodes
        places = [(min(int(part), int(offset)), int(offset)) for part, offset in pairs]
        return self.attempts.index(found[1]), places


def _cursor(attempt: str, places: Iterable[Place]) -> str:
    return f"{attempt}/" + ",".join(f"{part}.{offset}" for part, offset in places)
