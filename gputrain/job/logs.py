"""What a handle reads of its job: log lines, and what the script reported among them."""

from __future__ import annotations

import logging
import math
import operator
import re
import threading
import time
from collections import deque
from collections.abc import Iterable, Iterator
from datetime import datetime, timedelta
from functools import cached_property
from itertools import chain
from typing import Literal, get_args

import attrs

from gputrain.backends.base import Backend, LogLine
from gputrain.display.live import Status, job_status
from gputrain.entrypoint import contract
from gputrain.errors import GputrainError, RequestError, TransientError
from gputrain.fields import Field, check, invalid, read_whole, short_repr, word
from gputrain.job.facts import Facts
from gputrain.job.result import silent_for
from gputrain.job.watcher import BLIND_FOR_AT_MOST_S, StopEvent, is_stopped
from gputrain.jobstore import JobRecord
from gputrain.metrics import MachineUse, Metrics, Reports
from gputrain.spec.duration import Moment, parse_moment

_OURS = (contract.GAUGE_MARKER, contract.RESULT_MARKER)
"""How lines begin that agents write for programs, and not for people."""


@attrs.frozen(kw_only=True)
class LineFilter:
    """Which lines a reader asks for."""

    rank: int | None = None
    since: datetime | None = None
    grep: re.Pattern[str] | None = None
    metrics: bool = False

    def of(self, lines: Iterable[LogLine]) -> Iterator[LogLine]:
        """Those of the lines, in their order; one without a time goes with whatever stands before it."""
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


FARTHER, MOST_NEAR = 4, 1 << 30
"""How much farther back the next look for the last lines begins, so that a third is read twice; beyond so
many lines, at the beginning."""

MetricsWord = Literal["script", "gpu"]

log = logging.getLogger("gputrain")


class LogReading(Facts):
    """The part of a `Job` that reads."""

    @cached_property
    def _watched(self) -> LogReader:
        return LogReader()

    @cached_property
    def _reports(self) -> Reports:
        return Reports()

    @cached_property
    def _gauges(self) -> MachineUse:
        return MachineUse()

    @cached_property
    def _reading(self) -> threading.RLock:
        return threading.RLock()

    @property
    def poll_s(self) -> float:
        """Seconds between two looks."""
        backend = self._backend
        if backend is not None:
            return backend.poll_s
        return min((one.poll_s for one in self._context.backends.values()), default=5.0)

    def logs(
        self,
        *,
        rank: int | None = None,
        since: Moment | None = None,
        tail: int | None = None,
        grep: str | None = None,
        metrics: bool = False,
        follow: bool = False,
        stop: StopEvent | None = None,
    ) -> Iterator[LogLine]:
        """Log lines, oldest first, none twice; read as they are asked for, however long the log is.

        Args:
            rank: only this rank's lines; all ranks and agents unless said.
            since: only lines from then on; ``"10m"`` or a timedelta counts back from now.
            tail: only the last so many lines, after the other filters.
            grep: only lines in which this regular expression is found.
            metrics: with the lines in which ranks report metrics, as they were written.
            follow: go on until the job has ended, also where nothing can be read for some minutes.
            stop: a `threading.Event` that ends the following.

        Raises:
            RequestError: ``grep`` is no regular expression.
            SpecError: ``since`` is no moment, the job has no such ``rank``, or ``tail`` is below 0.
            TransientError: while they are read, nothing could be; where it is followed, for five minutes.
        """
        check("logs(...)", stop=stop)
        rank, tail = _number("rank", rank), _number("tail", tail)
        wanted = LineFilter(
            rank=rank,
            since=None if since is None else parse_moment(since, self.now()),
            grep=None if grep is None else pattern(grep),
            metrics=metrics,
        )
        self._check_rank(rank)
        if tail is None:
            return LogLines(wanted.of(self._lines(LogReader(), follow, stop)), self.id)
        reader, so_far = self._last(wanted, tail)
        more = wanted.of(self._lines(reader, follow, stop)) if follow else ()
        return LogLines(chain(so_far, more), self.id)

    def _check_rank(self, rank: int | None) -> None:
        placed = None if rank is None else self.candidate
        if rank is None or placed is None:
            return
        last = (placed.num_nodes + placed.missing_nodes) * placed.nproc_per_node - 1
        if rank > last:
            raise invalid("rank", rank, f"a rank of {self.id}: 0 to {last}", f"rank={last}")

    def _last(self, wanted: LineFilter, count: int) -> tuple[LogReader, Iterable[LogLine]]:
        """The last lines that are wanted, read from the end as far back as it takes, and who read them."""
        near, before = max(count, 1), ""
        while True:
            record, backend = self._record, self._backend
            cursor = ""
            if near < MOST_NEAR and record is not None and record.attempt is not None and backend is not None:
                cursor = backend.cursor_near_end(record, near)
            if cursor == before:  # it knows of nothing farther back but the beginning
                cursor = ""
            before = cursor
            reader = LogReader(_attempt_id(record), cursor)
            found = deque(wanted.of(self._lines(reader, follow=False)), maxlen=count)
            if len(found) == count or not cursor:
                return reader, found
            near *= FARTHER

    def _lines(self, reader: LogReader, follow: bool, stop: StopEvent | None = None) -> Iterator[LogLine]:
        blind_since = math.inf
        while True:
            pause = self.poll_s
            try:
                if not self._state.is_terminal:
                    self.refresh()
                ended = self._state.is_terminal  # judged before reading, so that the last lines are read too
                for lines in reader.pages(self._backend, self._record):
                    yield from lines
                if ended or not follow:
                    return
                blind_since = math.inf
            except TransientError as error:  # as patient as `Job.wait`: whoever follows is not to begin anew
                if not follow or time.monotonic() - blind_since > BLIND_FOR_AT_MOST_S:
                    raise
                if blind_since == math.inf:
                    log.warning("the log of %s cannot be read; trying on: %s", self.id, error.what)
                blind_since = min(blind_since, time.monotonic())
                pause = max(pause, error.retry_after_s or 0.0)
            if stop is not None and stop.is_set():
                return
            if stop is None:
                self._context.sleep(pause)
            else:
                is_stopped(stop, pause)

    def metrics(self, of: MetricsWord = "script") -> Metrics:
        """What the script reported so far with ``session.report``; a long course is kept thin.

        Args:
            of: ``script``, or ``gpu``: what the machines did every 15 s, as ``node0.gpu_busy`` (percent),
                ``gpu_watts``, ``gpu_memory_mib``, ``gpu_celsius`` (the hottest), ``cpu_cores`` and
                ``memory_mib`` of the ranks.

        Raises:
            SpecError: any other word.
        """
        of = read_whole("", _OF, {"of": of})["of"]
        for _ in self._news():
            pass
        return self._gauges.metrics if of == "gpu" else self._reports.metrics

    @property
    def gpu_busy(self) -> float | None:
        """The share of the GPUs' time, while ranks ran, in which kernels ran: 0 to 1; None: unknown.

        It is told by the log, as far as that has been read: by a watching `wait`, or by `metrics`.
        """
        return self._gauges.share

    def _silence(self) -> timedelta | None:
        """How long it had been silent when it ended; None where its log cannot be read."""
        try:
            return silent_for(self.logs(metrics=True), self.ended_at)
        except GputrainError as error:
            log.info("the log of %s could not be read: %s", self.uri, error.what)
            return None

    def _news(self) -> Iterator[Page]:
        """Log lines that nobody has watched yet; their reports are kept, the lines are not."""
        pages = self._watched.pages(self._backend, self._record)
        while True:
            with self._reading:
                lines = next(pages, None)
                if lines is None:
                    return
                self._reports.add(line.message for line in lines if not line.rank)
                self._gauges.add(lines)
            yield lines

    def _shown_status(self) -> Status:
        return job_status(
            title=self.id,
            state=self._state,
            elapsed=self.duration or timedelta(0),
            detail=self.detail,
            metrics=self._reports.metrics,
            gpu_busy=self._gauges.busy,
            cost_usd=self.cost_usd,
            failure=self.failure,
        )


