"""What lies in a folder, told from what cannot be seen there: a disk that fails removes nothing."""

from __future__ import annotations

import contextlib
import errno
import os
import stat

TYPE_CHECKING = False
if TYPE_CHECKING:
    from typing import Dict, Iterable, List, Set, Tuple

    Stamp = Tuple[int, int, int]

DRAFTS = (".tmp", ".part")
NOT_THERE = (errno.ENOENT, errno.ENOTDIR)


class Tree:
    """The plain files below a folder, as they were when this was made."""

    def __init__(self, folder: str) -> None:
        self.files: Dict[str, Stamp] = {}
        """What tells one content of each file from another, by its path below the folder."""
        self.hidden: Dict[str, OSError] = {}
        """What could not be seen, and why; the folder itself is ``.``. Of what is below nothing is known."""
        self.passed_over: Set[str] = set()
        """Links to folders or out of ours, whatever else is no plain file, and drafts: none is sent."""
        self._folder = folder
        self._look("")

    def hides(self, path: str) -> bool:
        """Whether a path that is not told may be there all the same."""
        return "." in self.hidden or _covers(self.hidden, path)

    def passes_over(self, path: str) -> bool:
        """Whether a path is there in a form that is not sent: moved to another disk and linked, for one."""
        return _covers(self.passed_over, path)

    def _look(self, top: str) -> None:
        waiting = [top]
        while waiting:
            below = waiting.pop()
            try:
                names = [entry.name for entry in os.scandir(os.path.join(self._folder, below))]
            except OSError as error:
                if not below or error.errno not in NOT_THERE:  # a folder that is gone took all with it
                    self.hidden[below or "."] = error
                continue
            for name in names:
                self._take(os.path.join(below, name), waiting)

    def _take(self, path: str, folders: List[str]) -> None:
        full = os.path.join(self._folder, path)
        try:
            facts = os.lstat(full)
            if stat.S_ISLNK(facts.st_mode) and inside(self._folder, path) and os.path.isfile(full):
                facts = os.stat(full)
        except OSError as error:
            if error.errno not in NOT_THERE:
                self.hidden[path] = error
            return
        if stat.S_ISDIR(facts.st_mode):
            folders.append(path)
        elif stat.S_ISREG(facts.st_mode) and not path.endswith(DRAFTS):
            self.files[path] = of(facts)
        else:
            self.passed_over.add(path)


def _covers(places: Iterable[str], path: str) -> bool:
    return any(path == one or path.startswith(one + "/") for one in places)


def stamp_of(full: str) -> Stamp:
    """Of one file. Raises OSError."""
    return of(os.lstat(full))


def of(facts: os.stat_result) -> Stamp:
    return facts.st_ino, facts.st_size, facts.st_mtime_ns


def inside(folder: str, path: str) -> str:
    """Where the content of a file lies that may be a link; empty where that is outside of the folder."""
    full, root = os.path.realpath(os.path.join(folder, path)), os.path.realpath(folder)
    return full if full.startswith(root + os.sep) else ""


def is_gone(full: str) -> bool:
    """Whether a folder is surely not there."""
    try:
        return not stat.S_ISDIR(os.lstat(full).st_mode)
    except OSError as error:
        return error.errno in NOT_THERE


def own_folder(folder: str, where: str) -> str:
    """A folder below ours, made where it is missing. Raises OSError where a link leads out of ours."""
    os.makedirs(where, exist_ok=True)
    below = os.path.relpath(where, folder)
    if os.path.realpath(where) != os.path.normpath(os.path.join(os.path.realpath(folder), below)):
        raise OSError(errno.ELOOP, "a link stands in its way", where)
    return where


def opened_anew(path: str) -> int:
    """A descriptor of a new file, whatever stood in its place."""
    unlink(path)
    return os.open(path, os.O_WRONLY | os.O_CREAT | os.O_EXCL | os.O_NOFOLLOW, 0o644)


def unlink(path: str) -> None:
    """Remove a file; one that is gone is gone."""
    with contextlib.suppress(FileNotFoundError):
        os.unlink(path)


def remove(folder: str, path: str) -> None:
    """Remove a file below a folder, and the folder that it lay in when that is empty and not the first."""
    unlink(os.path.join(folder, path))
    if os.path.dirname(path):
        with contextlib.suppress(OSError):
            os.rmdir(os.path.join(folder, os.path.dirname(path)))
