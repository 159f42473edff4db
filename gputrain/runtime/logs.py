"""Forwards what the ranks write to the agent's own stdout and to a log file of each rank.

A thread of its own reads and writes. Its writes block, so a slow reader slows the ranks down as a pipe would
and loses nothing, while the agent itself keeps running.
"""

from __future__ import annotations

import collections
import contextlib
import json
import os
import re
import selectors
import threading
import time
from collections.abc import Callable
from typing import Any, BinaryIO

from . import contract
from .contract import LONGEST_LINE

KEPT_LINES = 200
"""How many of a rank's last lines are kept for its error document."""

STUCK_S = 60.0
"""How long the agent's end waits for the last lines to be taken."""

PROGRESS_EVERY_S = 5.0
"""How often a progress bar that redraws one line is shown."""

_RANK_PREFIX = re.compile(rb"^\[rank\d+\]: ?")
"""torch's excepthook puts it before the lines of a traceback, once there is a process group."""

_TRACEBACK = b"Traceback (most recent call last):"


class LogForwarder:
    """Everything that the agent writes to stdout goes through here, in whole lines.

    Args:
        on_end: is called in the forwarder's thread when a rank's streams have ended.
    """

    def __init__(self, log_format: str, log_dir: str, node_rank: int, on_end: Callable[[], Any]) -> None:
        self._is_json = log_format == "json"
        self._log_dir = log_dir
        self._node_rank = node_rank
        os.set_blocking(1, True)
        self._selector = selectors.DefaultSelector()
        self._wake, self._waker = os.pipe()
        for end in (self._wake, self._waker):
            os.set_blocking(end, False)
        self._selector.register(self._wake, selectors.EVENT_READ)
        self._messages: collections.deque[bytes] = collections.deque()
        self._new_streams: collections.deque[_Stream] = collections.deque()
        self._open_streams: dict[int, int] = {}
        self._files: dict[int, BinaryIO | None] = {}
        self._last_lines: dict[int, collections.deque[str]] = {}
        self._on_end = on_end
        self._finishing = False
        self.lost_lines = 0
        """Lines that a full disk or a gone reader did not take."""
        self.heard_at = time.monotonic()
        """When a rank wrote its last line."""
        self._thread = threading.Thread(target=self._run, name="gputrain-logs", daemon=True)
        self._thread.start()

    def adopt(self, rank: int, stdout: int, stderr: int) -> None:
        """Forward a rank's two streams from now on."""
        self._open_streams[rank] = 2
        self._last_lines[rank] = collections.deque(maxlen=KEPT_LINES)
        for fd, is_stderr in ((stdout, False), (stderr, True)):
            os.set_blocking(fd, False)
            self._new_streams.append(_Stream(rank, fd, is_stderr))
        self._nudge()

    def is_silent(self, rank: int) -> bool:
        """Whether everything the rank wrote has been read and both its streams have ended."""
        return self._open_streams.get(rank, 0) == 0

    def tail(self, rank: int) -> list[str]:
        """The rank's last lines, oldest first."""
        last = self._last_lines.get(rank)
        return list(last.copy()) if last else []  # the thread may add to it meanwhile

    def say(self, message: str, severity: str = "INFO") -> None:
        """Write a message of the agent's own."""
        if self._is_json:
            entry = {"severity": severity, "message": message, "node": self._node_rank}
            text = json.dumps({**entry, "time": timestamp(time.time())})
        else:
            text = "\n".join(f"[node {self._node_rank}] {line}" for line in message.splitlines())
        self.write(text.encode("utf-8", "backslashreplace"))

    def write(self, line: bytes) -> None:
        """Write a line as it is."""
        self._messages.append(line)
        self._nudge()

    def finish(self) -> None:
        """Write what is left and end, or give up on a reader that does not take it in time."""
        self._finishing = True
        self._nudge()
        self._thread.join(STUCK_S)

    def _nudge(self) -> None:
        with contextlib.suppress(BlockingIOError):
            os.write(self._waker, b"x")

    def _run(self) -> None:
        is_last = False
        while not is_last:
            ready = [key.data for key, _ in self._selector.select() if key.data]
            with contextlib.suppress(BlockingIOError):
                os.read(self._wake, 65536)
            is_last = self._finishing  # read after the nudges are: the one of the end is not lost so
            while self._new_streams:
                stream = self._new_streams.popleft()
                self._selector.register(stream.fd, selectors.EVENT_READ, stream)
            if is_last:
                ready = [key.data for key in self._selector.get_map().values() if key.data]
            for stream in ready:
                while self._read(stream) and is_last:
                    pass
                if is_last:
                    self._emit(stream, stream.lines.flush())
            while self._messages:
                self._put(self._messages.popleft() + b"\n")

    def _read(self, stream: _Stream) -> bool:
        """Forward what is there; whether there may be more."""
        try:
            data = os.read(stream.fd, 65536)
        except BlockingIOError:
            return False
        if data:
            self._emit(stream, stream.lines.feed(data, time.monotonic()))
            return True
        self._emit(stream, stream.lines.flush())
        self._selector.unregister(stream.fd)
        os.close(stream.fd)
        self._open_streams[stream.rank] -= 1
        if self.is_silent(stream.rank):
            self._on_end()
        return False

    def _emit(self, stream: _Stream, lines: list[bytes]) -> None:
        if not lines:
            return
        rank = stream.rank
        self.heard_at = time.monotonic()
        last = [line[-400:].decode("utf-8", "backslashreplace") for line in lines[-KEPT_LINES:]]
        self._last_lines[rank].extend(last)
        self._log(rank, lines)
        if self._is_json:
            now = timestamp(time.time())
            shown = [as_json(line, rank, stream.severity.of(line), now) for line in lines]
        else:
            shown = [as_text(line, rank) for line in lines]
        self._put(b"\n".join(shown) + b"\n")

    def _log(self, rank: int, lines: list[bytes]) -> None:
        """Add lines to the rank's own log file, if there is one."""
        if not self._log_dir:
            return
        try:
            if rank not in self._files:
                path = os.path.join(self._log_dir, contract.RANK_LOG_FILE.format(rank=rank))
                self._files[rank] = open(path, "ab", buffering=0)  # noqa: SIM115  # open as long as the rank runs
            log = self._files[rank]
            if log is not None:
                log.write(b"\n".join(lines) + b"\n")
        except OSError as error:
            self._files[rank] = None
            self.say(f"rank {rank} goes without a log file from here on: {error}", "WARNING")

    def _put(self, data: bytes) -> None:
        view = memoryview(data)
        try:
            while view:
                view = view[os.write(1, view) :]
        except OSError:  # a full disk, or a closed pipe
            self.lost_lines += bytes(view).count(b"\n")


