"""What a handle reads of its job: log lines, and what the script reported among them."""

from __future__ import annotations

import logging
import math
import operator
import re
import time
from collections import deque
from collections.abc import Callable, Iterable, Iterator
from datetime import datetime, timedelta
from itertools import chain
from typing import Literal, get_args

from gputrain import view
from gputrain.arguments import check
from gputrain.backends import seam
from gputrain.backends.base import Backend, JobRef, LogLine
from gputrain.errors import GputrainError, RequestError, TransientError
from gputrain.fields import Field, read_whole, refused, shown, word
from gputrain.gauges import MachineUse
from gputrain.job.facts import Facts
from gputrain.job.lines import LineFilter, LogLines
from gputrain.job.record import Going
from gputrain.job.result import silent_for
from gputrain.job.stopping import StopEvent, is_stopped
from gputrain.job.watcher import BLIND_FOR_AT_MOST_S
from gputrain.metrics import Metrics, Reports
from gputrain.planning import Candidate, Ledger
from gputrain.spec.durations import Moment, moment_asked
from gputrain.threads import new_lock

FARTHER, MOST_NEAR = 4, 1 << 30
"""How much farther back the next look for the last lines begins, so that a third is read twice; beyond so
many lines, at the beginning."""

MetricsWord = Literal["script", "gpu"]

log = logging.getLogger("gputrain")


class LogReading(Facts):
    """The part of a `Job` that reads."""

    def __init__(
        self,
        ref: JobRef,
        backend: Backend,
        candidate: Candidate | None,
        attempts: Ledger,
        going: Going,
        now: Callable[[], datetime],
        sleep: Callable[[float], None],
    ) -> None:
        super().__init__(ref, backend, candidate, attempts, going, now)
        self._sleep = sleep
        self._watched = LogReader()
        self._reports = Reports()
        self._gauges = MachineUse()

    @property
    def poll_s(self) -> float:
        """Seconds between two looks."""
        return seam.poll_s(self._backend)

    @property
    def platform(self) -> str:
        """What is looked at with this job: its platform, in its project."""
        return f"{self.ref.backend} {self.ref.project}"

    def logs(
        self,
        *,
        rank: int | None = None,
        since: Moment | None = None,
        tail: int | None = None,
        grep: str | None = None,
        follow: bool = False,
        stop: StopEvent | None = None,
    ) -> Iterator[LogLine]:
        """Log lines, oldest first, none twice; read as they are asked for, however long the log is.

        Args:
            rank: only this rank's lines; all ranks and agents unless said.
            since: only lines from then on; ``"10m"`` or a timedelta counts back from now.
            tail: only the last so many of the lines that the others leave; those for programs do not count.
            grep: only lines in which this regular expression is found.
            follow: go on until the job has ended, also where nothing can be read for some minutes.
            stop: a `threading.Event` that ends the following.

        Raises:
            RequestError: ``grep`` is no regular expression.
            SpecError: ``since`` is no moment, or ``rank`` or ``tail`` no number from 0 on.
            TransientError: while they are read, nothing could be; where it is followed, for five minutes.
        """
        check("logs(...)", stop=stop)
        rank, tail = _number("rank", rank), _number("tail", tail)
        wanted = LineFilter(
            rank=rank,
            since=None if since is None else moment_asked(since, self.now()),
            grep=None if grep is None else pattern(grep),
        )
        if tail is None:
            return LogLines(wanted.of(self._lines(LogReader(), follow, stop)), self.id)
        reader, so_far = self._last(wanted, tail)
        more = wanted.of(self._lines(reader, follow, stop)) if follow else ()
        return LogLines(chain(so_far, more), self.id)

    def _last(self, wanted: LineFilter, count: int) -> tuple[LogReader, Iterable[LogLine]]:
        """The last lines that are wanted, read from the end as far back as it takes, and who read them."""
        near, before = max(count, 1), ""
        while True:
            cursor = seam.cursor_near_end(self._backend, self.ref, near) if near < MOST_NEAR else ""
            if cursor == before:  # it knows of nothing farther back but the beginning
                cursor = ""
            before = cursor
            reader = LogReader(self.ref, cursor)
            found, seen = _ending(wanted.of(self._lines(reader, follow=False)), count)
            if seen >= count or not cursor:
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
                for lines in reader.pages(self._backend, self.ref):
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
                self._sleep(pause)
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
            return silent_for(self.logs(), self._seen.ended_at)
        except GputrainError as error:
            log.info("the log of %s could not be read: %s", self.uri, error.what)
            return None

    def _news(self) -> Iterator[Page]:
        """Log lines that nobody has watched yet; their reports are kept, the lines are not."""
        pages = self._watched.pages(self._backend, self.ref)
        while True:
            # made by the first read: of a thousand that are watched few are read
            with vars(self).get("_reading") or vars(self).setdefault("_reading", new_lock()):
                lines = next(pages, None)
                if lines is None:
                    return
                self._reports.add(line.message for line in lines if not line.rank)
                self._gauges.add(lines)
            yield lines

    def _snapshot(self) -> view.Snapshot:
        return view.Snapshot(
            title=self.ref.name,
            state=self._state,
            elapsed=self.duration or timedelta(0),
            detail=self._seen.detail,
            metrics=self._reports.metrics,
            gpu_busy=self._gauges.busy,
            cost_usd=self.cost_usd,
            failure=self.failure,
        )


