"""The pump: carries what the ranks write to the agent's own stdout and to a log file per rank.

It runs in a thread of its own, and its writes block: a slow reader slows the ranks down, as a pipe would,
loses nothing, and never holds up the agent.
"""

from __future__ import annotations

import collections
import contextlib
import errno
import json
import os
import select
import selectors
import threading
import time

from . import contract
from .lines import Lines, Severity, as_json, as_text, timestamp

TYPE_CHECKING = False
if TYPE_CHECKING:
    from typing import Any, BinaryIO, Callable, Deque, Dict, List, Optional

KEPT_LINES = 30
"""How many of a rank's last lines are kept for its error document."""

STUCK_S = 60.0
"""How long the agent's end waits for a reader that takes nothing at all."""


class _Stream:
    def __init__(self, rank: int, fd: int, is_stderr: bool) -> None:
        self.rank = rank
        self.fd = fd
        self.lines = Lines()
        self.severity = Severity(is_stderr)


class Pump:
    """Everything the agent writes to stdout goes through here, in whole lines."""

    def __init__(self, log_format: str, log_dir: str, speaker: int, out: int = 1) -> None:
        self._is_json = log_format == "json"
        self._log_dir = log_dir
        self._speaker = speaker
        self._out = out
        self._selector = selectors.DefaultSelector()
        self._wake, self._waker = os.pipe()
        os.set_blocking(self._wake, False)
        os.set_blocking(self._waker, False)
        self._selector.register(self._wake, selectors.EVENT_READ)
        self._inbox: Deque[bytes] = collections.deque()
        self._joining: Deque[_Stream] = collections.deque()
        self._streams: Dict[int, int] = {}
        self._files: Dict[int, Optional[BinaryIO]] = {}
        self._tails: Dict[int, Deque[str]] = {}
        self._on_end: Callable[[], Any] = lambda: None
        self._finishing = self._has_failed = False
        self._out_is_broken = self._is_torn = False
        self.lost_lines = 0
        self._moved_at = self.heard_at = time.monotonic()
        self._thread = threading.Thread(target=self._run, name="gputrain-logs", daemon=True)
        self._thread.start()

    def adopt(self, rank: int, stdout: int, stderr: int) -> None:
        """Carry a rank's two streams from now on."""
        self._streams[rank] = 2
        self._tails[rank] = collections.deque(maxlen=KEPT_LINES)
        for fd, is_stderr in ((stdout, False), (stderr, True)):
            os.set_blocking(fd, False)
            self._joining.append(_Stream(rank, fd, is_stderr))
        self._nudge()

    def call_when_a_rank_falls_silent(self, call: Callable[[], Any]) -> None:
        """In the pump's thread, when a rank's streams have ended."""
        self._on_end = call

    def is_silent(self, rank: int) -> bool:
        """Whether everything the rank wrote has been read and both its streams have ended."""
        return self._streams.get(rank, 0) == 0

    def tail(self, rank: int) -> List[str]:
        """The rank's last lines, oldest first."""
        tail = self._tails.get(rank)
        return list(tail.copy()) if tail else []  # the pump's thread may add to it meanwhile

    def say(self, message: str, severity: str = "INFO") -> None:
        """Write a message of the agent's own."""
        if self._is_json:
            entry = {"severity": severity, "message": message, "node": self._speaker}
            text = json.dumps({**entry, "time": timestamp(time.time())})
        else:
            text = "\n".join(f"[node {self._speaker}] {line}" for line in message.splitlines())
        self.write(text.encode("utf-8", "backslashreplace"))

    def write(self, line: bytes) -> None:
        """Write a line as it is."""
        self._inbox.append(line)
        self._nudge()

    def finish(self) -> None:
        """Write what is left and end, or give up on a reader that takes nothing for STUCK_S."""
        self._finishing = True
        self._moved_at = time.monotonic()
        self._nudge()
        while self._thread.is_alive() and time.monotonic() - self._moved_at < STUCK_S:
            self._thread.join(0.5)

    def _nudge(self) -> None:
        with contextlib.suppress(BlockingIOError):
            os.write(self._waker, b"x")

    def _run(self) -> None:
        for _ in range(2):  # the second time it only reads, so that no rank waits for room in its pipe
            try:
                while not self._turn():
                    pass
                return
            except Exception as error:  # noqa: BLE001, PERF203  # a thread's top: the job goes on without a log
                self._has_failed = True
                with contextlib.suppress(OSError):
                    os.write(2, f"gputrain: the log pump failed: {error!r}\n".encode())
        for key in list(self._selector.get_map().values()):
            if key.data is not None:  # the agent still speaks to us, heard or not
                with contextlib.suppress(OSError):
                    os.close(key.fd)

    def _turn(self) -> bool:
        """Read and write; True when all is written and the end was asked for."""
        ready = self._selector.select()
        with contextlib.suppress(BlockingIOError):
            os.read(self._wake, 65536)
        is_last = self._finishing  # asked after the nudges are taken: the one of the end is not lost so
        while self._joining:
            stream = self._joining.popleft()
            self._selector.register(stream.fd, selectors.EVENT_READ, stream)
        streams = [
            key.data for key in (self._selector.get_map().values() if is_last else [k for k, _ in ready])
        ]
        for stream in [stream for stream in streams if stream is not None]:
            self._read(stream, to_the_end=is_last)
        while self._inbox:
            self._put(self._inbox.popleft() + b"\n")
        return is_last

    def _read(self, stream: _Stream, to_the_end: bool) -> None:
        while True:
            try:
                data = os.read(stream.fd, 65536)
            except BlockingIOError:
                break
            if not data:
                self._emit(stream, stream.lines.flush())
                self._drop(stream)
                return
            self._emit(stream, stream.lines.feed(data, time.monotonic()))
            if not to_the_end:
                return
        if to_the_end:
            self._emit(stream, stream.lines.flush())

    def _drop(self, stream: _Stream) -> None:
        self._selector.unregister(stream.fd)
        os.close(stream.fd)
        self._streams[stream.rank] -= 1
        if self._streams[stream.rank] == 0:
            self._on_end()

    def _emit(self, stream: _Stream, lines: List[bytes]) -> None:
        if not lines or self._has_failed:
            self.lost_lines += len(lines)
            return
        rank = stream.rank
        self.heard_at = time.monotonic()
        last = [line[-400:].decode("utf-8", "backslashreplace") for line in lines[-KEPT_LINES:]]
        self._tails[rank].extend(last)
        self._log(rank, lines)
        if self._is_json:
            now = timestamp(time.time())
            shown = [as_json(line, rank, stream.severity.of(line), now) for line in lines]
        else:
            shown = [as_text(line, rank) for line in lines]
        self._put(b"\n".join(shown) + b"\n")

    def _log(self, rank: int, lines: List[bytes]) -> None:
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
        """Write whole lines; those that a full disk or a gone reader does not take are counted."""
        view = memoryview(b"\n" + data if self._is_torn else data)
        while view and not self._out_is_broken:
            try:
                written = os.write(self._out, view)
            except BlockingIOError:
                select.select([], [self._out], [], 1.0)
                continue
            except OSError as error:
                self._out_is_broken = error.errno not in (errno.ENOSPC, errno.EDQUOT)
                break
            self._moved_at = time.monotonic()
            self._is_torn = view[written - 1] != ord("\n")
            view = view[written:]
        self.lost_lines += bytes(view).count(b"\n")
