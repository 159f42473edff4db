"""Folders of what guests and clients write, and their removal, however the emulator ends."""

from __future__ import annotations

import contextlib
import fcntl
import os
import shutil
import tempfile
import weakref
from pathlib import Path
from typing import Any

PREFIX = "gputrain-emulator-files-"


class OwnFolder:
    """A folder under the system's temporary one, which goes with this process.

    It is held by a lock that the kernel lets go however the process ends; after a SIGKILL a later start
    finds it so and removes it (`sweep`).
    """

    def __init__(self) -> None:
        while True:
            self.path = Path(tempfile.mkdtemp(prefix=PREFIX))
            lock = _lock(self.path, fcntl.LOCK_EX)
            if self.path.exists():  # else a sweep came between
                break
        self.close = weakref.finalize(self, _end, self.path, lock)


def sweep() -> None:
    """Remove the folders that emulators of this user have left behind."""
    for path in Path(tempfile.gettempdir()).glob(f"{PREFIX}*"):
        lock = _lock(path, fcntl.LOCK_EX | fcntl.LOCK_NB)
        if lock >= 0:
            _end(path, lock)


def _lock(path: Path, how: int) -> int:
    """The descriptor that locks a folder; -1 where it is none, is not this user's, or is somebody's."""
    try:
        folder = os.open(path, os.O_RDONLY | os.O_DIRECTORY | os.O_NOFOLLOW)
    except OSError:
        return -1
    try:
        held = os.fstat(folder)
        if held.st_uid == os.geteuid():
            fcntl.flock(folder, how)
            if os.path.samestat(held, os.lstat(path)):
                return folder
    except OSError:  # somebody holds it, it went meanwhile, or this file system has no locks
        pass
    os.close(folder)
    return -1


def _end(path: Path, lock: int) -> None:
    remove(path)
    if lock >= 0:
        os.close(lock)


def remove(folder: Path) -> None:
    """Remove a folder with all that guests left in it; the kernel leaves folders that nobody may read."""

    def open_up(_function: Any, path: str, _error: Any) -> None:
        with contextlib.suppress(OSError):
            if os.path.isdir(path) and not os.path.islink(path):
                os.chmod(path, 0o700)
                shutil.rmtree(path, ignore_errors=True)
            elif path != str(folder):
                os.chmod(os.path.dirname(path), 0o700)
                os.unlink(path)

    if folder.exists():
        shutil.rmtree(folder, onerror=open_up)
