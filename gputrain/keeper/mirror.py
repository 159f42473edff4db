"""Keeps a folder of this VM and a ``gs://`` place alike: all nodes see one folder of checkpoints.

Files that are whole and new go up. Objects come down: all of them before the job begins, later those of
node 0 or of somebody outside, and small ones, so that N nodes do not each bring the shards of N. What node 0
removes is removed everywhere. Markers (``COMPLETE``) go last and are removed first, so that what a marker
vouches for is there while the marker is. Says ``filled`` once the folder holds all that the bucket does; ends
when standard input does, after sending the rest.
"""

from __future__ import annotations

import contextlib
import errno
import itertools
import json
import os
import select
import signal
import stat
import sys
import time
from collections import deque
from concurrent.futures import ThreadPoolExecutor

from .cloud import CallFailed
from .store import Changed, Item, Store
from .whole import MARKER, STEP, Wholeness, is_under_way, is_written

TYPE_CHECKING = False
if TYPE_CHECKING:
    from typing import Any, Callable, Dict, Iterable, Tuple

EVERY_S = 0.5
LIST_EVERY_S = 20.0
"""How often the bucket is listed: three times a minute, which costs about 2 cents a day for a folder and node
($0.05 for 10,000 operations of class A). Source: cloud.google.com/storage/pricing, read 2026-11-22."""

AWAITED_S = 1.0
"""The same while a checkpoint is under way: rank 0 waits to see the files of all ranks before it marks it."""

SMALL = 1 << 20
"""Bytes of what comes down from any node while the job runs: it may be a word to the others."""

AFTER_FAULT_S = 5.0
THREADS = 8
DRAFTS = (".tmp", ".part")
DRAFT = ".gputrain-mirror-%d.part"
"""An object on its way into a folder; a name of its own, as the object's may be as long as a name can be."""

NO_PLACE = (errno.ENOTDIR, errno.EISDIR, errno.EEXIST, errno.ENOTEMPTY, errno.ENAMETOOLONG, errno.ELOOP)
"""A file system's words for a name that cannot be a file here: ``a`` beside ``a/b``, or too long."""
REFUSED = 400


