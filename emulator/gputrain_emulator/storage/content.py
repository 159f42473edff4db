"""The bytes of objects: few in memory, more in files of one folder, named by a number, never by a caller."""

from __future__ import annotations

import base64
import functools
import hashlib
import io
import itertools
import weakref
from collections.abc import Callable
from pathlib import Path
from typing import BinaryIO

from google_crc32c import Checksum

_BLOCK = 1 << 20
SMALL_BYTES = 1 << 16
"""What is kept in memory: records and statuses are written every second, and are short."""


class Content:
    """Bytes that may be appended to; they last as long as something refers to them.

    `md5` is empty for composed ones, as Google has none for them.
    """

    def __init__(self, folder: Folder, number: int) -> None:
        self._folder, self._name = folder, f"{number:08d}"
        self._small: bytes | None = b""
        self._crc = Checksum()  # type: ignore[no-untyped-call]  # upstream has no types
        self._md5 = hashlib.md5(usedforsecurity=False)
        self.size = 0
        self.is_composed = False

    @property
    def crc32c(self) -> str:
        return base64.b64encode(self._crc.digest()).decode()  # type: ignore[no-untyped-call]

    @property
    def md5(self) -> str:
        return "" if self.is_composed else base64.b64encode(self._md5.digest()).decode()

    def append(self, data: bytes | memoryview) -> None:
        """Append bytes, a block at a time: they may be more than the memory."""
        for first in range(0, len(data), _BLOCK):
            block = bytes(data[first : first + _BLOCK])
            self._write(block)
            self.size += len(block)
            self._crc.update(block)  # type: ignore[no-untyped-call]
            self._md5.update(block)

    def append_all(self, other: Content) -> None:
        """Append another object's bytes."""
        with other.open() as file:
            while block := file.read(_BLOCK):
                self.append(block)

    def open(self) -> BinaryIO:
        """A reader of all bytes."""
        path = self._folder.path / self._name if self._small is None else None
        return io.BytesIO(self._small or b"") if path is None else path.open("rb")

    def read(self, start: int = 0, length: int | None = None) -> bytes:
        """The bytes from `start`, at most `length` of them."""
        with self.open() as file:
            file.seek(start)
            return file.read(-1 if length is None else length)

    def _write(self, block: bytes) -> None:
        if self._small is not None and self.size + len(block) <= SMALL_BYTES:
            self._small += block
            return
        path = self._folder.path / self._name
        if self._small is not None:
            block, self._small = self._small + block, None
            self._end = weakref.finalize(self, path.unlink, missing_ok=True)
            self._end.atexit = False  # the whole folder goes with the emulator
        with path.open("ab") as file:
            file.write(block)


class Folder:
    """Where contents lie.

    Args:
        place: gives a folder, once there is something for it.
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

    def draft(self) -> Content:
        return Content(self, next(self._numbers))

    def keep(self, data: bytes | memoryview) -> Content:
        draft = self.draft()
        draft.append(data)
        return draft
