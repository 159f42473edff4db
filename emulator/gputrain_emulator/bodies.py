"""The bodies of requests, read from their connections."""

from __future__ import annotations

import re
from io import BufferedIOBase

from gputrain_emulator.errors import ApiError


def counted(file: BufferedIOBase, size: int) -> bytes:
    """So many bytes of a connection. Raises ApiError where it ends before."""
    body = file.read(size) if size else b""
    if len(body) != size:
        raise ApiError(400, "The request body ended early.")
    return body


def chunks(file: BufferedIOBase, limit: int) -> bytes:
    """A body whose length nobody knows before its end, at most ``limit`` bytes of it."""
    found: list[bytes] = []
    total = 0
    while size := _next_chunk(file):
        total += size
        refuse_above(limit, total)
        found.append(counted(file, size))
        file.readline(8)
    while file.readline(8192).strip():
        pass
    return b"".join(found)


def refuse_above(limit: int, size: int) -> None:
    """413 for more than is taken."""
    if size > limit:
        raise ApiError(413, f"Request payload size exceeds the limit: {limit} bytes.")


def _next_chunk(file: BufferedIOBase) -> int:
    line = file.readline(1024).partition(b";")[0].strip()
    if not re.fullmatch(rb"[0-9a-fA-F]{1,16}", line):
        raise ApiError(400, "Malformed chunk.")
    return int(line, 16)