class _Stream:
    def __init__(self, rank: int, fd: int, is_stderr: bool) -> None:
        self.rank = rank
        self.fd = fd
        self.lines = Lines()
        self.severity = Severity(is_stderr)


class Lines:
    """Cuts one stream into lines, keeps a bounded rest, thins out progress bars."""

    def __init__(self) -> None:
        self._rest = b""
        self._shown_at = 0.0

    def feed(self, data: bytes, now: float) -> list[bytes]:
        """The lines that are complete now, without their ends."""
        data = self._rest + data
        *lines, self._rest = data.split(b"\n")
        if b"\r" in data:
            lines = [_last_drawn(line) for line in lines] + self._progress(now)
        *pieces, self._rest = _pieces(self._rest)
        return [piece for line in lines for piece in _pieces(line)] + pieces

    def _progress(self, now: float) -> list[bytes]:
        """What the unfinished line shows, if that is due; a drawing that may continue is kept."""
        *drawn, last = self._rest.rstrip(b"\r").split(b"\r")
        self._rest = last + b"\r" * self._rest.endswith(b"\r")
        shown = [one for one in drawn if one.strip()][-1:]
        if not shown or now - self._shown_at < PROGRESS_EVERY_S:
            return []
        self._shown_at = now
        return shown

    def flush(self) -> list[bytes]:
        """The last line, if it has no end."""
        rest, self._rest = self._rest, b""
        return [_last_drawn(rest)] if rest else []


def _last_drawn(line: bytes) -> bytes:
    """What a terminal shows of a line that was redrawn with carriage returns."""
    return next((part for part in reversed(line.split(b"\r")) if part.strip()), b"")


def _pieces(line: bytes) -> list[bytes]:
    """No longer than the limit, and cut between characters."""
    pieces = []
    while len(line) > LONGEST_LINE:
        cut = LONGEST_LINE
        while cut > LONGEST_LINE - 4 and line[cut] & 0xC0 == 0x80:
            cut -= 1
        pieces.append(line[:cut])
        line = line[cut:]
    return [*pieces, line]


class Severity:
    """The severity of each line of one stream.

    stdout is INFO. stderr is WARNING, as progress bars, warnings and the logging module write there; only the
    lines of a Python traceback are ERROR.
    """

    def __init__(self, is_stderr: bool) -> None:
        self._usual = "WARNING" if is_stderr else "INFO"
        self._in_traceback = False

    def of(self, line: bytes) -> str:
        """The severity of the stream's next line."""
        line = _RANK_PREFIX.sub(b"", line) if line.startswith(b"[rank") else line
        if line.startswith(_TRACEBACK):
            self._in_traceback = True
            return "ERROR"
        if not self._in_traceback:
            return self._usual
        self._in_traceback = line.startswith((b" ", b"\t"))
        return "ERROR"


def as_text(line: bytes, rank: int) -> bytes:
    """A rank's line with its rank in front; JSON stays bare, for the platform."""
    return line if line.startswith(b"{") else b"[%d] %s" % (rank, line)


def as_json(line: bytes, rank: int, severity: str, at: str) -> bytes:
    """A rank's line as one JSON object; a structured line keeps its fields."""
    entry = _structured(line) if line.startswith(b"{") else None
    if entry is not None:
        return json.dumps({**entry, "rank": rank}).encode()
    message = json.dumps(line.decode("utf-8", "backslashreplace"))  # by hand: there may be 25,000 a second
    return f'{{"severity": "{severity}", "message": {message}, "rank": {rank}, "time": "{at}"}}'.encode()


def _structured(line: bytes) -> dict[str, Any] | None:
    try:
        entry: dict[str, Any] = json.loads(line.decode(), parse_constant=str)  # NaN is no JSON: a text
    except (ValueError, RecursionError):
        return None
    return entry if "severity" in entry or "message" in entry else None


def timestamp(seconds: float) -> str:
    """A moment in RFC 3339, UTC, to the microsecond."""
    whole, micros = divmod(int(seconds * 1_000_000), 1_000_000)
    return time.strftime("%Y-%m-%dT%H:%M:%S", time.gmtime(whole)) + f".{micros:06d}Z"