class Mirror:
    """One folder and its place in the bucket.

    Args:
        node: the rank of this one; what node 0 removes is removed everywhere.
        whole: tells which files may go.
    """

    def __init__(self, store: Store, folder: str, node: int, whole: Wholeness) -> None:
        self.store, self.folder, self.node, self.whole = store, folder, node, whole
        self.alike: Dict[str, Tuple[Any, str]] = {}
        """Path -> what the file and the object were when they were last the same."""
        self.there: Dict[str, Item] = {}
        """The objects as they were listed last."""
        self.left_out: Dict[str, Any] = {}
        """Path -> generation of an object that cannot be a file here, or stamp of a file that cannot be an
        object there; each is said once."""
        self._threads = ThreadPoolExecutor(THREADS)
        self._drafts = itertools.count()
        self._listed_at = 0.0

    def fill(self) -> None:
        """Bring all that lies in the bucket."""
        self.list()
        self.bring_all(self.there)

    def round(self, is_last: bool = False) -> None:
        """Make both alike once; at last nothing more comes down."""
        here = self.files()
        every_s = AWAITED_S if is_under_way(here) else LIST_EVERY_S
        if not is_last and time.monotonic() >= self._listed_at + every_s:
            self.list()
            self.take(here)
            here = self.files()
        if self.node == 0:
            self.drop(here)
        self.send_all(here, is_last)

    def list(self) -> None:
        """Read which objects there are, of those whose names are plain paths below the prefix."""
        self._listed_at = time.monotonic()
        self.there = {path: item for path, item in self.store.items().items() if is_plain(path)}

    def take(self, here: Dict[str, Any]) -> None:
        """Bring what is new in the bucket and due here; remove here what node 0 has removed."""
        same = {path for path, (stamp, _) in self.alike.items() if here.get(path) == stamp}
        for path in sorted(same - self.there.keys(), key=by_marker, reverse=True):
            if self.node:
                self.unlink(path)
        self.bring_all(
            path
            for path, item in self.there.items()
            if (path in same or path not in here)
            and (path not in self.alike or item.generation != self.alike[path][1])
            and (item.node in ("", "0", str(self.node)) or item.size <= SMALL or self.sees_to(path))
        )

    def sees_to(self, path: str) -> bool:
        """Whether this is where a step is marked once its files are there, and not before."""
        return self.node == 0 and STEP.search(path) is not None

    def drop(self, here: Dict[str, Any]) -> None:
        """Remove from the bucket what was removed here; with a folder, all that lies in it there."""
        gone = {path for path in self.alike if path not in here}
        folders = {os.path.dirname(path) for path in gone} - {""}
        lost = tuple(one + "/" for one in folders if not os.path.isdir(self.full(one)))
        gone.update(path for path in self.there if lost and path.startswith(lost))
        for path in sorted(gone, key=by_marker, reverse=True):
            self.store.remove(self.store.prefix + path)
            self.there.pop(path, None)
            self.alike.pop(path, None)

    def send_all(self, here: Dict[str, Any], is_last: bool) -> None:
        """Send what has changed and is whole; a marker once all below its folder is sent."""
        changed = [path for path, stamp in here.items() if not self.is_alike(path, stamp)]
        due = [path for path in changed if self.whole.may_go(path, self.full(path), here[path], is_last)]
        self.each(lambda path: self.send(path, here[path]), [one for one in due if not is_marker(one)])
        left = [path for path in changed if not is_marker(path) and not self.is_alike(path, here[path])]
        for path in filter(is_marker, due):
            if not any(one.startswith(path[: -len(MARKER)]) for one in left):
                self.send(path, here[path])
        for path in left if is_last else ():
            complain(f"{path} was being written when its process was killed: the bucket keeps what it has")

    def is_alike(self, path: str, stamp: Any) -> bool:
        """Whether a file is in the bucket as it is, or cannot be."""
        return stamp in (self.alike.get(path, (None,))[0], self.left_out.get(path))

    def each(self, do: Callable[[str], Any], paths: Iterable[str]) -> None:
        """Do something for many files at once. Raises the first OSError."""
        deque(self._threads.map(do, paths), maxlen=0)

    def files(self) -> Dict[str, Any]:
        """What tells one content of each file from another, by its path below the folder."""
        found = {}
        for root, _, names in os.walk(self.folder):
            for name in names:
                full = os.path.join(root, name)
                stamp = stamp_of(full)
                if stamp is not None and not name.endswith(DRAFTS):
                    found[os.path.relpath(full, self.folder)] = stamp
        return found

    def send(self, path: str, stamp: Any) -> None:
        """Put a file into the bucket; one that is written again meanwhile comes another time."""

        def is_whole() -> bool:
            return of(os.fstat(file.fileno())) == stamp and not is_written(self.full(path))

        try:
            with open(self.full(path), "rb", buffering=0) as file:
                self.alike[path] = stamp, self.store.send(path, file, is_whole)
        except (FileNotFoundError, Changed):
            return
        except CallFailed as error:
            if error.code != REFUSED:
                raise
            self.left_out[path] = stamp  # its name is no object's; all others still go, and their marker
            complain(f"{path!r} cannot be an object in the bucket: {error}")

    def bring_all(self, paths: Iterable[str]) -> None:
        """Take objects into the folder, markers last."""
        due = [path for path in paths if self.left_out.get(path) != self.there[path].generation]
        self.each(self.bring, [path for path in due if not is_marker(path)])
        self.each(self.bring, filter(is_marker, due))

    def bring(self, path: str) -> None:
        """Take an object into the folder; the file appears whole, and nothing is written through a link."""
        full, generation = self.full(path), self.there[path].generation
        try:
            draft = os.path.join(self.own_folder(os.path.dirname(full)), DRAFT % next(self._drafts))
            try:
                with open(opened_anew(draft), "wb") as file:
                    is_there = self.store.bring(path, generation, file)
                if is_there:
                    os.replace(draft, full)
                    self.alike[path] = stamp_of(full), generation
            finally:
                unlink(draft)
        except OSError as error:
            if error.errno not in NO_PLACE:
                raise
            self.left_out[path] = generation
            complain(f"{path} in the bucket cannot be a file here: {error.strerror}")

    def own_folder(self, where: str) -> str:
        """A folder below ours, made where it is missing. Raises OSError where a link leads out of ours."""
        os.makedirs(where, exist_ok=True)
        below = os.path.relpath(where, self.folder)
        if os.path.realpath(where) != os.path.normpath(os.path.join(os.path.realpath(self.folder), below)):
            raise OSError(errno.ELOOP, "a link stands in its way", where)
        return where

    def unlink(self, path: str) -> None:
        """Remove a file that node 0 has removed, and its folder when that is empty."""
        os.unlink(self.full(path))
        del self.alike[path]
        if not os.listdir(os.path.dirname(self.full(path))):
            os.rmdir(os.path.dirname(self.full(path)))

    def full(self, path: str) -> str:
        """Where a file lies."""
        return os.path.join(self.folder, path)


