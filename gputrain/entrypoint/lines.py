"""Lines out of bytes, and lines as the log wants them. Pure."""

from __future__ import annotations

import json
import math
import re
import time

from .contract import LONGEST_LINE as LIMIT

TYPE_CHECKING = False
if TYPE_CHECKING:
    from typing import Any, Dict, List, Optional, Union

PROGRESS_EVERY_S = 5.0
"""How often a progress bar that redraws one line is shown."""

_RANK_PREFIX = re.compile(rb"^\[rank\d+\]: ?")
"""torch's excepthook puts it before the lines of a traceback, once there is a process group."""

_TRACEBACK = b"Traceback (most recent call last):"


class Lines:
    """Cuts one stream into lines, keeps a bounded rest, thins out progress bars."""

    def __init__(self) -> None:
        self._rest = b""
        self._shown_at = 0.0

    def feed(self, data: bytes, now: float) -> List[bytes]:
        """The lines that are complete now, without their ends."""
        told = self._rest + data
        *whole, self._rest = told.split(b"\n")
        if b"\r" in told or max(map(len, whole), default=0) > LIMIT:
            lines = [piece for line in whole for piece in _pieces(_as_shown(line))]
        else:  # most output by far: nothing is redrawn, and no line is too long
            lines = [b"" if line.isspace() else line for line in whole]
        if b"\r" in self._rest[:-1]:
            lines += self._progress(now)
        *pieces, self._rest = _pieces(self._rest)
        return lines + pieces

    def _progress(self, now: float) -> List[bytes]:
        drawn, _, self._rest = self._rest.rpartition(b"\r")
        if not self._rest:
            drawn, _, self._rest = drawn.rpartition(b"\r")
            self._rest += b"\r"
        if now - self._shown_at < PROGRESS_EVERY_S:
            return []
        self._shown_at = now
        return [line for line in [_as_shown(drawn)] if line.strip()]

    def flush(self) -> List[bytes]:
        """The last line, if it has no end."""
        rest, self._rest = self._rest, b""
        return [_as_shown(rest)] if rest else []


def _as_shown(line: bytes) -> bytes:
    """What a terminal shows of a line that was redrawn with carriage returns."""
    for segment in reversed(line.split(b"\r")):
        if segment.strip():
            return segment
    return b""


def _pieces(line: bytes) -> List[bytes]:
    """No longer than the limit, and cut between characters."""
    pieces = []
    while len(line) > LIMIT:
        cut = LIMIT
        while cut > LIMIT - 4 and line[cut] & 0xC0 == 0x80:
            cut -= 1
        pieces.append(line[:cut])
        line = line[cut:]
    return [*pieces, line]


class Severity:
    """The severity of each line of one stream.

    stdout is INFO. stderr is WARNING, as progress bars, warnings and the logging module write there; only the
    lines of a Python traceback are ERROR.
    """

    def __init__(self, is_stderr: bool) -> None:
        self._usual = "WARNING" if is_stderr else "INFO"
        self._in_traceback = False

    def of(self, line: bytes) -> str:
        """The severity of the stream's next line."""
        line = _RANK_PREFIX.sub(b"", line) if line.startswith(b"[rank") else line
        if line.startswith(_TRACEBACK):
            self._in_traceback = True
            return "ERROR"
        if not self._in_traceback:
            return self._usual
        self._in_traceback = line.startswith((b" ", b"\t"))
        return "ERROR"


def as_text(line: bytes, rank: int) -> bytes:
    """A rank's line with its rank in front; JSON stays bare, for the platform."""
    return line if line.startswith(b"{") else b"[%d] %s" % (rank, line)


def as_json(line: bytes, rank: int, severity: str, at: str) -> bytes:
    """A rank's line as one JSON object; a structured line keeps its fields."""
    entry = _structured(line)
    if entry is None:  # put together by hand, as there are some hundred thousand a second
        message = json.dumps(line.decode("utf-8", "backslashreplace"))
        whole = f'{{"severity": "{severity}", "message": {message}, "rank": {rank}, "time": "{at}"}}'
        return whole.encode("ascii")
    return json.dumps({**entry, "rank": rank}).encode()


def _structured(line: bytes) -> Optional[Dict[str, Any]]:
    if not line.startswith(b"{"):
        return None
    try:
        entry = json.loads(line.decode(), parse_float=_number, parse_constant=_number)
    except (ValueError, RecursionError):
        return None
    return entry if "severity" in entry or "message" in entry else None


def _number(text: str) -> Union[float, str]:
    """What Python takes for a number and JSON does not have, NaN or 1e999, becomes a text.

    >>> _number("1.5"), _number("NaN"), _number("-Infinity")
    (1.5, 'nan', '-inf')
    """
    number = float(text)
    return number if math.isfinite(number) else str(number)


def timestamp(seconds: float) -> str:
    """A moment in RFC 3339, UTC, to the microsecond.

    >>> timestamp(0.25)
    '1970-01-01T00:00:00.250000Z'
    """
    whole, micros = divmod(int(seconds * 1_000_000), 1_000_000)
    return time.strftime("%Y-%m-%dT%H:%M:%S", time.gmtime(whole)) + f".{micros:06d}Z"
