"""How often jobs were started again: Vertex AI does not tell, but locks do, and so does a look."""

from __future__ import annotations

import threading
from collections.abc import Callable

from gputrain.backends.vertex.locks import Lock
from gputrain.backends.vertex.states import SeenJob


class Restarts:
    """Counts what its looks see, and reads the lock where others may have seen more: first and last."""

    def __init__(self, lock_of: Callable[[SeenJob], Lock]) -> None:
        self._lock_of = lock_of
        self._lock = threading.Lock()
        self._known: dict[str, tuple[int, bool]] = {}

    def of(self, seen: SeenJob) -> int:
        """0 for a job in its first run, one more for each restart."""
        if not seen.may_restart:
            return 0
        count, ran = self._known.get(seen.resource, (None, False))
        runs = seen.state == "JOB_STATE_RUNNING"
        if seen.started_at is None:
            count, runs = 0, True  # the run to come is the first
        elif count is None or seen.has_ended:
            count = max(count or 0, self._lock_of(seen).restarts)
        elif runs and not ran:
            count += 1
        with self._lock:
            self._known[seen.resource] = (count, runs)
        return count
