"""The logs of all nodes as one: in the order of time, no line twice, none held up by a clock that is off."""

from __future__ import annotations

import re
from collections.abc import Iterable, Iterator, Sequence

import attrs

from gputrain.backends.agent_reports import read_line
from gputrain.backends.base import LogLine

USUAL_BYTES = 160
"""Of a line: a guess, from which the last ones are looked for."""


@attrs.frozen
class LoggedLine:
    """One line of a node's log, and where it stands."""

    moment: float
    """Seconds since 1970; never before the entry above it, so that no node's lines change their order."""
    node_rank: int
    end: int
    """Offset in the node's log after this line."""
    line: LogLine


@attrs.frozen
class Tail:
    """What one node wrote beyond a cursor, or a bounded part of it."""

    entries: tuple[LoggedLine, ...] = ()
    has_more: bool = False

    @classmethod
    def of(cls, data: bytes, node_rank: int, offset: int, latest: float, *, has_more: bool = False) -> Tail:
        """That of a part of a log which begins at an offset; ``latest`` as for `stamped`."""
        lines = _read(data, node_rank, offset)
        return cls(tuple(stamped(lines, node_rank, latest)), has_more)


def stamped(lines: Iterable[tuple[int, LogLine]], node_rank: int, latest: float) -> Iterator[LoggedLine]:
    """The entries of lines that end at some offsets.

    Args:
        latest: a stamp beyond it is of a clock that is off: a node's may be, by hours, and a rank may stamp
            its lines itself. Such a line stands where the one before it does, and holds up nobody.
    """
    moment = 0.0
    for end, line in lines:
        stamp = line.time.timestamp() if line.time else 0.0
        moment = max(moment, stamp) if stamp <= latest else moment
        yield LoggedLine(moment, node_rank, end, line)


def merged(tails: Sequence[Tail], settled: float) -> list[LoggedLine]:
    """The entries that may be shown, in the order of time.

    Args:
        settled: until when nothing is under way any more, in seconds since 1970.
    """
    # Beyond the last line read of a node that has more, another node's lines would come too early.
    known = min([settled, *(tail.entries[-1].moment for tail in tails if tail.has_more and tail.entries)])
    found = [one for tail in tails for one in tail.entries if one.moment <= known]
    return sorted(found, key=lambda one: (one.moment, one.node_rank, one.end))


def _read(data: bytes, node_rank: int, offset: int) -> Iterator[tuple[int, LogLine]]:
    """The lines, each with where it ends; a carriage return ends none."""
    lines = data.splitlines(keepends=True) if b"\r" not in data else re.findall(rb"[^\n]*\n|[^\n]+$", data)
    for raw in lines:
        offset += len(raw)
        yield offset, read_line(raw.rstrip(b"\n").decode("utf-8", "backslashreplace"), node_rank)
