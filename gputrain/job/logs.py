"""A job's log: lines as a reader asks for them, and what the script reported among them."""

from __future__ import annotations

import logging
import math
import re
import threading
import time
from collections import deque
from collections.abc import Callable, Iterable, Iterator
from datetime import datetime, timedelta
from itertools import chain
from typing import TYPE_CHECKING

import attrs

from gputrain.backends.base import Backend, LogLine
from gputrain.errors import GputrainError, RequestError, TransientError
from gputrain.fields import short_repr
from gputrain.job.result import silent_for
from gputrain.job.watcher import BLIND_FOR_AT_MOST_S, StopEvent, is_stopped
from gputrain.jobstore import JobRecord
from gputrain.metrics import MachineUse, Reports
from gputrain.runtime import contract

if TYPE_CHECKING:
    from gputrain.job.job import Job

log = logging.getLogger("gputrain")

_OURS = (contract.GAUGE_MARKER, contract.RESULT_MARKER)
"""How lines begin that agents write for programs, and not for people."""
FARTHER, MOST_NEAR = 4, 1 << 30
"""How much farther back the next look for the last lines begins; beyond so many lines, at the beginning."""
Page = tuple[LogLine, ...]


@attrs.frozen(kw_only=True)
class LineFilter:
    """Which lines a reader asks for."""

    rank: int | None = None
    since: datetime | None = None
    grep: re.Pattern[str] | None = None
    metrics: bool = False

    def of(self, lines: Iterable[LogLine]) -> Iterator[LogLine]:
        """Those of the lines, in their order; one without a time belongs to the line before it."""
        is_late = self.since is None
        left_out = () if self.metrics else (contract.METRIC_MARKER,)
        for line in lines:
            if line.message.startswith(_OURS if line.rank is None else left_out):
                continue
            if self.since is not None and line.time is not None:
                is_late = line.time >= self.since
            is_of_rank = self.rank is None or line.rank == self.rank
            if is_late and is_of_rank and (self.grep is None or self.grep.search(line.message)):
                yield line


class LogReader:
    """One reader of one job's log, whichever attempt writes it: each line once, oldest first."""

    def __init__(self, attempt: str = "", cursor: str = "") -> None:
        self._attempt, self._cursor = attempt, cursor

    def pages(self, backend: Backend | None, record: JobRecord) -> Iterator[Page]:
        """What came since the last call, a bounded page at a time."""
        if backend is None or record.attempt is None:
            return
        if record.attempt.id != self._attempt:  # the first time, or the job was launched again
            if not self._cursor.startswith(f"{self._attempt}/"):
                self._cursor = ""
            self._attempt = record.attempt.id
        while True:
            page = backend.logs(record, self._cursor)
            has_moved, self._cursor = page.cursor != self._cursor, page.cursor
            if page.lines:
                yield page.lines
            if not (has_moved and (page.lines or page.has_more)):
                return


class JobLog:
    """The log of one job, and the metrics in as much of it as `news` has read."""

    def __init__(self, job: Job) -> None:
        self._job = job
        self._watched = LogReader()
        self._lock = threading.RLock()
        self.reports, self.machines = Reports(), MachineUse()

    def lines(
        self, wanted: LineFilter, tail: int | None = None, follow: bool = False, stop: StopEvent | None = None
    ) -> Iterator[LogLine]:
        """As of `Job.logs`."""
        if tail is None:
            return wanted.of(self._read(LogReader(), follow, stop))
        reader, so_far = self._last(wanted, tail)
        more = wanted.of(self._read(reader, follow, stop)) if follow else ()
        return chain(so_far, more)

    def _last(self, wanted: LineFilter, count: int) -> tuple[LogReader, Iterable[LogLine]]:
        """The last lines that are wanted, read from the end as far back as it takes, and their reader."""
        near, before = max(count, 1), ""
        while True:
            backend, record = self._job._backend, self._job._record
            attempt, cursor = record.attempt, ""
            if near < MOST_NEAR and attempt is not None and backend is not None:
                cursor = backend.cursor_near_end(record, near)
            cursor = before = "" if cursor == before else cursor  # the same: the beginning alone is left
            reader = LogReader("" if attempt is None else attempt.id, cursor)
            found = deque(wanted.of(self._read(reader)), maxlen=count)
            if len(found) == count or not cursor:
                return reader, found
            near *= FARTHER

    def _read(
        self, reader: LogReader, follow: bool = False, stop: StopEvent | None = None
    ) -> Iterator[LogLine]:
        job, blind_since = self._job, math.inf
        sleep: Callable[[float], object] = job._context.sleep
        if stop is not None:
            given = stop
            sleep = lambda seconds: is_stopped(given, seconds)  # noqa: E731
        while True:
            pause = job.poll_s
            try:
                if not job.state.is_terminal:
                    job.refresh()
                has_ended = job.state.is_terminal  # seen before reading, so that the last lines are read too
                for lines in reader.pages(job._backend, job._record):
                    yield from lines
                if has_ended or not follow:
                    return
                blind_since = math.inf
            except TransientError as error:  # as patient as `Job.wait`
                if not follow or time.monotonic() - blind_since > BLIND_FOR_AT_MOST_S:
                    raise
                if blind_since == math.inf:
                    log.warning("the log of %s cannot be read; trying on: %s", job.id, error.what)
                blind_since = min(blind_since, time.monotonic())
                pause = max(pause, error.retry_after_s or 0.0)
            if stop is not None and stop.is_set():
                return
            sleep(pause)

    def news(self) -> Iterator[Page]:
        """Lines since the last call; their reports are kept, the lines are not."""
        pages = self._watched.pages(self._job._backend, self._job._record)
        while True:
            with self._lock:
                lines = next(pages, None)
                if lines is None:
                    return
                self.reports.add(line.message for line in lines if not line.rank)
                self.machines.add(lines)
            yield lines

    def silence(self) -> timedelta | None:
        """How long the job had been silent when it ended; None where its log cannot be read."""
        try:
            return silent_for(self.lines(LineFilter(metrics=True)), self._job.ended_at)
        except GputrainError as error:
            log.info("the log of %s could not be read: %s", self._job.uri, error.what)
            return None


def without_cause(lines: Page) -> Page:
    """The lines without the agents' one on why the job failed, which its end says."""
    return tuple(one for one in lines if one.rank is not None or not one.message.startswith("first cause: "))


def pattern(text: str) -> re.Pattern[str]:
    """The regular expression. Raises RequestError where it is none."""
    try:
        found = re.compile(text)
        found.search("")
        return found
    except Exception as error:  # of the pattern, or of a value that is none
        what = f"grep={short_repr(text)} is no regular expression"
        raise RequestError(what, why=str(error), fix="escape it: job.logs(grep=re.escape(text))") from error
