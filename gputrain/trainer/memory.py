"""What the submits of one trainer learn from each other."""

from __future__ import annotations

import threading

from gputrain.planning import Attempt, Blocks


class Memory:
    """What the submits of one trainer learn from each other: where there was no room. Shared by threads."""

    def __init__(self) -> None:
        self._lock = threading.Lock()
        self._blocks = Blocks()

    @property
    def blocks(self) -> Blocks:
        """The places that come last for now."""
        return self._blocks

    def learn(self, attempt: Attempt) -> None:
        """Take in one answer."""
        with self._lock:
            self._blocks = self._blocks.after(attempt)
