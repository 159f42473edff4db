"""The networks of a node, by the kernel; and which of them NCCL took between nodes, with a warning where that
is not the planned one.

A plugin that is missing is no error to NCCL: it goes by sockets, many times slower. It says so in its debug
output only, so one rank of each node writes that into a file of ours, unless the user asks for it.
"""

from __future__ import annotations

import array
import contextlib
import glob
import os
import re
import socket
import struct
import time

TYPE_CHECKING = False
if TYPE_CHECKING:
    from typing import Callable, Dict, Mapping

EVERY_S = 5.0
MOST_BYTES = 1 << 20
"""Of each file that is read: the line comes with the first communicator."""

_SAYS = re.compile(rb"NCCL INFO (?:Using network|Assigned NET plugin) ([A-Za-z0-9_.-]+)")
"""Source: NCCL's src/plugin/net.cc of 2.18 to 2.28, and recorded runs."""


_SIOCGIFCONF, _ROW, _MOST_ADDRESSES = 0x8912, 40, 256
"""Of Linux (netdevice(7), 64 bits); elsewhere nothing is told."""


def interface_of(address: str) -> str:
    """The interface that has a numeric address; empty where that cannot be told."""
    if ":" in address:
        wanted = socket.inet_pton(socket.AF_INET6, address.partition("%")[0]).hex()
        with contextlib.suppress(OSError), open("/proc/net/if_inet6", encoding="ascii") as file:
            return next((line.split()[-1] for line in file if line.split()[0] == wanted), "")
        return ""
    address = "127.0.0.1" if address.startswith("127.") else address
    with contextlib.suppress(ImportError, OSError), socket.socket(socket.AF_INET, socket.SOCK_DGRAM) as sock:
        import fcntl

        rows = array.array("B", bytes(_MOST_ADDRESSES * _ROW))
        told = fcntl.ioctl(sock, _SIOCGIFCONF, struct.pack("iP", len(rows), rows.buffer_info()[0]))
        for at in range(0, struct.unpack("iP", told)[0], _ROW):
            row = rows[at : at + _ROW].tobytes()
            if socket.inet_ntoa(row[20:24]) == address:
                return row[:16].split(b"\0")[0].decode().partition(":")[0]
    return ""


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
        self._look_at = time.monotonic() + EVERY_S if num_nodes > 1 else float("inf")

    def deadline(self) -> float:
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
