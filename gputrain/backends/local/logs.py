"""The log lines of all nodes of a job, merged in the order of time, from a cursor on."""

from __future__ import annotations

import os
import time
from collections.abc import Iterator

import attrs

from gputrain.backends.base import LogLine, LogPage
from gputrain.backends.results import read_line
from gputrain.keeper import folder

CHUNK_BYTES = 1 << 18
"""How much of a node's log one page reads at most: a page stays small, however much a rank writes."""
_SETTLES_S = 0.02
"""Time between an agent's stamp on a line and the line in the file, at most."""
_CLOCK_SLACK_S = 1.0


@attrs.frozen
class _Entry:
    moment: float
    """Seconds since 1970; never before the entry above it, so that no node's lines change their order."""
    node_rank: int
    end: int
    """Offset in the file after this line."""
    line: LogLine


@attrs.frozen
class _Tail:
    """What one node's log holds beyond the cursor."""

    entries: tuple[_Entry, ...]
    has_more: bool


def read(path: str, cursor: str, *, is_over: bool) -> LogPage:
    """The next page of the job's log.

    Args:
        path: the job's folder.
        cursor: of the page before; empty: the beginning.
        is_over: the job writes no more, so the last lines need not wait for their peers.
    """
    order = folder.read_json(os.path.join(path, folder.ORDER)) or {}
    nodes = order.get("nodes")
    offsets = _offsets(cursor, len(nodes) if isinstance(nodes, list) else 0)
    settled = float("inf") if is_over else time.time() - _SETTLES_S
    tails = [_tail(path, node_rank, offset, is_over) for node_rank, offset in enumerate(offsets)]
    # Beyond the last line read of a node that has more, another node's lines would come too early.
    known = min([settled, *(tail.entries[-1].moment for tail in tails if tail.has_more and tail.entries)])
    page = sorted((one for tail in tails for one in tail.entries if one.moment <= known), key=_order)
    for entry in page:
        offsets[entry.node_rank] = entry.end
    return LogPage(lines=tuple(entry.line for entry in page), cursor=",".join(map(str, offsets)))


def _order(entry: _Entry) -> tuple[float, int, int]:
    return entry.moment, entry.node_rank, entry.end


def _offsets(cursor: str, nodes: int) -> list[int]:
    offsets = [int(part) for part in cursor.split(",") if part.isdecimal()]
    return offsets if len(offsets) == nodes else [0] * nodes


def _tail(path: str, node_rank: int, offset: int, is_over: bool) -> _Tail:
    try:
        with open(os.path.join(path, folder.NODE_LOG.format(node_rank=node_rank)), "rb") as file:
            size = file.seek(0, os.SEEK_END)
            file.seek(offset)
            data = file.read(CHUNK_BYTES)
            if b"\n" not in data and offset + len(data) < size:
                data += file.readline()
    except FileNotFoundError:
        return _Tail((), False)
    at_end = offset + len(data) >= size
    if not (at_end and is_over):
        data = data[: data.rfind(b"\n") + 1]
    return _Tail(tuple(_entries(data, node_rank, offset)), not at_end)


def _entries(data: bytes, node_rank: int, offset: int) -> Iterator[_Entry]:
    moment, now = 0.0, time.time()
    for raw in data.splitlines(keepends=True) if b"\r" not in data else _split(data):
        offset += len(raw)
        line = read_line(raw.rstrip(b"\n").decode("utf-8", "backslashreplace"), node_rank)
        stamp = line.time.timestamp() if line.time else 0.0
        # A rank may stamp its lines itself, with any clock; such a stamp must not hold up the others.
        moment = max(moment, stamp) if stamp <= now + _CLOCK_SLACK_S else moment
        yield _Entry(moment, node_rank, offset, line)


def _split(data: bytes) -> Iterator[bytes]:
    *whole, last = data.split(b"\n")
    yield from (line + b"\n" for line in whole)
    if last:
        yield last
