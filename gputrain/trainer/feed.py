"""Changes of all jobs of a trainer, for one listener: of those that run, and of those that come."""

from __future__ import annotations

import logging
import threading
from collections.abc import Callable

from gputrain.errors import GputrainError
from gputrain.fields import check
from gputrain.job import Job
from gputrain.job.events import JobEvent, Listener
from gputrain.trainer.jobs import listed
from gputrain.trainer.planner import Planner

log = logging.getLogger("gputrain")
LIST_S = 20.0
"""Seconds between two lists, which find what other processes have submitted."""


class JobFeed:
    """Calls a listener with each change of every job, until it is closed."""

    def __init__(self, planner: Planner, listener: Listener) -> None:
        check("watch(...)", listener=listener)
        self._planner, self._listener = planner, listener
        self._lock = threading.RLock()
        self._known: set[str] = set()
        self._drops: dict[str, Callable[[], None]] = {}
        """What ends the watching of each job that has not ended."""
        self._listed: set[str] = set()
        """The stores whose jobs of before are known."""
        self._closed = threading.Event()
        planner.feeds.add(self)
        threading.Thread(target=self._run, name="gputrain lists jobs", daemon=True).start()

    def _run(self) -> None:
        while not self._closed.is_set():
            self.refresh()
            self._closed.wait(LIST_S)

    def refresh(self) -> None:
        """Find jobs that are new; of those of a store's first list, the ones that have not ended."""
        refused: dict[str, Exception] = {}
        try:
            found = listed(self._planner, refused=refused)
        except GputrainError as error:
            log.info("jobs could not be listed: %s", error.what)
            return
        for job in found:
            self.add(job, only_living=job.platform not in self._listed)
        self._listed |= {store.documents.uri for store in self._planner.stores} - refused.keys()

    def add(self, job: Job, *, only_living: bool = False) -> None:
        """Report the changes of this job from now on, once."""

        def report(event: JobEvent) -> None:
            if event.state.is_terminal:
                with self._lock:
                    self._drops.pop(job.id, None)
            if not (only_living and event.kind == "seen" and event.state.is_terminal):
                self._listener(event)

        with self._lock:
            if not self._closed.is_set() and job.id not in self._known:
                self._known.add(job.id)
                self._drops[job.id] = job.watch(report).close

    def close(self) -> None:
        """Report nothing more."""
        self._planner.feeds.discard(self)
        with self._lock:
            self._closed.set()
            drops, self._drops = self._drops, {}
        for drop in drops.values():
            drop()
