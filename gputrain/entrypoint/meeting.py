"""Ranks that never meet: a script that knows nothing of process groups trains the same model on each rank.

Rank 0 listens at MASTER_PORT once it has joined a process group. Only on Linux can others see that.
"""

from __future__ import annotations

import time

TYPE_CHECKING = False
if TYPE_CHECKING:
    from typing import Any, Callable, Sequence

EVERY_S = 1.0
AFTER_S = 60.0
LEAST_S = 10.0
"""A run that was shorter may have met between two looks."""
LISTENS = "0A"
"""A socket's state in /proc/net/tcp."""


class Meeting:
    """Looks, on node 0, whether ranks that use torch have met, and says once that they have not."""

    def __init__(self, launcher: str, say: Callable[..., Any]) -> None:
        self._is_asked, self._say = launcher == "torchrun-env", say
        self._due, self._began, self._world, self._port, self._uses_torch = float("inf"), 0.0, 1, 0, False

    def begin(self, node_rank: int, world: int, port: int) -> None:
        """Ranks have been started."""
        self._world, self._port, self._began = world, port, time.monotonic()
        if self._is_asked and node_rank == 0 and world > 1:
            self._due = self._began + EVERY_S

    def look(self, pids: Sequence[int], is_last: bool = False) -> None:
        """Look again, and say it after a minute, or at the end."""
        now = time.monotonic()
        if self._due == float("inf") or (now < self._due and not is_last):
            return
        self._uses_torch = self._uses_torch or any(
            "libtorch" in _read(f"/proc/{pid}/maps") for pid in pids[:1]
        )
        self._due = now + EVERY_S
        ran_s = now - self._began
        if is_listening(self._port):
            self._due = float("inf")
        elif ran_s >= AFTER_S or (is_last and ran_s >= LEAST_S):
            self._due = float("inf")
            if self._uses_torch:
                self._say(
                    f"{self._world} ranks ran and none joined a process group: each trained its own copy."
                    " The tutorial shows how to add DDP",
                    "WARNING",
                )


def is_listening(port: int) -> bool:
    """Whether a process of this machine listens at a port; True where that cannot be seen."""
    tables = [_read(f"/proc/net/{name}") for name in ("tcp", "tcp6")]
    rows = [row.split() for table in tables for row in table.splitlines()[1:]]
    wanted = f":{port:04X}"
    return not any(tables) or any(row[1].endswith(wanted) and row[3] == LISTENS for row in rows)


def _read(path: str) -> str:
    try:
        with open(path) as file:
            return file.read()
    except OSError:
        return ""
