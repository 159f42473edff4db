"""The log of one node: a file on its own disk, and its parts in the folder of its attempt.

A part, ``logs/RANK-OFFSET``, is named by where it begins in the node's log. It is written again with what was
added, until it holds `PART_BYTES`; then the next one begins where it ends. So a reader knows the name of the
next part, few objects hold a long log, and a finished part never changes.
"""

from __future__ import annotations

import json
import os
import sys
import threading
from collections.abc import Callable
from typing import Any

from gputrain.entrypoint.cloud import Bucket
from gputrain.entrypoint.contract import LOG_PART, LOG_PART_BYTES

MOST_BYTES = 4 << 20
"""Of one part, of a node that writes much between two looks."""


class NodeLog:
    """What one node writes, in whole lines."""

    def __init__(self, home: str, rank: int) -> None:
        self.home = home
        self.lost_lines = 0
        self.last = b""
        """The last line that an agent wrote."""
        self._rank = rank
        self.path = os.path.join(home, "node.log")
        self._file = open(self.path, "ab", buffering=0)  # noqa: SIM115  # until the end
        self._size = self._first = os.path.getsize(self.path)
        self._begins_at: int | None = None
        """Where the file begins in the node's log: a container that is started again has another file."""
        self._part_at, self._part = 0, b""
        self._writing = threading.Lock()

    def say(self, message: str, severity: str = "INFO") -> None:
        """A line of the supervisor's own, which its machine's console shows too."""
        line = {"severity": severity, "message": "gputrain: " + message, "node": self._rank}
        self._write(json.dumps(line).encode() + b"\n")
        sys.stderr.write(f"gputrain: {message}\n")

    def hear(self, lines: bytes) -> None:
        """Whole lines of an agent's."""
        self.last = lines.rstrip(b"\n").rpartition(b"\n")[2]
        self._write(lines)

    def _write(self, lines: bytes) -> None:
        with self._writing:
            try:
                taken = self._file.write(lines) or 0
            except OSError:
                taken = 0
            self._size += taken
            self.lost_lines += lines[taken:].count(b"\n")  # a full disk: the ranks keep running

    @property
    def has_more(self) -> bool:
        """Whether something has not been sent yet."""
        return self._begins_at is None or self._begins_at + self._size > self._part_at + len(self._part)

    def send(self, bucket: Bucket, folder: str) -> None:
        """Send what is new. Raises OSError or ValueError: the rest comes with the next call."""
        if self._begins_at is None:
            self._resume(bucket, folder)
        assert self._begins_at is not None
        while True:
            sent = self._part_at + len(self._part)
            data = self._read(sent - self._begins_at, MOST_BYTES - len(self._part))
            if not data:
                return
            part = self._part + data
            bucket.put(folder + LOG_PART.format(node_rank=self._rank, offset=self._part_at), part)
            is_full = len(part) >= LOG_PART_BYTES
            self._part_at, self._part = (self._part_at + len(part), b"") if is_full else (self._part_at, part)

    def _resume(self, bucket: Bucket, folder: str) -> None:
        """Continue after what an earlier start of this node has sent."""
        prefix = folder + LOG_PART.partition("{offset")[0].format(node_rank=self._rank)
        last = max(bucket.list(prefix), default="")
        if last:
            self._part_at, self._part = int(last[len(prefix) :]), bucket.get(last) or b""
        sent = self._part_at + len(self._part)
        if len(self._part) >= LOG_PART_BYTES:
            self._part_at, self._part = sent, b""
        self._begins_at = 0 if self._first else sent

    def _read(self, offset: int, most: int) -> bytes:
        with open(self.path, "rb") as file:
            file.seek(offset)
            data = file.read(min(most, self._size - offset))
        return data[: data.rfind(b"\n") + 1] or data


def follow(
    take: Callable[[bytes], Any], ended: Callable[[], Any] = lambda: None
) -> tuple[int, threading.Thread]:
    """A file for children to write into, and the thread that takes whole lines until all have closed it."""
    read, write = os.pipe()

    def run() -> None:
        rest = b""
        while data := os.read(read, 1 << 16):
            lines, end, rest = (rest + data).rpartition(b"\n")
            if end:
                take(lines + end)
        if rest:
            take(rest + b"\n")
        os.close(read)
        ended()

    thread = threading.Thread(target=run, name="gputrain-lines", daemon=True)
    thread.start()
    return write, thread
