"""A listener of one job's changes, and the end of the telling."""

from __future__ import annotations

from collections.abc import Callable

from gputrain.job.events import Changes, Listener
from gputrain.job.watcher import WATCHER, Watchable


class Watching:
    """A listener that is told of changes; `close`, or the end of a ``with``, ends the telling."""

    def __init__(self, drop: Callable[[], object]) -> None:
        self._drop = drop

    @classmethod
    def of(cls, job: Watchable, changes: Changes, listener: Listener) -> Watching:
        """Tell a listener of one job's changes, until it ends."""

        tell = changes.telling(listener)
        return cls(WATCHER.watch(job, lambda _error: tell()))

    def close(self) -> None:
        """Tell nothing more."""
        self._drop()

    def __enter__(self) -> Watching:
        return self

    def __exit__(self, *_: object) -> None:
        self.close()
