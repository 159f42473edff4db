"""The bytes of requests and replies: few in memory, more in a file that no name leads to."""

from __future__ import annotations

import mmap
import re
import tempfile
import zlib
from io import BufferedIOBase
from typing import IO

from gputrain_emulator.errors import ApiError

LARGE = 16 << 20
"""From so many bytes on a body lies in a file and is a view of it: a checkpoint is sent in one request."""

_BLOCK = 1 << 20


def counted(file: BufferedIOBase, size: int) -> bytes | memoryview:
    """So many bytes of a connection. Raises ApiError where it ends before."""
    if size < LARGE:
        return _exactly(file, size)
    with tempfile.TemporaryFile() as kept:
        _copy(file, kept, size)
        return mapped(kept, 0, size)


def chunks(file: BufferedIOBase, limit: int) -> bytes | memoryview:
    """A body whose length nobody knows before its end, at most ``limit`` bytes of it."""
    with tempfile.SpooledTemporaryFile(max_size=LARGE) as kept:
        while size := _next_chunk(file):
            refuse_above(limit, kept.tell() + size)
            _copy(file, kept, size)
            file.readline(8)
        while file.readline(8192).strip():
            pass
        size = kept.tell()
        kept.seek(0)
        return kept.read() if size < LARGE else mapped(kept, 0, size)


def unpacked(body: bytes | memoryview, limit: int) -> bytes:
    """A gzip body as it was before, at most ``limit`` bytes of it."""
    unpacker = zlib.decompressobj(wbits=16 + zlib.MAX_WBITS)
    try:
        plain = unpacker.decompress(body, limit)
    except zlib.error:
        raise ApiError(400, "The request body is not the gzip that its Content-Encoding says.") from None
    if unpacker.unconsumed_tail:
        refuse_above(limit, limit + 1)
    if not unpacker.eof:
        raise ApiError(400, "The gzip of the request body ends early.")
    return plain


def refuse_above(limit: int, size: int) -> None:
    """413 for more than is taken."""
    if size > limit:
        raise ApiError(413, f"Request payload size exceeds the limit: {limit} bytes.")


def mapped(file: IO[bytes] | tempfile.SpooledTemporaryFile[bytes], start: int, size: int) -> memoryview:
    """A view of a part of a file, which may be removed meanwhile."""
    file.flush()
    whole = mmap.mmap(file.fileno(), start + size, access=mmap.ACCESS_READ)
    return memoryview(whole)[start:]


def _next_chunk(file: BufferedIOBase) -> int:
    line = file.readline(1024).partition(b";")[0].strip()
    if not re.fullmatch(rb"[0-9a-fA-F]{1,16}", line):
        raise ApiError(400, "Malformed chunk.")
    return int(line, 16)


def _copy(file: BufferedIOBase, to: IO[bytes] | tempfile.SpooledTemporaryFile[bytes], size: int) -> None:
    while size:
        size -= to.write(_exactly(file, min(size, _BLOCK)))


def _exactly(file: BufferedIOBase, size: int) -> bytes:
    body = file.read(size) if size else b""
    if len(body) != size:
        raise ApiError(400, "The request body ended early.")
    return body
