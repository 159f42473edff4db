"""Locks of jobs that this process is about to start: a process that is forked meanwhile has none of them.

A lock belongs to an open file, which a fork has as well: with a copy left open the job would be held, and
told as running, for as long as that process lives.
"""

from __future__ import annotations

import contextlib
import os
import weakref

from gputrain.keeper import folder
from gputrain.threads import new_lock

_OPENING = new_lock()
"""Held from before such a file is opened until it is noted: nobody forks meanwhile."""


class Hold:
    """The lock of one job, once it was taken: noted with the very step that takes it, for its closing."""

    def __init__(self) -> None:
        self.lock: int | None = None
        self._taken: os.stat_result | None = None
        _HOLDS[id(self)] = weakref.ref(self)

    def take(self, path: str) -> bool:
        """Take the job of that folder, as of `folder.take`; whether it was free."""
        with _OPENING:
            self.lock = folder.take(path)
        if self.lock is not None:
            self._taken = os.fstat(self.lock)
        return self.lock is not None

    def is_of(self, path: str) -> bool:
        """Whether the folder of that name is the one that is held: not another, made later or by others."""
        try:
            there = os.stat(os.path.join(path, folder.LOCK))
        except OSError:
            return False
        return self.lock is not None and os.path.samestat(os.fstat(self.lock), there)

    def close(self) -> None:
        """Let go of it here; a process that was forked has done so."""
        if self.lock is not None:
            os.close(self.lock)
            self.lock = None

    def let_go(self) -> None:
        """In a process that was forked: close the copy, unless the number is another file's by now."""
        with contextlib.suppress(OSError):
            if self.lock is None or (self._taken and not os.path.samestat(os.fstat(self.lock), self._taken)):
                return
            os.close(self.lock)
        self.lock = None


_HOLDS: dict[int, weakref.ref[Hold]] = {}
"""By where each lies, and where the next one may lie."""


def _go_on() -> None:
    if _OPENING._is_owned():
        _OPENING.release()


def _let_go() -> None:
    for known in list(_HOLDS.values()):
        hold = known()
        if hold is not None:
            hold.let_go()
    _go_on()


if hasattr(os, "register_at_fork"):  # Windows has no forks
    os.register_at_fork(before=_OPENING.acquire, after_in_parent=_go_on, after_in_child=_let_go)
