"""Log lines of all nodes: from the serial ports while they run, from the whole log objects afterwards.

The guest writes each line to its log and, after the offset at which it ends there, to the serial port. So
both are one stream with one count: no line is shown twice, and what fell out of the serial port's ring is
known by the byte.
"""

from __future__ import annotations

import re
from collections.abc import Callable
from datetime import datetime

import attrs

from gputrain.backends.base import LogLine, LogPage
from gputrain.backends.compute.calls import Calls
from gputrain.backends.compute.names import JobObjects, VmNames
from gputrain.backends.results import lines_of, read_line
from gputrain.gcp import MissingError
from gputrain.gcp.objects import Objects
from gputrain.staging.upload import BucketPrefix

SETTLES_S = 1.0
"""How long a line may be under way from its stamp to the serial port, in which it is seen."""

_MARK = re.compile(r"gputrain:(\d+):(.*?)\r?\n")


@attrs.frozen
class _Line:
    moment: float
    end: int
    """Offset in the node's log after this line."""
    line: LogLine


@attrs.frozen
class _Tail:
    """What one node wrote beyond the cursor."""

    lines: tuple[_Line, ...]
    serial: int
    """Where to read its serial port on, once all lines are shown."""
    missed: int = 0


@attrs.frozen(kw_only=True)
class Logs:
    """Reads the logs of jobs."""

    calls: Calls
    bucket: BucketPrefix
    stored: Objects
    now: Callable[[], float]

    def read(self, gang: VmNames, cursor: str, *, is_over: bool) -> LogPage:
        """The next page.

        Args:
            cursor: ``attempt/serial.offset,serial.offset...``, one pair a node; empty: the beginning.
            is_over: the present attempt writes no more.
        """
        attempt, at = _read_cursor(cursor, gang.most)
        is_past = is_over or attempt < gang.attempt
        settled = float("inf") if is_past else self.now() - SETTLES_S
        tails = [
            self._of_log(gang, attempt, rank, offset)
            if is_past
            else self._of_serial(gang, rank, serial, offset)
            for rank, (serial, offset) in enumerate(at)
        ]
        shown: list[tuple[float, int, _Line]] = []
        after = []
        for rank, tail in enumerate(tails):
            ready = [one for one in tail.lines if one.moment <= settled]
            shown += [(one.moment, rank, one) for one in ready]
            is_drained = len(ready) == len(tail.lines)
            offset = max([at[rank][1], *(one.end for one in ready)])
            after.append((tail.serial if is_drained else at[rank][0], offset))
        shown.sort(key=lambda entry: (entry[0], entry[1], entry[2].end))
        if not shown and attempt < gang.attempt:
            beginning = ",".join(["0.0"] * len(at))
            return self.read(gang, f"{attempt + 1}/{beginning}", is_over=is_over)
        return LogPage(
            lines=tuple(one.line for _, _, one in shown),
            cursor=f"{attempt}/" + ",".join(f"{serial}.{offset}" for serial, offset in after),
            missed_bytes=sum(tail.missed for tail in tails if tail.lines),
        )

    def _of_log(self, gang: VmNames, attempt: int, rank: int, offset: int) -> _Tail:
        name = JobObjects(bucket=self.bucket, job_id=gang.job_id).log(attempt, rank)
        stored = self.stored.read(name)
        data = (stored.content if stored else b"")[offset:]
        lines, moment = [], 0.0
        for raw in lines_of(data):
            offset += len(raw)
            line = read_line(raw.decode("utf-8", "backslashreplace").rstrip("\n"), rank)
            moment = max(moment, _seconds(line.time))
            lines.append(_Line(moment, offset, line))
        return _Tail(tuple(lines), 0)

    def _of_serial(self, gang: VmNames, rank: int, serial: int, offset: int) -> _Tail:
        if rank >= len(gang.names):  # a node that the job goes on without
            return _Tail((), serial)
        try:
            answer = self.calls.serial(gang.zone, gang.names[rank], serial)
        except MissingError:  # not there yet, or gone: its log object comes
            return _Tail((), serial)
        text = str(answer.get("contents", ""))
        lines, moment, begin, missed = [], 0.0, offset, 0
        for found in _MARK.finditer(text):
            end = int(found[1])
            if end <= begin:
                continue
            size = len(found[2].encode("utf-8", "surrogateescape")) + 1
            missed += max(0, end - size - begin) if "\ufffd" not in found[2] else 0
            line = read_line(found[2], rank)
            moment, begin = max(moment, _seconds(line.time)), end
            lines.append(_Line(moment, end, line))
        is_whole = text.endswith("\n") or not text
        following = int(answer.get("next", serial)) if is_whole else serial
        return _Tail(tuple(lines), following, missed)


def _read_cursor(cursor: str, nodes: int) -> tuple[int, list[tuple[int, int]]]:
    found = re.fullmatch(r"(\d+)/((?:\d+\.\d+,?)*)", cursor)
    pairs = [pair.split(".") for pair in found[2].split(",") if pair] if found else []
    if found is None or len(pairs) != nodes:
        return 0, [(0, 0)] * nodes
    return int(found[1]), [(int(serial), int(offset)) for serial, offset in pairs]


def _seconds(moment: datetime | None) -> float:
    return moment.timestamp() if moment else 0.0
