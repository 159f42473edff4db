"""Waits for operations; those that are under way in one zone are looked at together.

A single one is asked for by its name. Where many submits wait at once they share one list, so the wait
costs a zone two calls a second at most, however many operations there are. ``zoneOperations.wait`` is not
called: each is billed to the heavy-weight read quota of the whole project (documented, read 2026-11-20).
"""

from __future__ import annotations

import threading
from collections.abc import Callable, Iterator, Mapping
from contextlib import contextmanager

from gputrain.backends.compute.official import Json, Official
from gputrain.errors import TransientError
from gputrain.gcp import Listing
from gputrain.gcp.shared import Shared

EVERY_S = 0.5
"""Between two looks: the end of an operation is seen within a second, the answer's own way included."""

LONGEST_S = 300.0
"""What nobody saw done in so long is looked at by the names of what it makes."""

NAMES_A_LIST = 50
"""Operations that one list is asked for by name: their filter must fit a URL."""


class Operations:
    """Waits for the ends of operations, for many threads."""

    def __init__(self, official: Official, listed: Callable[[str, str], Listing[Json]]) -> None:
        self._official = official
        self._listed = listed
        self._lock = threading.Lock()
        self._waiting: dict[str, list[str]] = {}
        self._looks: Shared[str, Mapping[str, Json]] = Shared(fresh_s=EVERY_S * 0.9, now=official.access.now)

    def end_of(self, zone: str, operation: Json) -> Json:
        """The operation once it is done, well or with errors.

        Raises:
            TransientError: it was not done after `LONGEST_S`.
        """
        name, waited_s = str(operation["name"]), 0.0
        with self._joined(zone, name):
            while operation.get("status") != "DONE":
                if waited_s > LONGEST_S:
                    raise TransientError(f"{name} in {zone} is not done after {waited_s:g} s")
                self._official.access.sleep(EVERY_S)
                waited_s += EVERY_S
                operation = self._looks.get(zone, lambda: self._read(zone)).get(name) or operation
        return operation

    @contextmanager
    def _joined(self, zone: str, name: str) -> Iterator[None]:
        with self._lock:
            self._waiting.setdefault(zone, []).append(name)
        try:
            yield
        finally:
            with self._lock:
                self._waiting[zone].remove(name)

    def _read(self, zone: str) -> dict[str, Json]:
        with self._lock:
            wanted = sorted(set(self._waiting[zone]))
        if len(wanted) == 1:
            return {wanted[0]: self._official.operation(zone, wanted[0])}
        found: dict[str, Json] = {}
        for first in range(0, len(wanted), NAMES_A_LIST):
            names = "|".join(wanted[first : first + NAMES_A_LIST])
            found |= {str(one["name"]): one for one in self._listed(zone, f'name eq "{names}"').seen}
        return found
