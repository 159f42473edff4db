"""The bytes of objects: files named by a number in one folder, never by anything a caller chose."""

from __future__ import annotations

import base64
import hashlib
import itertools
import weakref
from dataclasses import dataclass
from pathlib import Path

from google_crc32c import Checksum

_BLOCK = 1 << 20


class File:
    """A file that lasts as long as something refers to it, so a reader never loses it to a later write."""

    def __init__(self, path: Path) -> None:
        self.path = path
        self._end = weakref.finalize(self, path.unlink, missing_ok=True)
        self._end.atexit = False  # the whole folder goes with the emulator


@dataclass(frozen=True, kw_only=True)
class Content:
    """Bytes that no longer change; `md5` is empty for composed ones, as Google has none for them."""

    file: File
    size: int
    crc32c: str
    md5: str

    def read(self, start: int = 0, length: int | None = None) -> bytes:
        """The bytes from `start`, at most `length` of them."""
        with self.file.path.open("rb") as file:
            file.seek(start)
            return file.read(-1 if length is None else length)


class Draft:
    """A file that is still being written, such as that of a resumable upload."""

    def __init__(self, file: File) -> None:
        self.file = file
        self.size = 0
        self._crc = Checksum()  # type: ignore[no-untyped-call]  # upstream has no types
        self._md5 = hashlib.md5(usedforsecurity=False)

    def append(self, data: bytes) -> None:
        with self.file.path.open("ab") as file:
            file.write(data)
        self.size += len(data)
        self._crc.update(data)  # type: ignore[no-untyped-call]
        self._md5.update(data)

    def append_all(self, content: Content) -> None:
        """Append another object's bytes, a block at a time."""
        with content.file.path.open("rb") as file:
            while block := file.read(_BLOCK):
                self.append(block)

    def finish(self, *, md5: str | None = None) -> Content:
        """What was written, as content; `md5` replaces the one that was computed."""
        if not self.size:
            self.file.path.touch()  # nothing has been appended, and a reader wants a file
        crc = self._crc.digest()  # type: ignore[no-untyped-call]
        own = base64.b64encode(self._md5.digest()).decode()
        return Content(
            file=self.file,
            size=self.size,
            crc32c=base64.b64encode(crc).decode(),
            md5=own if md5 is None else md5,
        )


class Folder:
    """Where contents lie."""

    def __init__(self, path: Path) -> None:
        self._path = path
        self._numbers = itertools.count(1)
        path.mkdir(parents=True, exist_ok=True)

    def draft(self) -> Draft:
        return Draft(File(self._path / f"{next(self._numbers):08d}"))

    def keep(self, data: bytes) -> Content:
        draft = self.draft()
        draft.append(data)
        return draft.finish()
