"""Records in a folder of this machine, and what its disk refuses, as errors that say what to do."""

from __future__ import annotations

import contextlib
import errno
import json
import math
import os
import re
import secrets
import time
from collections.abc import Callable, Iterator
from pathlib import Path
from typing import Any, TypeVar

import attrs

from gputrain.errors import CapacityError, PermissionDeniedError, TransientError
from gputrain.keeper import folder
from gputrain.records.board import Entry, Note, OvertakenError, dated, overtaken
from gputrain.records.form import read_record, written
from gputrain.records.record import Record, checked
from gputrain.records.spec import RecordError
from gputrain.threads import new_lock

T = TypeVar("T")

NOTES, IDENTITY = "notes", "identity"
TURN_WITHIN_S, TURN_AGAIN_S = 1.5, 0.1
"""How long one writer is waited for, and once that was in vain: a Ctrl-C, too, is to be over in 2 s."""
TURN_ASKED_S = 0.005
_QUEUES: dict[str, Any] = {}
"""For each folder a lock for which the threads of this process wait, one after the other."""
_STUCK: dict[str, int] = {}
"""For each folder the writer that was waited for in vain."""
_NAME = re.compile(r"[a-z0-9][a-z0-9._-]*")


_UNREAD = "what is kept of jobs cannot be read in"
ELSEWHERE = "Local(root=...) or $GPUTRAIN_HOME"
_MODE = 0o700


class FolderBoard:
    """One file a job; processes of this machine are told apart by a lock on the folder.

    The clock is this machine's own, and so is everybody's who reads it.
    """

    def __init__(self, root: Path) -> None:
        self._root = root

    @property
    def name(self) -> str:
        """``file:///home/me/.local/state/gputrain/jobs/.records``"""
        return f"file://{self._root.absolute()}"

    def was_named(self, name: str) -> bool:
        """Whether a release before 0.3 called it so, by the machine's name of that day too."""
        return re.fullmatch(rf"file://[^/]+{re.escape(str(self._root.absolute()))}", name) is not None

    def read(self, job_id: str) -> Record | None:
        """As of `Board`."""
        return self._there(job_id) if _NAME.fullmatch(job_id) else None

    def write(self, record: Record) -> Record:
        """As of `Board`."""
        return self._in_turn(lambda: self._written(record))

    def _written(self, record: Record) -> Record:
        there = self._there(record.job_id)
        if (there.generation if there else 0) != record.generation:
            raise overtaken(record.job_id)
        # By the clock, too: one that was removed and written anew has no generation of the old one.
        now, generation = time.time(), max(record.generation + 1, time.time_ns())
        fresh = attrs.evolve(dated(record, now), generation=generation, written_at=now, age_s=0.0)
        document = {"generation": generation, "written_at": now, "record": json.loads(written(fresh))}
        folder.write_json(str(self._path(record.job_id)), document)
        return fresh

    def remove(self, record: Record) -> None:
        """As of `Board`."""
        self._in_turn(lambda: self._removed(record))

    def _removed(self, record: Record) -> None:
        there = self._there(record.job_id)
        if there is not None and there.generation == record.generation:
            self._path(record.job_id).unlink(missing_ok=True)

    def entries(self, name: str = "") -> tuple[Entry, ...]:
        """As of `Board`."""
        found: list[Entry] = []
        there = [one for one in listed(str(self._root)) if one.startswith(name) and one.endswith(".json")]
        for file in there:
            with contextlib.suppress(RecordError):
                record = self._there(file.removesuffix(".json"))
                if record is not None and record.asks:
                    backend, at = record.backend, record.created_at
                    place = record.place_on(backend)
                    found.append(Entry(job_id=record.job_id, backend=backend, place=place, written_at=at))
        return tuple(sorted(found, key=lambda one: one.written_at, reverse=True))

    def note(self, name: str) -> Note | None:
        """As of `Board`. Its first line is its generation.

        Raises:
            RecordError: somebody else has written there.
            PermissionDeniedError: it cannot be read.
        """
        with explained(str(self._root), _UNREAD):
            try:
                first, _, content = (self._root / NOTES / f"{name}.json").read_bytes().partition(b"\n")
            except FileNotFoundError:
                return None
        if not re.fullmatch(rb"[0-9]{1,18}", first):
            raise RecordError(
                f"what is kept beside the records as {name} is no note",
                why=f"it does not begin with its generation: {self._root / NOTES / name}.json",
                fix="remove that file, or put it back as it was; the jobs themselves are not touched",
            )
        return Note(content=content, generation=int(first))

    def identity(self) -> str:
        """What tells this folder from one of its path on another machine: drawn once, and kept in it.

        Raises as `explained` and `keep`.
        """
        with explained(str(self._root)):
            if self.note(IDENTITY) is None:
                with contextlib.suppress(OvertakenError):  # another process has drawn it
                    self.keep(IDENTITY, secrets.token_hex(8).encode(), 0)
            found = self.note(IDENTITY)
        return "" if found is None else found.content.decode(errors="replace")[:64]

    def keep(self, name: str, content: bytes, generation: int) -> None:
        """As of `Board`."""
        self._in_turn(lambda: self._kept(name, content, generation))

    def _kept(self, name: str, content: bytes, generation: int) -> None:
        there = self.note(name)
        if (there.generation if there else 0) != generation:
            raise overtaken(name)
        (self._root / NOTES).mkdir(0o700, exist_ok=True)
        path = str(self._root / NOTES / f"{name}.json")
        folder.write_whole(path, b"%d\n%s" % (generation + 1, checked(name, content)))

    def _there(self, job_id: str) -> Record | None:
        try:
            document = json.loads(self._path(job_id).read_bytes())
        except (FileNotFoundError, NotADirectoryError):
            return None
        except (OSError, ValueError, RecursionError) as error:
            raise RecordError(f"what is kept of {job_id} is no record", why=str(error)) from error
        inner = document.get("record") if isinstance(document, dict) else None
        record = read_record(job_id, json.dumps(inner).encode())
        if self.was_named(record.home):
            record = attrs.evolve(record, home=self.name)
        generation, at = document.get("generation"), document.get("written_at")
        if not isinstance(generation, int) or not isinstance(at, float):
            raise RecordError(f"what is kept of {job_id} is no record", why="it has no generation")
        age_s = max(0.0, time.time() - at)
        return attrs.evolve(record, generation=generation, written_at=at, age_s=age_s)

    def _path(self, job_id: str) -> Path:
        return self._root / f"{job_id}.json"

    def _in_turn(self, act: Callable[[], T]) -> T:
        """What an act returns, while no other process is at one. Raises TransientError where one stays."""
        import fcntl  # not on Windows, whose clients keep records in buckets

        lock = str(self._root / ".lock")
        queue = _QUEUES.get(lock) or _QUEUES.setdefault(lock, new_lock())
        with queue, explained(str(self._root)):
            make_private(self._root)
            fd = os.open(lock, os.O_RDWR | os.O_CREAT | os.O_CLOEXEC, 0o600)
            try:
                _await_turn(fd, lock)
                return act()
            finally:  # here, and in no call: a Ctrl-C that falls into one would leave it locked
                try:
                    fcntl.flock(fd, fcntl.LOCK_UN)  # a process that was forked meanwhile has it open, too
                finally:
                    os.close(fd)


