"""Waits for operations; those that are under way in one zone are looked at together.

A single one is asked for by its name. Where many submits wait at once they share one list, so the wait
costs a zone two calls a second at most, however many operations there are. ``zoneOperations.wait`` is not
called: each is billed to the heavy-weight read quota of the whole project (documented, read 2026-11-20).
"""

from __future__ import annotations

import threading
from collections.abc import Callable, Iterator
from contextlib import contextmanager

from gputrain.backends.compute.official import Json, Official
from gputrain.gcp import Listing

EVERY_S = 0.5
"""Between two looks: the end of an operation is seen within a second, the answer's own way included."""

NAMES_A_LIST = 50
"""Operations that one list is asked for by name: their filter must fit a URL."""


class _Board:
    """What was seen of one zone's operations that somebody waits for."""

    def __init__(self) -> None:
        self.lock = threading.Lock()
        self.waiting: set[str] = set()
        self.seen: dict[str, Json] = {}
        self.until = float("-inf")


class Operations:
    """Waits for the ends of operations, for many threads."""

    def __init__(self, official: Official, listed: Callable[[str, str], Listing[Json]]) -> None:
        self._official = official
        self._listed = listed
        self._lock = threading.Lock()
        self._boards: dict[str, _Board] = {}

    def end_of(self, zone: str, operation: Json) -> Json:
        """The operation once it is done, well or with errors."""
        name = str(operation["name"])
        with self._joined(zone, name) as board:
            while operation.get("status") != "DONE":
                self._official.access.sleep(EVERY_S)
                operation = self._look(board, zone, name) or operation
        return operation

    @contextmanager
    def _joined(self, zone: str, name: str) -> Iterator[_Board]:
        with self._lock:
            board = self._boards.setdefault(zone, _Board())
            board.waiting.add(name)
        try:
            yield board
        finally:
            with self._lock:
                board.waiting.discard(name)
                board.seen.pop(name, None)

    def _look(self, board: _Board, zone: str, name: str) -> Json | None:
        now = self._official.access.now
        with board.lock:
            if now() >= board.until:
                with self._lock:
                    wanted = sorted(board.waiting)
                board.seen = self._read(zone, wanted)
                board.until = now() + EVERY_S * 0.9
            return board.seen.get(name)

    def _read(self, zone: str, wanted: list[str]) -> dict[str, Json]:
        if len(wanted) == 1:
            return {wanted[0]: self._official.operation(zone, wanted[0])}
        found: dict[str, Json] = {}
        for first in range(0, len(wanted), NAMES_A_LIST):
            names = "|".join(wanted[first : first + NAMES_A_LIST])
            found |= {str(one["name"]): one for one in self._listed(zone, f'name eq "{names}"').items}
        return found