_OF = {"of": Field(word(*get_args(MetricsWord)), "'script' or 'gpu'", "job.metrics('gpu')", is_needed=True)}
Page = tuple[LogLine, ...]


class LogReader:
    """One reader of one job's log, wherever the job goes on: each line once, oldest first."""

    def __init__(self, ref: JobRef | None = None, cursor: str = "") -> None:
        self._ref = ref
        self._cursor = cursor

    def pages(self, backend: Backend, ref: JobRef) -> Iterator[Page]:
        """What came since the last call, a bounded page at a time."""
        if ref != self._ref:  # the first time, or the job has gone on under another name
            self._ref, self._cursor = ref, ""
        while True:
            asked = self._cursor
            page = seam.logs(backend, ref, asked)
            if self._cursor != asked:  # the handler of a signal has read it meanwhile
                return
            has_moved, self._cursor = page.cursor != asked, page.cursor
            lost = f"... {page.missed_bytes} bytes of log were lost here ..."
            lines = (LogLine(message=lost), *page.lines) if page.missed_bytes else page.lines
            if lines:
                yield lines
            if not (has_moved and (page.lines or page.has_more)):
                return


def without_cause(lines: Page) -> Page:
    """The lines without the agents' word on why the job failed: its rank's own lines say it, and its end."""
    return tuple(one for one in lines if one.rank is not None or not one.message.startswith("first cause: "))


def _ending(lines: Iterable[LogLine], count: int) -> tuple[Iterable[LogLine], int]:
    """The last lines, and how many of them a person reads: no more than so many."""
    found: deque[LogLine] = deque()
    seen = 0
    for line in lines:
        found.append(line)
        seen += len(view.without_marks([line]))
        while seen > count:
            seen -= len(view.without_marks([found.popleft()]))
    return (found if count else ()), seen


def _number(name: str, value: int | None) -> int | None:
    try:
        number = None if value is None else operator.index(value)
    except Exception:  # noqa: BLE001  # it may be anything
        number = -1
    if number is not None and (number < 0 or isinstance(value, bool)):
        raise refused(name, value, "a whole number from 0 on", f"{name}=5")
    return number


def pattern(text: str) -> re.Pattern[str]:
    """The regular expression. Raises RequestError where it is none."""
    try:
        found = re.compile(text)
        found.search("")
        return found
    except Exception as error:  # of the pattern, or of what is none
        fix = "escape it: job.logs(grep=re.escape(text))"
        raise RequestError(f"grep={shown(text)} is no regular expression", why=str(error), fix=fix) from error
