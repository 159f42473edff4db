"""Reads a job's log page by page; nothing of it is kept but the place to go on from."""

from __future__ import annotations

import re
from collections import deque
from collections.abc import Iterable, Iterator
from datetime import datetime

import attrs

from gputrain.backends.base import Backend, JobRef, LogLine
from gputrain.errors import RequestError

Page = tuple[LogLine, ...]


class LogReader:
    """One reader of one job's log, wherever the job goes on: each line once, oldest first."""

    def __init__(self) -> None:
        self._ref: JobRef | None = None
        self._cursor = ""

    def pages(self, backend: Backend, ref: JobRef) -> Iterator[Page]:
        """What came since the last call, a bounded page at a time."""
        if ref != self._ref:  # the first time, or the job has gone on under another name
            self._ref, self._cursor = ref, ""
        while True:
            page = backend.logs(ref, self._cursor)
            has_moved, self._cursor = page.cursor != self._cursor, page.cursor
            lost = f"... {page.missed_bytes} bytes of log were lost here ..."
            lines = (LogLine(message=lost), *page.lines) if page.missed_bytes else page.lines
            if lines:
                yield lines
            if not (has_moved and page.lines):
                return


@attrs.frozen(kw_only=True)
class LineFilter:
    """Which lines a reader asks for."""

    rank: int | None = None
    since: datetime | None = None
    grep: re.Pattern[str] | None = None

    def of(self, lines: Iterable[LogLine]) -> Iterator[LogLine]:
        """Those of the lines, in their order; one without a time goes with whatever stands before it."""
        is_late = self.since is None
        for line in lines:
            if self.since is not None and line.time is not None:
                is_late = line.time >= self.since
            is_of_rank = self.rank is None or line.rank == self.rank
            if is_late and is_of_rank and (self.grep is None or self.grep.search(line.message)):
                yield line


def pattern(text: str) -> re.Pattern[str]:
    """The regular expression. Raises RequestError where it is none."""
    try:
        return re.compile(text)
    except re.error as error:
        raise RequestError(
            f"grep={text!r} is no regular expression",
            why=str(error),
            fix="escape it: job.logs(grep=re.escape(text))",
        ) from error


def last_of(lines: Iterable[LogLine], count: int) -> Iterator[LogLine]:
    """The last lines, with no more of them in memory than are asked for."""
    return iter(deque(lines, maxlen=max(0, count)))
