"""The bytes of objects: few in memory, more in files of one folder, named by a number, never by a caller."""

from __future__ import annotations

import base64
import functools
import hashlib
import io
import itertools
import weakref
from collections.abc import Callable
from dataclasses import dataclass
from pathlib import Path
from typing import BinaryIO

from google_crc32c import Checksum

_BLOCK = 1 << 20
SMALL_BYTES = 1 << 16
"""What is kept in memory: records, locks and statuses are written every second, and are short."""


class File:
    """Bytes that last as long as something refers to them, so a reader never loses them to a later write."""

    def __init__(self, folder: Folder, number: int) -> None:
        self._folder = folder
        self._name = f"{number:08d}"
        self._small: bytes | None = b""

    @property
    def path(self) -> Path:
        """Where they are if they are many."""
        return self._folder.path / self._name

    def append(self, data: bytes) -> None:
        if self._small is not None:
            if len(self._small) + len(data) <= SMALL_BYTES:
                self._small += data
                return
            data, self._small = self._small + data, None
            self._end = weakref.finalize(self, self.path.unlink, missing_ok=True)
            self._end.atexit = False  # the whole folder goes with the emulator
        with self.path.open("ab") as file:
            file.write(data)

    def open(self) -> BinaryIO:
        """A reader of all of them."""
        return self.path.open("rb") if self._small is None else io.BytesIO(self._small)


@dataclass(frozen=True, kw_only=True)
class Content:
    """Bytes that no longer change; `md5` is empty for composed ones, as Google has none for them."""

    file: File
    size: int
    crc32c: str
    md5: str

    def read(self, start: int = 0, length: int | None = None) -> bytes:
        """The bytes from `start`, at most `length` of them."""
        with self.file.open() as file:
            file.seek(start)
            return file.read(-1 if length is None else length)


class Draft:
    """What is still being written, such as that of a resumable upload."""

    def __init__(self, file: File) -> None:
        self.file = file
        self.size = 0
        self._crc = Checksum()  # type: ignore[no-untyped-call]  # upstream has no types
        self._md5 = hashlib.md5(usedforsecurity=False)

    def append(self, data: bytes | memoryview) -> None:
        """Append bytes, a block at a time: they may be more than the memory."""
        for first in range(0, len(data), _BLOCK):
            block = bytes(data[first : first + _BLOCK])
            self.file.append(block)
            self.size += len(block)
            self._crc.update(block)  # type: ignore[no-untyped-call]
            self._md5.update(block)

    def append_all(self, content: Content) -> None:
        """Append another object's bytes."""
        with content.file.open() as file:
            while block := file.read(_BLOCK):
                self.append(block)

    def finish(self, *, md5: str | None = None) -> Content:
        """What was written, as content; `md5` replaces the one that was computed."""
        crc = self._crc.digest()  # type: ignore[no-untyped-call]
        own = base64.b64encode(self._md5.digest()).decode()
        return Content(
            file=self.file,
            size=self.size,
            crc32c=base64.b64encode(crc).decode(),
            md5=own if md5 is None else md5,
        )


class Folder:
    """Where contents lie.

    Args:
        place: tells a folder, once there is something for it.
    """

    def __init__(self, place: Callable[[], Path]) -> None:
        self._place = place
        self._numbers = itertools.count(1)

    @functools.cached_property
    def path(self) -> Path:
        """The folder, which is there."""
        found = self._place()
        found.mkdir(parents=True, exist_ok=True)
        return found

    def draft(self) -> Draft:
        return Draft(File(self, next(self._numbers)))

    def keep(self, data: bytes | memoryview) -> Content:
        draft = self.draft()
        draft.append(data)
        return draft.finish()
