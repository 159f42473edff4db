"""The buckets as one folder, as Cloud Storage FUSE shows them: to Vertex AI's replicas, to VMs by gcsfuse.

A file becomes an object when it is closed or renamed into place, and an object that somebody else writes
becomes a file. The folder is shared by all replicas, so one sees what another has closed at once; a file
that is still open is seen by them too, which Cloud Storage FUSE would not show. Empty folders and links are
no objects. Source: Cloud Storage FUSE's pages on semantics, by general knowledge.
"""

from __future__ import annotations

import contextlib
import errno
import fcntl
import os
import signal
import stat
import tempfile
import threading
import time
from collections.abc import Iterator
from dataclasses import dataclass
from pathlib import Path

from gputrain_emulator.errors import ApiError
from gputrain_emulator.storage import Storage
from gputrain_emulator.storage.buckets import Stored

WAITS = ".waits-"
"""Begins the name of a file beside the buckets; it is removed once all that was there before is an object."""

PAUSE_S = 0.1
SHARE = 10  # of the time at most one part in so many is spent looking
_BLOCK = 1 << 20

Mark = tuple[int, int, int]  # inode, size and time of the last change: what tells one content from the next


@dataclass(frozen=True, kw_only=True)
class _Pair:
    """A file and an object that held the same when they were last looked at."""

    mark: Mark
    generation: int


class GcsFolder:
    """Keeps a folder and the buckets of one cloud alike, until it is closed."""

    def __init__(self, storage: Storage, folder: Path) -> None:
        self.path = folder / "buckets"
        self._drafts = folder / "drafts"
        for one in (self.path, self._drafts):
            one.mkdir(parents=True)
        self._storage = storage
        self._pairs: dict[tuple[str, str], _Pair] = {}
        self._lock = threading.Lock()
        self._ended = threading.Event()
        self._thread = threading.Thread(target=self._watch, name="gcs folder", daemon=True)
        self._thread.start()

    def sync(self) -> None:
        """Make both sides alike now; where both have changed, the file wins."""
        with self._lock:
            waiting = list(self.path.glob(f"{WAITS}*"))
            for bucket in self._storage.buckets.all():
                self._sync_bucket(bucket.name)
            for path in waiting:
                path.unlink()

    def close(self) -> None:
        """Stop looking."""
        self._ended.set()
        self._thread.join()

    def _watch(self) -> None:
        spent_s = 0.0
        while not self._ended.wait(max(PAUSE_S, SHARE * spent_s)):
            began = time.monotonic()
            with contextlib.suppress(OSError):  # a full disk has room again, perhaps, at the next look
                self.sync()
            spent_s = time.monotonic() - began

    def _sync_bucket(self, bucket: str) -> None:
        root = self.path / bucket
        root.mkdir(exist_ok=True)
        root.chmod(0o777)
        files = dict(_files(root))
        objects = {one.name: one for one in self._storage.objects.walk(bucket) if _is_path(one.name)}
        known = {name for place, name in self._pairs if place == bucket}
        for name in sorted({*files, *objects, *known}):
            pair = self._pairs.get((bucket, name))
            mark, stored = files.get(name), objects.get(name)
            is_new_object = (stored and stored.generation) != (pair and pair.generation)
            if mark != (pair and pair.mark) and (mark is not None or not is_new_object):
                self._file_changed(bucket, name, root / name, stored)
            elif is_new_object:
                self._object_changed(bucket, name, root / name, stored)

    def _file_changed(self, bucket: str, name: str, path: Path, stored: Stored | None) -> None:
        try:
            descriptor = os.open(path, os.O_RDONLY | os.O_NOFOLLOW | os.O_NONBLOCK)
        except FileNotFoundError:
            self._pairs.pop((bucket, name), None)
            if stored is not None:
                with contextlib.suppress(ApiError):  # somebody else has deleted it too
                    self._storage.objects.delete(bucket, name)
            return
        except OSError:
            return  # it has become a link or a folder
        with os.fdopen(descriptor, "rb") as file:
            if _is_being_written(descriptor):
                return
            mark = _mark(os.fstat(descriptor))
            draft = self._storage.objects.folder.draft()
            while block := file.read(_BLOCK):
                draft.append(block)
        with contextlib.suppress(ApiError):  # its bucket is gone
            new = self._storage.objects.put(bucket, name, draft)
            self._pairs[bucket, name] = _Pair(mark=mark, generation=new.generation)
        self._storage.world.clock.changed()

    def _object_changed(self, bucket: str, name: str, path: Path, stored: Stored | None) -> None:
        if stored is None:
            self._pairs.pop((bucket, name), None)
            with contextlib.suppress(OSError):  # it has become a folder
                path.unlink(missing_ok=True)
            return
        number, draft = tempfile.mkstemp(dir=self._drafts)
        with os.fdopen(number, "wb") as file, stored.content.open() as content:
            while block := content.read(_BLOCK):
                file.write(block)
            os.fchmod(number, 0o666)
        try:
            _make_folders(path.parent, self.path)
            os.replace(draft, path)  # those who have the old one open go on reading it
        except OSError:
            os.unlink(draft)  # a folder and a file of the same name: no file system shows both
            return
        self._pairs[bucket, name] = _Pair(mark=_mark(path.lstat()), generation=stored.generation)


def _files(root: Path) -> Iterator[tuple[str, Mark]]:
    """Every plain file by its name in the bucket; what vanishes while one looks is left out."""
    folders = [""]
    while folders:
        base = folders.pop()
        try:
            entries = list(os.scandir(root / base))
        except OSError:
            continue
        for entry in entries:
            with contextlib.suppress(OSError):
                facts = entry.stat(follow_symlinks=False)
                if stat.S_ISDIR(facts.st_mode):
                    folders.append(f"{base}{entry.name}/")
                elif stat.S_ISREG(facts.st_mode):
                    yield base + entry.name, _mark(facts)


def _mark(facts: os.stat_result) -> Mark:
    return facts.st_ino, facts.st_size, facts.st_mtime_ns


def _is_path(name: str) -> bool:
    """Whether an object's name can be a file's, below the bucket and nowhere else."""
    return "\0" not in name and not {"", ".", ".."} & set(name.split("/"))


def _is_being_written(descriptor: int) -> bool:
    """Whether somebody has the file open to write: the kernel grants no read lease on it then."""
    fcntl.fcntl(descriptor, fcntl.F_SETSIG, signal.SIGURG)  # who opens it meanwhile sends one: to be ignored
    try:
        fcntl.fcntl(descriptor, fcntl.F_SETLEASE, fcntl.F_RDLCK)
    except OSError as error:
        return error.errno == errno.EAGAIN  # any other error: a file system without leases
    fcntl.fcntl(descriptor, fcntl.F_SETLEASE, fcntl.F_UNLCK)
    return False


def _make_folders(path: Path, top: Path) -> None:
    missing = [one for one in (path, *path.parents) if top in one.parents and not one.exists()]
    for one in reversed(missing):
        one.mkdir(exist_ok=True)
        one.chmod(0o777)