def opened_anew(path: str) -> int:
    """A descriptor of a new file, whatever stood in its place."""
    unlink(path)
    return os.open(path, os.O_WRONLY | os.O_CREAT | os.O_EXCL | os.O_NOFOLLOW, 0o644)


def unlink(path: str) -> None:
    with contextlib.suppress(FileNotFoundError):
        os.unlink(path)


def is_marker(path: str) -> bool:
    """Whether a file says of its folder that all of it is there."""
    return path.endswith("/" + MARKER)


def by_marker(path: str) -> Tuple[bool, str]:
    """Markers after all else, or before it the other way round."""
    return is_marker(path), path


def is_plain(path: str) -> bool:
    """Whether an object's name may become a file's: nothing in a bucket is trusted to say where."""
    return not {"", ".", ".."} & set(path.split("/")) and "\0" not in path and not path.endswith(DRAFTS)


def stamp_of(full: str) -> Tuple[int, int, int] | None:
    """What changes when a plain file does; None for anything else."""
    try:
        facts = os.lstat(full)
    except OSError:
        return None
    return of(facts) if stat.S_ISREG(facts.st_mode) else None


def of(facts: os.stat_result) -> Tuple[int, int, int]:
    return facts.st_ino, facts.st_size, facts.st_mtime_ns


def complain(what: str) -> None:
    with contextlib.suppress(OSError):  # nobody may be listening
        sys.stderr.write(f"gputrain: {what}\n")
        sys.stderr.flush()


def main() -> None:
    order = json.loads(sys.argv[1])
    signal.signal(signal.SIGTERM, signal.SIG_IGN)  # the ranks may save after it
    os.makedirs(order["folder"], exist_ok=True)
    store = Store(order["storage"], order["bucket"], order["prefix"], order["node"])
    whole = Wholeness(order["killed"], is_strict=order["is_strict"])
    mirror = Mirror(store, order["folder"], order["node"], whole)
    try:
        mirror.fill()
    except OSError as error:
        sys.stdout.write(f"{error}\n")
        sys.exit(1)
    sys.stdout.write("filled\n")
    sys.stdout.flush()
    is_last, pause_s = False, EVERY_S
    while not is_last:
        is_last = bool(select.select([sys.stdin], [], [], pause_s)[0])
        pause_s = EVERY_S
        try:
            mirror.round(is_last)
        except OSError as error:
            pause_s = AFTER_FAULT_S
            complain(f"the folder and the bucket could not be made alike: {error}")
            if is_last:
                sys.exit(1)


if __name__ == "__main__":
    main()
