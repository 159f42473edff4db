"""What the ranks wrote beside the code: in a folder that goes with the machine, whatever they believe."""

from __future__ import annotations

import os
import shutil
import time

TYPE_CHECKING = False
if TYPE_CHECKING:
    from typing import Iterator, List, Sequence, Tuple

SEARCH_S = 10.0
"""How long the search may take; a tree of a million files is not told in full."""

NAMED = 5
"""How many of the files are named, the largest first."""

_PASSED_OVER = ("__pycache__", ".git", ".gputrain", ".venv", "node_modules")


class Outputs:
    """The files below a folder that were made or changed since this was made.

    By the time of the kernel, which no copy or archive brings along as it does the time of the last change.
    """

    def __init__(self, folder: str, apart: Sequence[str] = ()) -> None:
        self._folder = os.path.realpath(folder)
        self._apart = {os.path.realpath(path) for path in apart if path}
        self._began = time.time()

    def find(self) -> List[Tuple[str, int]]:
        """Path below the folder and size of each, the largest first."""
        return sorted(self._walk(), key=lambda entry: (-entry[1], entry[0]))

    def _walk(self) -> Iterator[Tuple[str, int]]:
        until = time.monotonic() + SEARCH_S
        device = os.stat(self._folder).st_dev
        waiting = [self._folder]
        while waiting and time.monotonic() < until:
            try:
                entries = list(os.scandir(waiting.pop()))
            except OSError:
                continue
            for entry in entries:
                status = entry.stat(follow_symlinks=False)
                if status.st_dev != device or entry.name in _PASSED_OVER or entry.path in self._apart:
                    continue  # a bucket that is mounted here stays where it is
                if entry.is_dir(follow_symlinks=False):
                    waiting.append(entry.path)
                elif entry.is_file(follow_symlinks=False) and status.st_ctime > self._began:
                    yield os.path.relpath(entry.path, self._folder), status.st_size

    def keep(self, found: Sequence[Tuple[str, int]], target: str) -> None:
        """Copy them into another folder, the smallest first. Raises OSError where one cannot be written."""
        for path, _ in reversed(found):
            into = os.path.join(target, path)
            os.makedirs(os.path.dirname(into), exist_ok=True)
            shutil.copyfile(os.path.join(self._folder, path), into)


def told(found: Sequence[Tuple[str, int]]) -> str:
    """How many, how large, and the largest by name.

    >>> told([("out/ckpt.pt", 1_200_000_000), ("loss.csv", 300)])
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
