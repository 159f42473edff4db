"""Locks of jobs that this process is about to start: a process that is forked meanwhile has none of them.

A lock belongs to an open file, which a fork has as well: with a copy left open the job would be held, and
told as running, for as long as that process lives.
"""

from __future__ import annotations

import os

from gputrain.keeper import folder
from gputrain.threads import new_lock

NO_FORK = new_lock()
"""Held while such a file is open and not noted, and while a process is started: whoever forks waits for that.
What is forked in the midst of a start keeps the pipe open by which Python is told of its end."""


class Hold:
    """The lock of one job, once it was taken: noted with the very step that takes it, for its closing."""

    def __init__(self) -> None:
        self.lock: int | None = None
        self.is_new = False
        """Whether it is of a folder that this process makes: what lies in it is nobody else's."""

    def take(self, path: str) -> bool:
        """Take the job of that folder, as of `folder.take`; whether it was free."""
        with NO_FORK:
            self.lock = folder.take(path)
            _HOLDS.add(self)
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
        with NO_FORK:
            lock, self.lock, self.is_new = self.lock, None, False
            if lock is not None:  # no call before it: a Ctrl-C that fell there would leave it open
                os.close(lock)
            _HOLDS.discard(self)


_HOLDS: set[Hold] = set()
"""Those that may hold something."""


def _go_on() -> None:
    if NO_FORK._is_owned():
        NO_FORK.release()


def _let_go() -> None:
    for hold in list(_HOLDS):
        hold.close()
    _go_on()


if hasattr(os, "register_at_fork"):  # Windows has no forks
    os.register_at_fork(before=NO_FORK.acquire, after_in_parent=_go_on, after_in_child=_let_go)