_OF = {"of": Field(word(*get_args(MetricsWord)), "'script' or 'gpu'", "job.metrics('gpu')", is_needed=True)}
Page = tuple[LogLine, ...]


class LogReader:
    """One reader of one job's log, whichever attempt writes it: each line once, oldest first."""

    def __init__(self, attempt: str = "", cursor: str = "") -> None:
        self._attempt = attempt
        self._cursor = cursor

    def pages(self, backend: Backend | None, record: JobRecord | None) -> Iterator[Page]:
        """What came since the last call, a bounded page at a time."""
        if backend is None or record is None or record.attempt is None:
            return
        if record.attempt.id != self._attempt:  # the first time, or the job was launched again
            self._attempt, self._cursor = record.attempt.id, ""
        while True:
            asked = self._cursor
            page = backend.logs(record, asked)
            if self._cursor != asked:  # the handler of a signal has read it meanwhile
                return
            has_moved, self._cursor = page.cursor != asked, page.cursor
            lost = f"... {page.missed_bytes} bytes of log were lost here ..."
            lines = (LogLine(message=lost), *page.lines) if page.missed_bytes else page.lines
            if lines:
                yield lines
            if not (has_moved and (page.lines or page.has_more)):
                return


def _attempt_id(record: JobRecord | None) -> str:
    return "" if record is None or record.attempt is None else record.attempt.id


def without_cause(lines: Page) -> Page:
    """The lines without the agents' word on why the job failed: its rank's own lines say it, and its end."""
    return tuple(one for one in lines if one.rank is not None or not one.message.startswith("first cause: "))


def _number(name: str, value: int | None) -> int | None:
    try:
        number = None if value is None else operator.index(value)
    except Exception:  # noqa: BLE001  # it may be anything
        number = -1
    if number is not None and (number < 0 or isinstance(value, bool)):
        raise invalid(name, value, "a whole number from 0 on", f"{name}=5")
    return number


def pattern(text: str) -> re.Pattern[str]:
    """The regular expression. Raises RequestError where it is none."""
    try:
        found = re.compile(text)
        found.search("")
        return found
    except Exception as error:  # of the pattern, or of what is none
        fix = "escape it: job.logs(grep=re.escape(text))"
        raise RequestError(
            f"grep={short_repr(text)} is no regular expression", why=str(error), fix=fix
        ) from error
