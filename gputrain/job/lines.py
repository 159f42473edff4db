"""Lines of a log as they are asked for: which of them, and one after the other."""

from __future__ import annotations

import re
from collections.abc import Iterable, Iterator
from datetime import datetime

import attrs

from gputrain.backends.base import LogLine
from gputrain.entrypoint import contract

_OURS = (contract.GAUGE_MARKER, contract.RESULT_MARKER)
"""How lines begin that agents write for programs, and not for people."""


@attrs.frozen(kw_only=True)
class LineFilter:
    """Which lines a reader asks for."""

    rank: int | None = None
    since: datetime | None = None
    grep: re.Pattern[str] | None = None

    def of(self, lines: Iterable[LogLine]) -> Iterator[LogLine]:
        """Those of the lines, in their order; one without a time goes with whatever stands before it."""
        is_late = self.since is None
        for line in (one for one in lines if one.rank is not None or not one.message.startswith(_OURS)):
            if self.since is not None and line.time is not None:
                is_late = line.time >= self.since
            is_of_rank = self.rank is None or line.rank == self.rank
            if is_late and is_of_rank and (self.grep is None or self.grep.search(line.message)):
                yield line


class LogLines(Iterator[LogLine]):
    """Lines that are yet to be read, and how to, for whoever looks at them in a notebook."""

    def __init__(self, lines: Iterator[LogLine], job_id: str) -> None:
        self._lines, self._job_id = lines, job_id

    def __iter__(self) -> Iterator[LogLine]:
        return self._lines  # itself, as millions may come

    def __next__(self) -> LogLine:
        return next(self._lines)

    def __repr__(self) -> str:
        return f"<the log of {self._job_id}: for line in job.logs(): print(line.rank, line.message)>"
