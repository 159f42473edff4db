"""Keeps a folder of this VM and a ``gs://`` place alike, so that all nodes see one folder of checkpoints.

Files that are new or have changed go up, objects that are new or have changed come down, and what node 0
removes is removed everywhere. Markers (``COMPLETE``) go last and are removed first, so that what a marker
vouches for is there while the marker is. Says ``filled`` once the folder holds all that the bucket does;
ends when standard input does, after sending the rest.
"""

from __future__ import annotations

import contextlib
import errno
import json
import os
import select
import shutil
import signal
import sys

from .cloud import Bucket

TYPE_CHECKING = False
if TYPE_CHECKING:
    from typing import Any

EVERY_S = 0.5
MARKER = "COMPLETE"
DRAFTS = (".tmp", ".part")
DRAFT = ".gputrain-mirror.part"
"""An object on its way into a folder; a name of its own, as the object's may be as long as a name can be."""

NO_PLACE = (errno.ENOTDIR, errno.EISDIR, errno.EEXIST, errno.ENOTEMPTY, errno.ENAMETOOLONG, errno.ELOOP)
"""A file system's words for a name that cannot be a file here: ``a`` beside ``a/b``, or too long."""


class Mirror:
    """One folder and its place in the bucket."""

    def __init__(self, bucket: Bucket, prefix: str, folder: str, may_remove: bool) -> None:
        self.bucket, self.prefix, self.folder, self.may_remove = bucket, prefix, folder, may_remove
        self.alike: dict[str, tuple[Any, str]] = {}
        """Path -> what the file and the object were when they were last the same."""
        self.left_out: dict[str, str] = {}
        """Path -> generation of objects that cannot be files here, each said once."""

    def round(self) -> None:
        """Make both alike once."""
        here, there = self.files(), self.objects()
        for path in sorted(self.alike, key=by_marker, reverse=True):
            if path not in here and path not in there:
                del self.alike[path]
            elif path not in here and self.may_remove:
                self.bucket.remove(self.prefix + path)
                there.pop(path)
                del self.alike[path]
            elif path not in there and not self.may_remove:
                self.unlink(path)
                here.pop(path)
        for path in sorted({*here, *there}, key=by_marker):
            file, generation = self.alike.get(path, (None, ""))
            if path in here and here[path] != file:
                self.send(path)
            elif path in there and there[path] not in (generation, self.left_out.get(path)):
                self.bring(path, there[path])

    def files(self) -> dict[str, Any]:
        """What tells one content of each file from another, by its path below the folder."""
        found = {}
        for root, _, names in os.walk(self.folder):
            for name in names:
                full = os.path.join(root, name)
                stamp = stamp_of(full)
                if stamp is not None and not name.endswith(DRAFTS):
                    found[os.path.relpath(full, self.folder)] = stamp
        return found

    def objects(self) -> dict[str, str]:
        """Generation of every object whose name is a plain path below the prefix."""
        listed = self.bucket.list(self.prefix)
        names = {name[len(self.prefix) :]: generation for name, generation in listed.items()}
        return {path: generation for path, generation in names.items() if is_plain(path)}

    def send(self, path: str) -> None:
        """Put a file into the bucket as it is now; one that is still written comes again."""
        full = os.path.join(self.folder, path)
        try:
            stamp = stamp_of(full)
            with open(full, "rb") as file:
                size = os.fstat(file.fileno()).st_size
                generation = self.bucket.put(self.prefix + path, file if size else b"", size=size or None)
        except FileNotFoundError:
            return
        self.alike[path] = (stamp, generation)

    def bring(self, path: str, generation: str) -> None:
        """Take an object into the folder; the file appears whole, and nothing is written through a link."""
        full = os.path.join(self.folder, path)
        try:
            where = self.own_folder(os.path.dirname(full))
            draft = os.path.join(where, DRAFT)
            with contextlib.suppress(FileNotFoundError):
                os.unlink(draft)
            flags = os.O_WRONLY | os.O_CREAT | os.O_EXCL | os.O_NOFOLLOW
            with open(os.open(draft, flags, 0o644), "wb") as file:
                found = self.bucket.get(self.prefix + path, generation, take=lambda reply: copy(reply, file))
            if found is None:
                os.unlink(draft)
                return
            os.replace(draft, full)
        except OSError as error:
            if error.errno not in NO_PLACE:
                raise
            self.left_out[path] = generation
            complain(f"{path} in the bucket cannot be a file here: {error.strerror}")
            return
        self.alike[path] = (stamp_of(full), generation)

    def own_folder(self, where: str) -> str:
        """A folder below ours, made where it is missing. Raises OSError where a link leads out of ours."""
        os.makedirs(where, exist_ok=True)
        below = os.path.relpath(where, self.folder)
        if os.path.realpath(where) != os.path.normpath(os.path.join(os.path.realpath(self.folder), below)):
            raise OSError(errno.ELOOP, "a link stands in its way", where)
        return where

    def unlink(self, path: str) -> None:
        """Remove a file that node 0 has removed, and its folder when that is empty."""
        full = os.path.join(self.folder, path)
        os.unlink(full)
        del self.alike[path]
        if not os.listdir(os.path.dirname(full)):
            os.rmdir(os.path.dirname(full))


def by_marker(path: str) -> tuple[bool, str]:
    """Markers after all else, or before it the other way round."""
    return path.endswith("/" + MARKER), path


def is_plain(path: str) -> bool:
    """Whether an object's name may become a file's: nothing in a bucket is trusted to say where."""
    return not {"", ".", ".."} & set(path.split("/")) and "\0" not in path and not path.endswith(DRAFTS)


def stamp_of(full: str) -> tuple[int, int, int] | None:
    """What changes when a plain file does; None for anything else."""
    try:
        facts = os.lstat(full)
    except OSError:
        return None
    return (
        (facts.st_ino, facts.st_size, facts.st_mtime_ns)
        if os.path.isfile(full) and not os.path.islink(full)
        else None
    )


def copy(reply: Any, file: Any) -> bool:
    file.seek(0)
    file.truncate()
    shutil.copyfileobj(reply, file, 1 << 20)
    return True


def complain(what: str) -> None:
    with contextlib.suppress(OSError):  # nobody may be listening
        sys.stderr.write(f"gputrain: {what}\n")
        sys.stderr.flush()


def main() -> None:
    order = json.loads(sys.argv[1])
    signal.signal(signal.SIGTERM, signal.SIG_IGN)  # the ranks may save after it
    os.makedirs(order["folder"], exist_ok=True)
    mirror = Mirror(
        Bucket(order["storage"], order["bucket"]), order["prefix"], order["folder"], order["may_remove"]
    )
    try:
        mirror.round()
    except OSError as error:
        sys.stdout.write(f"{error}\n")
        sys.exit(1)
    sys.stdout.write("filled\n")
    sys.stdout.flush()
    is_last = False
    while not is_last:
        is_last = bool(select.select([sys.stdin], [], [], EVERY_S)[0])
        try:
            mirror.round()
        except OSError as error:
            complain(f"the folder and the bucket could not be made alike: {error}")
            if is_last:
                sys.exit(1)


if __name__ == "__main__":
    main()
