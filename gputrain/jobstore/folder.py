"""Documents in a folder of this machine, for the processes of this machine."""

from __future__ import annotations

import contextlib
import errno
import json
import os
import re
import time
from collections.abc import Iterator, Mapping
from pathlib import Path
from typing import Any

import attrs

from gputrain.errors import CapacityError, PermissionDeniedError
from gputrain.fields import invalid, path
from gputrain.jobstore.record import RecordError
from gputrain.jobstore.store import Conflict, Document, DocumentStore, JobRef, Version
from gputrain.runtime import host

ELSEWHERE = "keep jobs in another folder: Local(root=...), or export GPUTRAIN_HOME=FOLDER"
_NAME = re.compile(r"(?:[a-z0-9][a-z0-9._-]*/)*[a-z0-9][a-z0-9._-]*")
_SCHEME = re.compile(r"[A-Za-z][A-Za-z0-9+.-]*://")


def folder_path(value: Any) -> Path:
    """A folder of this machine, by its whole path. Raises ValueError."""
    found = path(value)
    if _SCHEME.match(found):  # it would lie in a folder that is called so, by mistake
        raise ValueError("it is an address, not a folder of this machine")
    try:
        return Path(found).expanduser().absolute()
    except RuntimeError:
        raise ValueError("this machine knows no such user") from None


def usual_root() -> Path:
    """The folder of jobs where none is named. Raises SpecError where a variable names none."""
    is_ours = bool(os.environ.get("GPUTRAIN_HOME"))
    variable, below = ("GPUTRAIN_HOME", "jobs") if is_ours else ("XDG_STATE_HOME", "gputrain/jobs")
    value = os.environ.get(variable) or "~/.local/state"
    try:
        return folder_path(value) / below
    except ValueError as error:
        fix = f"set {variable} to the path of a folder"
        raise invalid(f"${variable}", value, f"a folder's path ({error})", fix) from error


def make_private(path: Path) -> None:
    """Make a folder, and those above it that are missing, for this user alone."""
    missing = [one for one in (path, *path.parents) if not one.exists()]
    for one in reversed(missing):  # each by itself: `parents=True` makes them for everybody
        one.mkdir(0o700, exist_ok=True)


@contextlib.contextmanager
def explained(path: str | Path, verb: str = "written") -> Iterator[None]:
    """Turn what the file system refuses into errors that say what to do.

    Raises:
        CapacityError: the disk is full.
        PermissionDeniedError: the folder cannot be written, or read.
    """
    try:
        yield
    except OSError as error:
        if error.errno in (errno.ENOSPC, errno.EDQUOT):
            raise CapacityError(
                f"no room for the job in {path}",
                why=f"{error.strerror}",
                fix=f"make room there, or {ELSEWHERE}",
                place=str(path),
                is_lasting=True,
            ) from error
        raise PermissionDeniedError(
            f"{path} cannot be {verb}",
            why=f"{error.strerror}: {error.filename}",
            fix=ELSEWHERE,
            permission="write",
        ) from error


@attrs.frozen
class FolderStore(DocumentStore):
    """One file a document: a line of JSON with its version and metadata, then its content.

    A lock on the folder lets one process write at a time. The clock is this machine's, as is everybody's who
    reads here.
    """

    root: Path

    @property
    def uri(self) -> str:
        return f"{self.root.absolute().as_uri()}/"

    def ref(self, job_id: str) -> JobRef:
        """A short name in the usual folder, for what most people have most of."""
        home = "" if self.root == usual_root() else str(self.root)
        return JobRef(project="", home=home, name=job_id)

    def read(self, name: str) -> Document | None:
        """Raises RecordError where the file has another form."""
        with explained(self.root, "read"):
            try:
                first, _, content = self._path(name).read_bytes().partition(b"\n")
            except (FileNotFoundError, NotADirectoryError):
                return None
        try:
            header: dict[str, Any] = json.loads(first)
            age_s = max(0.0, time.time() - header.pop("written_at"))
            return Document(name=name, age_s=age_s, content=content, **header)
        except (ValueError, TypeError, LookupError, AttributeError, RecursionError) as error:
            raise RecordError(
                f"{self._path(name)} is not a document of gputrain", why=str(error), fix="move the file away"
            ) from error

    def swap(
        self, name: str, content: bytes, version: int, metadata: Mapping[str, str] | None = None
    ) -> Version:
        """Raises CapacityError where the disk is full."""
        with self._locked(name) as there:
            if (there.version if there else 0) != version:
                raise Conflict.over(name)
            now = time.time()
            fresh = Version(
                name=name,
                version=max(version + 1, time.time_ns()),  # one that was deleted and written anew is another
                created_at=there.created_at if there else now,
                metadata=metadata or {},
            )
            header = {
                "version": fresh.version, "created_at": fresh.created_at, "written_at": now,
                "metadata": dict(fresh.metadata),
            }  # fmt: skip
            make_private(self._path(name).parent)
            host.put(str(self._path(name)), json.dumps(header).encode() + b"\n" + content, 0o600)
            return fresh

    def list(self, prefix: str) -> tuple[Version, ...]:
        """Files of another form are left out."""
        folder = self.root / os.path.dirname(prefix)
        with explained(self.root, "read"):
            found_there = folder.iterdir() if folder.is_dir() else ()
            there = sorted(one.name for one in found_there if one.is_file())
        found = []
        for file in there:
            name = f"{os.path.dirname(prefix)}/{file}"
            if name.startswith(prefix) and _NAME.fullmatch(name):
                with contextlib.suppress(RecordError):
                    if (document := self.read(name)) is not None:
                        found.append(document)
        return tuple(found)

    def _path(self, name: str) -> Path:
        if not _NAME.fullmatch(name):
            raise ValueError(f"{name!r} is no name of a document")
        return self.root / name

    @contextlib.contextmanager
    def _locked(self, name: str) -> Iterator[Document | None]:
        """The document as it is, while no other process writes."""
        import fcntl  # not on Windows, whose clients keep records in buckets

        with explained(self.root):
            make_private(self.root)
            fd = os.open(self.root / ".lock", os.O_RDWR | os.O_CREAT | os.O_CLOEXEC, 0o600)
            try:
                fcntl.flock(fd, fcntl.LOCK_EX)
                yield self.read(name)
            finally:
                os.close(fd)
