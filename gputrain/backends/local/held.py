"""Locks of jobs that this process is about to start: a process that is forked meanwhile lets go of them.

A lock belongs to an open file, which a fork has as well: with a copy left open the job would be held, and
told as running, for as long as that process lives.
"""

from __future__ import annotations

import os

from gputrain.keeper import folder


class Held:
    """The open files of these locks."""

    def __init__(self) -> None:
        self._locks: set[int] = set()
        if hasattr(os, "register_at_fork"):  # Windows has no forks
            os.register_at_fork(after_in_child=self._let_go)

    def take(self, path: str) -> int | None:
        """Take the job of that folder, as of `folder.take`."""
        lock = folder.take(path)
        if lock is not None:
            self._locks.add(lock)
        return lock

    def close(self, lock: int) -> None:
        """Let go of it here; a process that was forked has done so."""
        if lock in self._locks:
            self._locks.remove(lock)
            os.close(lock)

    def _let_go(self) -> None:
        while self._locks:
            os.close(self._locks.pop())


HELD = Held()