def _await_turn(fd: int, lock: str) -> None:
    """Lock the folder. However many write, each is waited for by itself: by the time at which it came."""
    import fcntl

    writer: int | None = None
    until = math.inf
    while True:
        try:
            fcntl.flock(fd, fcntl.LOCK_EX | fcntl.LOCK_NB)
            os.utime(fd)
            return
        except BlockingIOError:
            there = os.fstat(fd).st_mtime_ns
        if there != writer:
            writer, until = there, time.monotonic()
            until += TURN_AGAIN_S if _STUCK.get(lock) == writer else TURN_WITHIN_S
        if time.monotonic() > until:
            _STUCK[lock] = writer
            raise _stays(lock)
        time.sleep(TURN_ASKED_S)


def _stays(lock: str) -> TransientError:
    return TransientError(
        f"another process is at the records in {os.path.dirname(lock)}, and does not come to an end",
        why=f"it has held {lock} for seconds, which takes milliseconds",
        fix="see whether a process of gputrain is stopped (Ctrl-Z) or hangs, and try again",
    )


def make_private(path: Path) -> None:
    """Make a folder, and those above it that are missing, for this user alone."""
    missing = [one for one in (path, *path.parents) if not one.exists()]
    for one in reversed(missing):  # each by itself: mkdir's own parents are for everybody
        with contextlib.suppress(FileExistsError):
            one.mkdir(_MODE)


def listed(path: str) -> list[str]:
    """The names in a folder, none where it is not there yet. PermissionDeniedError: they cannot be read."""
    with explained(path, _UNREAD):
        try:
            return os.listdir(path)
        except FileNotFoundError:
            return []


@contextlib.contextmanager
def explained(path: str, refused: str = "the job cannot be kept in") -> Iterator[None]:
    """Turns what the file system refuses into errors that say what to do; ``refused`` begins their sentence.

    Raises:
        CapacityError: the disk is full.
        PermissionDeniedError: it cannot be written, or read.
    """
    try:
        yield
    except OSError as error:
        if isinstance(error.__context__, KeyboardInterrupt):  # what it fell into could not be ended in order
            raise error.__context__ from None
        if error.errno in (errno.ENOSPC, errno.EDQUOT):
            raise CapacityError(
                f"no room for the job in {path}",
                why=f"{error.strerror}",
                fix=f"make room there, or keep jobs elsewhere: {ELSEWHERE}",
                place=path,
                is_lasting=True,
            ) from error
        raise PermissionDeniedError(
            f"{refused} {path}",
            why=f"{error.strerror}: {error.filename}",
            fix=f"keep jobs in a folder that you may write: {ELSEWHERE}",
            permission="write",
        ) from error
