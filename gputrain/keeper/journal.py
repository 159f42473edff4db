"""What a node wrote: a log on its own disk, shown on its serial port as it comes.

The port is the console of the boot image, which anything may break or slow down. A slow port would slow the
ranks down, one that takes nothing would hold them up, and a login prompt hangs up whoever writes. So lines
are cut, a thread of its own writes them, and a port that is broken or stuck is the end of showing, not of the
job. The log in the bucket has it all.
"""

from __future__ import annotations

import collections
import json
import os
import re
import threading
import time

TYPE_CHECKING = False
if TYPE_CHECKING:
    from typing import Any, Callable, Deque, List, Tuple


_OF_RANK = re.compile(r"[A-Za-z0-9._-]+")
"""A log as agents name it; ranks may have left anything beside."""


class Journal:
    """The log of one node. It is the truth; the serial port is where it can be seen at once."""

    def __init__(self, home: str, rank: int) -> None:
        self.home = home
        self.lost_lines = 0
        self.last = b""
        """The last line that an agent wrote."""
        self.ranks = os.path.join(home, "ranks")
        """Where each rank's own log lies."""
        self.serial = Serial()
        self._rank = rank
        self._path = os.path.join(home, "agent.log")
        self._log = open(self._path, "ab", buffering=0)  # noqa: SIM115  # until the end
        self.offset = os.path.getsize(self._path)
        self._writing = threading.Lock()

    def say(self, message: str, severity: str = "INFO") -> None:
        """A line of the keeper's own, in the log as well."""
        line = {"severity": severity, "message": "gputrain: " + message, "node": self._rank}
        self._write(json.dumps(line).encode() + b"\n")

    def hear(self, line: bytes) -> None:
        """A line of an agent's."""
        self.last = line
        self._write(line)

    def _write(self, line: bytes) -> None:
        with self._writing:
            try:
                taken = self._log.write(line) or 0
            except OSError:
                taken = 0
            self.offset += taken
            if taken < len(line):  # a full disk: the ranks go on, and the end says what is missing
                self.lost_lines += 1
            self.serial.show(line.rstrip(b"\n"), self.offset)

    def files(self) -> List[Tuple[str, str]]:
        """What belongs into the bucket, each with its name there: the log, and each rank's own.

        Ranks may make anything there, and take it away: only a file has an end.
        """
        try:
            names = sorted(filter(_OF_RANK.fullmatch, os.listdir(self.ranks)))
        except OSError:
            names = []
        paths = [os.path.join(self.ranks, name) for name in names]
        return [
            (self._path, f"node-{self._rank}.log"),
            *((path, name) for path, name in zip(paths, names) if os.path.isfile(path)),
        ]


def follow(
    take: Callable[[bytes], Any], ended: Callable[[], Any] = lambda: None
) -> Tuple[int, threading.Thread]:
    """A file for children to write into, and the thread that takes each line until all have closed it."""
    read, write = os.pipe()

    def run() -> None:
        with open(read, "rb") as lines:
            for line in lines:
                take(line)
        ended()

    thread = threading.Thread(target=run, name="gputrain-lines", daemon=True)
    thread.start()
    return write, thread


CONSOLE = "/dev/console"
LONGEST = 16_000
"""Bytes of a line that is shown; beyond it there is the log."""

WAITING = 2_000
"""Lines that wait for a slow port."""

STUCK_S = 0.5
"""How long a line waits for a port that takes nothing; then the oldest lines are left out, until it does."""

LAST_S = 5.0
_CUT = " ... cut here; the whole line is in the log"


class Serial:
    """Shows lines, and never holds up who shows them.

    Args:
        out: a file descriptor; without one the console, or standard output where there is none.
    """

    def __init__(self, out: int | None = None) -> None:
        self._is_console = out is None
        self._out = console() if out is None else out
        self._lines: Deque[bytes] = collections.deque(maxlen=WAITING)
        self._has_more = threading.Event()
        self.is_broken = False
        self._is_writing = self._is_stuck = False
        threading.Thread(target=self._run, name="gputrain-serial", daemon=True).start()

    def show(self, line: bytes, offset: int) -> None:
        """Show a line of the log, after the offset at which it ends there."""
        until = time.monotonic() + STUCK_S
        while len(self._lines) >= WAITING and not self.is_broken and not self._is_stuck:
            self._is_stuck = time.monotonic() > until
            time.sleep(0.002)
        self._lines.append(b"gputrain:%d:%s\n" % (offset, short(line)))
        self._has_more.set()

    def flush(self) -> None:
        """Wait for the lines so far, but not for a port that takes none."""
        until = time.monotonic() + LAST_S
        while (self._lines or self._is_writing) and not self.is_broken and time.monotonic() < until:
            time.sleep(0.01)

    def _run(self) -> None:
        while not self.is_broken:
            self._has_more.wait()
            self._has_more.clear()
            self._is_writing = True
            while self._lines:
                self._write(self._lines.popleft())
            self._is_writing = False

    def _write(self, line: bytes) -> None:
        left = self._rest_of(line)
        if left and self._is_console:  # a login prompt that began on it has hung it up
            self._out = console()
            left = self._rest_of(left)
        self.is_broken = bool(left)

    def _rest_of(self, line: bytes) -> bytes:
        """What of a line the port did not take."""
        try:
            while line:
                line = line[os.write(self._out, line) :]
                self._is_stuck = False
        except OSError:
            return line
        return b""


def console() -> int:
    """A descriptor of the console, or standard output."""
    try:
        return os.open(CONSOLE, os.O_WRONLY | os.O_NOCTTY)
    except OSError:
        return 1


def short(line: bytes) -> bytes:
    """A line as it is shown: whole, or cut, and an object of the agent's with its text cut.

    >>> short(b"step 1")
    b'step 1'
    """
    if len(line) <= LONGEST:
        return line
    try:
        entry = json.loads(line.decode())
        entry["message"] = str(entry["message"])[: LONGEST // 8] + _CUT  # \\uXXXX takes six bytes
        told = json.dumps(entry).encode()
    except (ValueError, KeyError, TypeError, RecursionError):
        told = line
    return told if len(told) <= LONGEST + len(_CUT) else line[:LONGEST] + _CUT.encode()
