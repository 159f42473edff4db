"""Log lines of all nodes: from the serial ports while they run, from the whole log objects afterwards.

The guest writes each line to its log and, after the offset at which it ends there, to the serial port. So
both are one stream with one count: no line is shown twice, and what fell out of the serial port's ring is
known by the byte.
"""

from __future__ import annotations

import re
from collections.abc import Callable, Sequence

import attrs

from gputrain.backends.agent_reports import read_line
from gputrain.backends.base import LogPage
from gputrain.backends.compute.calls import Calls
from gputrain.backends.log_merge import USUAL_BYTES, Tail, merged, stamped
from gputrain.google import MissingError
from gputrain.google.storage import Objects

SETTLES_S = 1.0
"""How long a line may be under way from its stamp to the serial port, in which it is seen."""

CHUNK_BYTES = 1_000_000
"""How much of a node's log one page reads: a page stays small, however much a rank writes."""

_MARK = re.compile(r"gputrain:(\d{1,18}):(.*?)\r?\n")


@attrs.frozen
class _PortTail(Tail):
    """What a node's serial port has beyond the cursor."""

    serial: int = 0
    """Where to read it on, once all lines are shown."""
    missed: int = 0


@attrs.frozen(kw_only=True)
class LogFolder:
    """Where the nodes of a job write, attempt by attempt, and the VMs that do so now."""

    prefix: str
    """What precedes an attempt in the name of its folder."""
    attempts: tuple[str, ...]
    """Those that may have written, the present one last."""
    zone: str
    names: tuple[str, ...]
    """Of the VMs of the present one, by node rank."""
    most: int
    """How many nodes the largest of them had."""

    def log(self, attempt: str, rank: int) -> str:
        """The object with all that one node wrote."""
        return f"{self.prefix}{attempt}/node-{rank}.log"


@attrs.define(kw_only=True, eq=False)
class Logs:
    """Reads the logs of jobs."""

    calls: Calls
    stored: Objects
    now: Callable[[], float]

    def read(self, folder: LogFolder, cursor: str, *, is_over: bool) -> LogPage:
        """The next page.

        Args:
            cursor: ``attempt/serial.offset,serial.offset...``, one pair a node; empty: the beginning.
            is_over: the present attempt writes no more.
        """
        first, at = _read_cursor(cursor, folder)
        page = self._page(folder, folder.attempts[first], at, is_over=is_over)
        for attempt in folder.attempts[first + 1 :]:
            if page.lines:
                break
            page = self._page(folder, attempt, [(0, 0)] * len(at), is_over=is_over)
        return page

    def _page(
        self, folder: LogFolder, attempt: str, at: Sequence[tuple[int, int]], *, is_over: bool
    ) -> LogPage:
        is_past = is_over or attempt != folder.attempts[-1]
        settled = float("inf") if is_past else self.now() - SETTLES_S
        tails = [
            self._of_log(folder, attempt, rank, offset)
            if is_past
            else self._of_serial(folder, rank, serial, offset)
            for rank, (serial, offset) in enumerate(at)
        ]
        shown = merged(tails, settled)
        ends = {one.node_rank: one.end for one in shown}
        after = []
        for rank, (tail, (serial, offset)) in enumerate(zip(tails, at)):
            end = ends.get(rank, 0)
            is_drained = not tail.entries or tail.entries[-1].end == end
            following = tail.serial if isinstance(tail, _PortTail) else 0
            after.append((following if is_drained else serial, max(offset, end)))
        return LogPage(
            lines=tuple(one.line for one in shown),
            cursor=f"{attempt}/" + ",".join(f"{serial}.{offset}" for serial, offset in after),
            missed_bytes=sum(one.missed for one in tails if isinstance(one, _PortTail) and one.entries),
        )

    def near_end(self, folder: LogFolder, lines: int, *, is_over: bool) -> str:
        """A cursor for `read` after which about so many lines of each node are left, or all of a serial
        port; empty where the present attempt is to be read from its beginning, or holds fewer."""
        ranks, lines, attempt = range(folder.most), max(1, lines), folder.attempts[-1]
        if is_over:
            offsets = [self._near_end(folder.log(attempt, rank), lines) for rank in ranks]
        else:
            offsets = [self._ports_begin(folder, rank) for rank in ranks]
        return f"{attempt}/" + ",".join(f"0.{offset}" for offset in offsets) if any(offsets) else ""

    def _near_end(self, name: str, lines: int) -> int:
        """Where the last lines of a log begin."""
        stored = self.stored.stat(name)
        offset = max(0, (stored.size if stored else 0) - lines * USUAL_BYTES)
        return offset and offset + self.stored.read_range(name, offset, CHUNK_BYTES).find(b"\n") + 1

    def _ports_begin(self, folder: LogFolder, rank: int) -> int:
        """Where in a node's log the first line begins that its serial port still has."""
        found = _MARK.search(self._serial(folder, rank, 0)[0])
        return 0 if found is None else int(found[1]) - _size(found[2])

    def _of_log(self, folder: LogFolder, attempt: str, rank: int, offset: int) -> Tail:
        name, size, data = folder.log(attempt, rank), CHUNK_BYTES, b""
        while b"\n" not in data and len(data) == size - CHUNK_BYTES:
            data += self.stored.read_range(name, offset + len(data), CHUNK_BYTES)
            size += CHUNK_BYTES
        has_more = b"\n" in data and len(data) == size - CHUNK_BYTES
        data = data[: data.rfind(b"\n") + 1] if has_more else data
        return Tail.of(data, rank, offset, self.now() + SETTLES_S, has_more=has_more)

    def _serial(self, folder: LogFolder, rank: int, serial: int) -> tuple[str, int]:
        """What a node's port has from there on, and where it goes on."""
        if rank >= len(folder.names):  # a node that the job goes on without
            return "", serial
        try:
            answer = self.calls.serial(folder.zone, folder.names[rank], serial)
        except MissingError:  # not there yet, or gone: its log object comes
            return "", serial
        return str(answer.get("contents", "")), int(answer.get("next", serial))

    def _of_serial(self, folder: LogFolder, rank: int, serial: int, offset: int) -> _PortTail:
        text, following = self._serial(folder, rank, serial)
        lines, missed = [], 0
        for found in _MARK.finditer(text):
            end = int(found[1])
            if end <= offset:
                continue
            missed += max(0, end - _size(found[2]) - offset) if "\ufffd" not in found[2] else 0
            lines.append((end, read_line(found[2], rank)))
            offset = end
        entries = tuple(stamped(lines, rank, self.now() + SETTLES_S))
        is_whole = text.endswith("\n") or not text
        return _PortTail(entries, serial=following if is_whole else serial, missed=missed)


def _size(text: str) -> int:
    return len(text.encode("utf-8", "surrogateescape")) + 1


def _read_cursor(cursor: str, folder: LogFolder) -> tuple[int, list[tuple[int, int]]]:
    """The attempt, by its place among those that wrote, and the offsets of its nodes."""
    found = re.fullmatch(r"([a-z0-9]{1,18})/((?:\d{1,18}\.\d{1,18},?)*)", cursor)
    pairs = [pair.split(".") for pair in found[2].split(",") if pair] if found else []
    begin = [(0, 0)] * folder.most
    if found is None or len(pairs) != folder.most:
        return 0, begin
    if found[1] not in folder.attempts:  # it never ran, and another has taken its place
        return len(folder.attempts) - 1, begin
    return folder.attempts.index(found[1]), [(int(serial), int(offset)) for serial, offset in pairs]
