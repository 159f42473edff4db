"""Tells the systemd of a machine which of its control groups are empty, where the kernel does not.

For groups of the first kind the kernel tells a program of this computer, and a machine in a container hears
nothing. Where the last process of a unit is no child that its systemd knows, systemd waits for the dead until
TimeoutStopSec: 90 s for Google's guest agent, when it is stopped in its first second.
"""

from __future__ import annotations

import contextlib
import os
import re
import socket
import threading
from pathlib import Path

PAUSE_S = 0.5
HIERARCHY = Path("/sys/fs/cgroup/systemd")


class ReleaseAgent:
    """Looks until it is closed.

    Args:
        pid: the machine's first process.
    """

    def __init__(self, pid: int) -> None:
        self._socket = f"/proc/{pid}/root/run/systemd/cgroups-agent"
        self._pid = pid
        self._closed = threading.Event()
        self._thread = threading.Thread(target=self._watch, name="release agent", daemon=True)
        if HIERARCHY.exists():
            self._thread.start()

    def close(self) -> None:
        """Stop looking."""
        self._closed.set()
        if self._thread.ident is not None:
            self._thread.join()

    def _watch(self) -> None:
        with socket.socket(socket.AF_UNIX, socket.SOCK_DGRAM) as wire:
            wire.setblocking(False)
            while not self._closed.wait(PAUSE_S):
                with contextlib.suppress(OSError):  # it does not listen yet, or no longer
                    for group in self._empty():
                        wire.sendto(group.encode(), self._socket)

    def _empty(self) -> list[str]:
        """The groups of its units without a process, by their paths in the hierarchy."""
        told = Path(f"/proc/{self._pid}/cgroup").read_text(encoding="utf-8")
        own = re.search(r":name=systemd:(/.+)/init\.scope$", told, re.MULTILINE)
        if own is None:
            return []
        units = [*(HIERARCHY / own[1][1:]).rglob("*.service"), *(HIERARCHY / own[1][1:]).rglob("*.scope")]
        return [f"/{unit.relative_to(HIERARCHY)}" for unit in units if not _processes(unit)]


def _processes(group: Path) -> bool:
    return any(Path(folder, "cgroup.procs").read_text() for folder, _, _ in os.walk(group))
