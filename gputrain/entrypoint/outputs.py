"""Files that the ranks wrote beside the code, in a folder that is deleted with the machine."""

from __future__ import annotations

import contextlib
import os
import shutil
import stat
import time
from typing import Sequence

SEARCH_S = 10.0
"""How long the search may take; a tree of a million files is not listed in full."""

NAMED = 5
"""How many of the files are named, the largest first."""

_SKIPPED = ("__pycache__", ".git", ".gputrain", ".venv", "node_modules")


class Outputs:
    """The files below a folder that were made or changed since this object was made.

    By the kernel's time of change, which copies and archives do not set, as they do that of the last write.
    """

    def __init__(self, folder: str, apart: Sequence[str] = ()) -> None:
        self._folder = os.path.realpath(folder)
        self._apart = {os.path.realpath(path) for path in apart if path}
        self._began = time.time()

    def find(self) -> list[tuple[str, int]]:
        """Path below the folder and size of each, the largest first."""
        found, until = [], time.monotonic() + SEARCH_S
        for folder, folders, files in os.walk(self._folder):
            folders[:] = [name for name in folders if self._is_ours(name, os.path.join(folder, name))]
            for path in (os.path.join(folder, name) for name in files):
                with contextlib.suppress(OSError):  # gone meanwhile
                    status = os.lstat(path)
                    if stat.S_ISREG(status.st_mode) and status.st_ctime > self._began:
                        found.append((os.path.relpath(path, self._folder), status.st_size))
            if time.monotonic() >= until:
                break
        return sorted(found, key=lambda entry: (-entry[1], entry[0]))

    def _is_ours(self, name: str, path: str) -> bool:
        return not (
            name in _SKIPPED or path in self._apart or os.path.ismount(path)
        )  # a mounted bucket stays

    def keep(self, found: Sequence[tuple[str, int]], target: str) -> dict[str, OSError]:
        """Copy them into another folder, the smallest first; the error of each that could not be copied."""
        lost: dict[str, OSError] = {}
        for path, _ in reversed(found):
            into = os.path.join(target, path)
            try:
                os.makedirs(os.path.dirname(into), exist_ok=True)
                shutil.copyfile(os.path.join(self._folder, path), into)
            except OSError as error:
                lost[path] = error
        return lost


def summary(found: Sequence[tuple[str, int]]) -> str:
    """How many, how large, and the largest by name.

    >>> summary([("out/ckpt.pt", 1_200_000_000), ("loss.csv", 300)])
    '2 files, 1.2 GB, written beside the code: out/ckpt.pt, loss.csv'
    """
    names = ", ".join(path for path, _ in found[:NAMED]) + ", ..." * (len(found) > NAMED)
    count = "1 file" if len(found) == 1 else f"{len(found)} files"
    return f"{count}, {_size(sum(size for _, size in found))}, written beside the code: {names}"


def _size(size: float) -> str:
    for unit in ("B", "kB", "MB"):
        if size < 1000:
            return f"{size:.3g} {unit}"
        size /= 1000
    return f"{size:.3g} GB"
