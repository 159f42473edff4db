"""Which network NCCL took between nodes: told once, and a warning where it is not the planned one.

A plugin that is missing is no error to NCCL: it goes by sockets, and the job is many times slower. NCCL says
what it uses in its debug output only, so one rank of each node writes that into a file of ours; where the
user asks for NCCL's output, it is the user's.
"""

from __future__ import annotations

import glob
import os
import re
import time

TYPE_CHECKING = False
if TYPE_CHECKING:
    from typing import Callable, Dict, Mapping

EVERY_S = 5.0
MOST_BYTES = 1 << 20
"""Of each file that is read: the line comes with the first communicator."""

_SAYS = re.compile(rb"NCCL INFO (?:Using network|Assigned NET plugin) ([A-Za-z0-9_.-]+)")
"""Source: NCCL's src/plugin/net.cc of 2.18 to 2.28, and recorded runs."""


def asked(environ: Mapping[str, str], num_nodes: int, folder: str) -> Dict[str, str]:
    """What the first rank of a node gets, so that NCCL says what it uses; empty where the user asks it."""
    if num_nodes == 1 or "NCCL_DEBUG" in environ or "NCCL_DEBUG_FILE" in environ:
        return {}
    path = os.path.join(folder, "nccl-%h-%p")
    return {"NCCL_DEBUG": "INFO", "NCCL_DEBUG_SUBSYS": "INIT,NET", "NCCL_DEBUG_FILE": path}


class NetWatch:
    """Looks for NCCL's word. `say` takes a message, and how severe it is."""

    def __init__(self, planned: str, node_rank: int, say: Callable[..., None]) -> None:
        self._planned = planned
        self._is_first = node_rank == 0
        self._say = say
        self._look_at = float("inf")

    def begin(self, num_nodes: int) -> None:
        """The ranks have been started."""
        self._look_at = time.monotonic() + EVERY_S if num_nodes > 1 else float("inf")

    def deadline(self) -> float:
        """When `look` should be called at the latest."""
        return self._look_at

    def look(self, folder: str, *, is_last: bool = False) -> None:
        """Tell what NCCL says, once it has said it. ``is_last``: the ranks have ended."""
        now = time.monotonic()
        if self._look_at == float("inf") or (now < self._look_at and not is_last):
            return
        self._look_at = now + EVERY_S
        taken = _taken(folder)
        if not taken:
            return
        self._look_at = float("inf")
        if self._planned and not taken.startswith(self._planned):
            slow = " Ranks wait for each other more than they need to." if taken == "Socket" else ""
            self._say(
                f"NCCL talks to other nodes by {taken}, and {self._planned} was planned.{slow}", "WARNING"
            )
        elif self._is_first:
            planned = ", as planned" if self._planned else ""
            self._say(f"NCCL talks to other nodes by {taken}{planned}")


def _taken(folder: str) -> str:
    for path in sorted(glob.glob(os.path.join(glob.escape(folder), "nccl-*"))):
        try:
            with open(path, "rb") as file:
                found = _SAYS.search(file.read(MOST_BYTES))
        except OSError:
            continue
        if found:
            return found.group(1).decode()
    return ""
