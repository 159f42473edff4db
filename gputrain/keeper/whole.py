"""Which files of a folder are whole: closed by whoever wrote them, and not by the death of their writer.

A file that is written is not whole, nor is one that its writer left behind when it was killed: half of a
checkpoint in the place of the last good one would be the end of the run.
"""

from __future__ import annotations

import contextlib
import errno
import fcntl
import os
import re
import signal
import time

TYPE_CHECKING = False
if TYPE_CHECKING:
    from typing import Any, Dict, Tuple

SETTLE_S = 5.0
"""How long a file is left alone after it was closed. A process that is killed closes its files before the
agent hears of its end: one with much memory, and GPUs, may take seconds for that."""

STEP = re.compile(r"(?:^|/)step-\d{12}/")
"""Below a step of `gputrain.ddp`: its marker vouches for all files of it, and the ranks wait for it."""

MARKER = "COMPLETE"
UNDER_WAY_S = 60.0
"""How long after its last file a step without a marker is taken for one that is under way."""

GONE = (errno.ENOENT, errno.ENOTDIR, errno.ELOOP)
"""A file system's words for what is not there any more, or no plain file."""

TICK_S = 0.1
"""How much later than the signal a process that does not handle it may seem to have written."""


class Wholeness:
    """Judges files by what is seen of them round by round.

    Args:
        killed: the file in which the agent notes when a rank was killed.
        is_strict: whether what a killed process left is held back at the end as well.
    """

    def __init__(self, killed: str, is_strict: bool) -> None:
        self._killed, self._is_strict = killed, is_strict
        self._closed: Dict[str, Tuple[Any, float]] = {}
        """Path -> what it was when it was seen closed, and since when it has been that."""

    def may_go(self, path: str, full: str, stamp: Any, is_last: bool) -> bool:
        """Whether a file that has changed may be sent now. ``is_last``: nobody is left who writes."""
        if is_last and not self._is_strict:
            return True
        if not self.is_closed(path, full, stamp):
            return False
        if STEP.search(path):
            return True
        since = self._closed[path][1]
        killed_at, written_at = self._killed_at(), stamp[2] / 1e9
        if written_at <= killed_at + TICK_S and since > killed_at - SETTLE_S:
            return False
        return is_last or time.time() - since >= SETTLE_S

    def is_closed(self, path: str, full: str, stamp: Any) -> bool:
        """Whether nobody writes a file, which is noted: since when it has been what it is."""
        if is_written(full):
            self._closed.pop(path, None)
            return False
        if self._closed.get(path, (None, 0.0))[0] != stamp:
            self._closed[path] = stamp, time.time()
        return True

    def _killed_at(self) -> float:
        with contextlib.suppress(OSError), open(self._killed) as file:
            try:
                return max(float(line) for line in file)
            except ValueError:  # a full disk took no word of it
                return os.fstat(file.fileno()).st_mtime
        return 0.0


def is_under_way(here: Dict[str, Any]) -> bool:
    """Whether a step is being saved: of the files here it has some of late, and no marker."""
    newest: Dict[str, float] = {}
    for path, stamp in here.items():
        if STEP.search(path):
            step = os.path.dirname(path)
            newest[step] = max(newest.get(step, 0.0), stamp[2] / 1e9)
    since = time.time() - UNDER_WAY_S
    return any(at > since and step + "/" + MARKER not in here for step, at in newest.items())


def is_marker(path: str) -> bool:
    """Whether a file says of its folder that all of it is there."""
    return path.endswith("/" + MARKER)


def vouches_for(marker: str, path: str) -> bool:
    """Whether a path is a marker that says that another one is there.

    >>> vouches_for("step-1/COMPLETE", "step-1/shard-0"), vouches_for("step-1/shard-0", "step-1/COMPLETE")
    (True, False)
    """
    return is_marker(marker) and path != marker and path.startswith(marker[: -len(MARKER)])


def by_marker(path: str) -> Tuple[bool, str]:
    """Markers after all else, or before it the other way round."""
    return is_marker(path), path


def is_written(full: str) -> bool:
    """Whether somebody has a file open for writing: the kernel gives no lease on such a one."""
    try:
        fd = os.open(full, os.O_RDONLY | os.O_NOFOLLOW | os.O_NONBLOCK)
    except OSError as error:
        return error.errno in GONE  # any other fault is told by whoever reads it
    try:
        fcntl.fcntl(
            fd, fcntl.F_SETSIG, signal.SIGURG
        )  # who opens it just now is told of by a signal: SIGIO kills
        fcntl.fcntl(fd, fcntl.F_SETLEASE, fcntl.F_RDLCK)
        fcntl.fcntl(fd, fcntl.F_SETLEASE, fcntl.F_UNLCK)
    except OSError as error:
        return error.errno == errno.EAGAIN  # else a file system without leases: time has to do
    finally:
        os.close(fd)
    return False
