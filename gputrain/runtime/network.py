"""The network of this node: addresses and ports, the one that NCCL took, and whether ranks have met on it.

A plugin that is missing is no error to NCCL: it uses sockets, many times slower, and says so in its debug
output only, so one rank of each node writes that into our file, unless the user asks for it.
"""

from __future__ import annotations

import contextlib
import glob
import os
import re
import socket
import time
from collections.abc import Callable, Sequence

from . import host
from .host import read_text

_FIRST_PORT, _LAST_PORT = 10_000, 32_000
"""Below Linux's ephemeral ports (from 32768): no outgoing connection takes one meanwhile."""

_ELSEWHERE = ("192.0.2.1", "2001:db8::1")
"""Addresses of documentation, whose route is the default one."""


def is_address(text: str) -> bool:
    """Whether a host is written as a number, IPv4 or IPv6."""
    for family in (socket.AF_INET, socket.AF_INET6):
        with contextlib.suppress(OSError):
            socket.inet_pton(family, text)
            return True
    return False


def is_own(address: str) -> bool:
    """Whether this machine has a numeric address."""
    with contextlib.suppress(OSError), socket.socket(_family(address)) as probe:
        probe.bind((address, 0))
        return True
    return False


def own_address(host: str) -> str:
    """The numeric address on the route to a host; without one, or where its name means nothing here, that on
    the default route, else the loopback's."""
    for other in filter(None, (host, *_ELSEWHERE)):
        with contextlib.suppress(OSError):
            family, kind, _, _, address = socket.getaddrinfo(other, 9, type=socket.SOCK_DGRAM)[0]
            with socket.socket(family, kind) as probe:
                probe.connect(address)  # of a datagram: it only chooses the route
                return str(probe.getsockname()[0])
    return loopback()


def loopback() -> str:
    """This machine's address for itself: IPv4's, or IPv6's where it has no other."""
    return "127.0.0.1" if is_own("127.0.0.1") else "::1"


def numeric(host: str) -> str:
    """The address that a name stands for. Raises OSError where it stands for none."""
    try:
        return str(socket.getaddrinfo(host, None, type=socket.SOCK_STREAM)[0][4][0])
    except OSError as error:
        raise OSError(f"{host!r} means nothing here: {error}") from None


def free_port(address: str) -> int:
    """A free port at this address. Raises OSError where there is none."""
    start = int.from_bytes(os.urandom(4), "big")
    for step in range(200):
        port = _FIRST_PORT + (start + step * 7919) % (_LAST_PORT - _FIRST_PORT)
        with socket.socket(_family(address)) as sock, contextlib.suppress(OSError):
            sock.bind((address, port))
            return port
    raise OSError(f"no free port at {address} between {_FIRST_PORT} and {_LAST_PORT}")


def in_brackets(address: str) -> str:
    """As an address stands before a port."""
    return f"[{address}]" if ":" in address else address


def _family(address: str) -> int:
    return socket.AF_INET6 if ":" in address else socket.AF_INET


NET_EVERY_S = 5.0
_MOST_BYTES = 1 << 20
"""Of each file of NCCL's that is read: the line comes with the first communicator."""

_NCCL_USES = re.compile(rb"NCCL INFO (?:Using network|Assigned NET plugin) ([A-Za-z0-9_.-]+)")
"""Source: NCCL's src/plugin/net.cc of 2.18 to 2.28, and recorded runs."""


class NetWatch:
    """Looks for the network that NCCL took in a run. `say` takes a message, and how severe it is."""

    def __init__(self, planned: str, node_rank: int, num_nodes: int, say: Callable[..., None]) -> None:
        self._planned, self._is_first, self._say = planned, node_rank == 0, say
        self._due = time.monotonic() + NET_EVERY_S if num_nodes > 1 else float("inf")

    def look(self, folder: str, *, is_last: bool = False) -> None:
        """Log the network that NCCL took, once it says so. ``is_last``: the ranks have ended."""
        now = time.monotonic()
        if self._due == float("inf") or (now < self._due and not is_last):
            return
        self._due = now + NET_EVERY_S
        taken = ""
        for path in sorted(glob.glob(os.path.join(glob.escape(folder), "nccl-*"))):
            with contextlib.suppress(OSError), open(path, "rb") as file:
                found = _NCCL_USES.search(file.read(_MOST_BYTES))
                taken = taken or (found[1].decode() if found else "")
        if not taken:
            return
        self._due = float("inf")
        if self._planned and not taken.startswith(self._planned):
            slow = " Ranks wait for each other more than they need to." if taken == "Socket" else ""
            self._say(
                f"NCCL talks to other nodes by {taken}, and {self._planned} was planned.{slow}", "WARNING"
            )
        elif self._is_first:
            self._say(f"NCCL talks to other nodes by {taken}{', as planned' if self._planned else ''}")


MEET_EVERY_S, MEET_AFTER_S = 1.0, 60.0
MEET_LEAST_S = 10.0
"""A run that was shorter may have met between two looks."""


class Meeting:
    """Looks, on node 0, whether ranks that use torch have met, and says once that they have not.

    A script that knows nothing of process groups trains the same model on each rank. Rank 0 listens at
    MASTER_PORT once it has joined one; only on Linux can others see that. A lone rank meets no other.
    """

    def __init__(self, world: int, port: int, say: Callable[..., None]) -> None:
        self._world, self._port, self._say = world, port, say
        self._began, self._uses_torch = time.monotonic(), False
        self._due = self._began + MEET_EVERY_S if world > 1 else float("inf")

    def look(self, pids: Sequence[int], *, is_last: bool = False) -> None:
        """Look again, and say it after a minute, or at the end."""
        now = time.monotonic()
        if self._due == float("inf") or (now < self._due and not is_last):
            return
        self._uses_torch = self._uses_torch or any(map(host.uses_torch, pids[:1]))
        self._due, ran_s = now + MEET_EVERY_S, now - self._began
        is_late = ran_s >= MEET_AFTER_S or (is_last and ran_s >= MEET_LEAST_S)
        has_met = is_listening(self._port)
        if has_met or is_late:
            self._due = float("inf")
        if is_late and not has_met and self._uses_torch:
            self._say(
                f"{self._world} ranks ran and none joined a process group: each trained its own copy."
                " The tutorial shows how to add DDP",
                "WARNING",
            )


def is_listening(port: int) -> bool:
    """Whether a process of this machine listens at a port; True where that cannot be seen."""
    tables = [read_text(f"/proc/net/{name}") for name in ("tcp", "tcp6")]
    rows = [row.split() for table in tables for row in table.splitlines()[1:]]
    return not any(tables) or any(row[1].endswith(f":{port:04X}") and row[3] == "0A" for row in rows)
