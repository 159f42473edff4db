"""What a node wrote: a log on its own disk, shown on its serial port as it comes."""

from __future__ import annotations

import json
import os
import threading

from .serial import Serial

TYPE_CHECKING = False
if TYPE_CHECKING:
    from typing import Any, Callable, List, Tuple


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
        """What belongs into the bucket, each with its name there: the log, and each rank's own."""
        names = os.listdir(self.ranks) if os.path.isdir(self.ranks) else []
        return [
            (self._path, f"node-{self._rank}.log"),
            *((os.path.join(self.ranks, name), name) for name in sorted(names)),
        ]


def follow(take: Callable[[bytes], Any]) -> Tuple[int, threading.Thread]:
    """A file for children to write into, and the thread that takes each line until all have closed it."""
    read, write = os.pipe()

    def run() -> None:
        with open(read, "rb") as lines:
            for line in lines:
                take(line)

    thread = threading.Thread(target=run, name="gputrain-lines", daemon=True)
    thread.start()
    return write, thread
