"""Where a keeper tells how far its job has come, and finds what is wanted of it; here a folder is one."""

from __future__ import annotations

import contextlib
import os
import sys
import time

from gputrain.entrypoint import processes

from . import folder
from .rules import TICK_S
from .status import CANCELLED

TYPE_CHECKING = False
if TYPE_CHECKING:
    from typing import Any, Dict, Protocol

    class StatusBoard(Protocol):
        """What a keeper needs of one; none of it holds up a limit."""

        def tell(self, document: Dict[str, Any]) -> None:
            """Show this document from now on, as soon as that can be done."""

        def word(self) -> str:
            """Why the job should stop; empty while it should not. Raises Withdrawn where there is no job."""

        def last(self, document: Dict[str, Any]) -> None:
            """Show the document of a job that has ended, with patience."""


LAST_WORDS_S = 10.0
"""How long the end of a job is told again to a disk that takes nothing."""


class Withdrawn(Exception):
    """The job's folder is gone, or another's has its name: there is no job any more."""


class StatusFolder:
    """The folder of a job on this machine, held open: a folder that gets its name later is another's."""

    def __init__(self, path: str) -> None:
        self._path = path
        self._fd = os.open(path, os.O_RDONLY | os.O_DIRECTORY)
        self._is_held = os.path.isdir(self._place())
        self._due: Dict[str, Any] = {}
        self._told: Dict[str, Any] = {}

    def file(self, name: str) -> str:
        """A file in the folder, whatever its name is by now; for this process and its children.

        Without a /proc, as on macOS, by its name, as long as that is the folder's. Raises Withdrawn else.
        """
        if self._is_held:
            return f"{self._place()}/{name}"
        self._check()
        return os.path.join(self._path, name)

    def _place(self) -> str:
        return f"/proc/{os.getpid()}/fd/{self._fd}"  # of this process: a fork has another number

    def write(self, document: Dict[str, Any]) -> None:
        """Write the document whole. Raises OSError where that cannot be done."""
        folder.write_json(self.file(folder.STATE), document)
        self._due = self._told = document

    def tell(self, document: Dict[str, Any]) -> None:
        """As of `StatusBoard`: where the disk is full the job goes on, and the next look tries again."""
        self._due = document
        self._write()

    def word(self) -> str:
        """As of `StatusBoard`."""
        self._check()
        self._write()
        return CANCELLED if os.path.exists(self.file(folder.CANCEL)) else ""

    def last(self, document: Dict[str, Any]) -> None:
        """As of `StatusBoard`; where the disk is full, into the room that was kept for it."""
        self._due = document
        until = time.monotonic() + LAST_WORDS_S
        while not self._write() and time.monotonic() < until:
            self._check()
            self._due = {**document, "disk_was_full": True}
            with contextlib.suppress(OSError):
                os.unlink(self.file(folder.RESERVE))
            if not self._write():
                processes.wait(TICK_S)

    def clear(self, attempt: int) -> None:
        """After `Withdrawn`, when nothing runs any more: leave nothing that was made in the folder's name.

        Without a /proc, agents that started just then have made their own folder again.
        """
        if not self._is_held and not os.path.lexists(os.path.join(self._path, folder.ORDER)):
            import shutil  # seldom needed

            shutil.rmtree(
                os.path.join(self._path, folder.ATTEMPT.format(attempt=attempt)), ignore_errors=True
            )
            with contextlib.suppress(OSError):  # somebody else's, or not there
                os.rmdir(self._path)

    def _check(self) -> None:
        try:
            is_there = os.path.samestat(os.stat(self._path), os.fstat(self._fd))
        except OSError:
            is_there = False
        if not is_there:
            raise Withdrawn

    def _write(self) -> bool:
        if self._due is self._told:
            return True
        try:
            self.write(self._due)
        except OSError as error:
            with contextlib.suppress(OSError):  # the same full disk
                sys.stderr.write(f"the state cannot be written: {error}\n")
            return False
        return True
