"""All jobs of a trainer's backends, told to one listener: those there are, and those that come."""

from __future__ import annotations

import logging
import threading
from collections.abc import Callable, Iterable

from gputrain.errors import GputrainError
from gputrain.job import Job
from gputrain.job.events import Changes, JobEvent, Listener
from gputrain.job.watch import Watching
from gputrain.job.watcher import WATCHER
from gputrain.lifecycle import State

log = logging.getLogger("gputrain")

CALL_S = 20.0
"""How often it is looked for jobs that others have submitted."""


class Roll:
    """Watched as a job is: each look at it finds the jobs that are new."""

    state = State.RUNNING
    platform = "the roll"
    poll_s = CALL_S

    def __init__(self, find: Callable[[], Iterable[Job]], listener: Listener) -> None:
        self._find = find
        self._listener = listener
        self._lock = threading.Lock()
        self._known: set[str] = set()
        self._watchings: list[Watching] = []
        self._is_first = True
        self._drop = WATCHER.watch(self, lambda _error: None)

    def refresh(self) -> None:
        """Take in the jobs that are new; of those that were there before us, the ones that live."""
        try:
            found = list(self._find())
        except GputrainError as error:  # what cannot be listed now is listed the next time
            log.info("jobs could not be listed: %s", error.what)
            return
        for job in found:
            self.add(job, only_living=self._is_first)
        self._is_first = False

    def supervise(self) -> bool:
        """Nothing of it is started again."""
        return False

    def add(self, job: Job, *, only_living: bool = False) -> None:
        """Tell of this job from now on, once."""
        with self._lock:
            if job.id in self._known:
                return
            self._known.add(job.id)

        def tell(event: JobEvent) -> None:
            if not (only_living and event.kind == "seen" and event.state.is_terminal):
                self._listener(event)

        self._watchings.append(Watching.of(job, Changes(job, job.now), tell))

    def close(self) -> None:
        """Tell nothing more."""
        self._drop()
        for one in self._watchings:
            one.close()
