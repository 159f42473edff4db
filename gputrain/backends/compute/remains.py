"""What is left of a gang that cannot go on: ended by whoever sees it, for it bills.

The agents see a lost peer within seconds and end by themselves. They cannot where a VM died before they
had met, where its guest never came up, or where a guest hangs; then a watcher ends the rest.
"""

from __future__ import annotations

import logging
import threading
from collections.abc import Callable, Sequence

import attrs

from gputrain.backends.compute.causes import HALTED, Node, is_half
from gputrain.backends.compute.record import Record
from gputrain.errors import GputrainError
from gputrain.lifecycle import Observation

log = logging.getLogger("gputrain")

UNSTARTED_S = 40.0
"""How long the rest of a gang may live that never trained together: it has nothing to save."""

STARTED_S = 180.0
"""The same where ranks ran: they may be saving, and their VMs sending what they saved."""


class Remains:
    """Ends the rest of gangs that cannot go on, and removes what is halted of jobs that are over."""

    def __init__(self, remove: Callable[[str, str], bool], now: Callable[[], float]) -> None:
        self._remove = remove
        self._now = now
        self._lock = threading.Lock()
        self._since: dict[str, tuple[int, float]] = {}

    def end(self, record: Record, seen: Observation) -> Observation:
        """Delete what nobody needs any more of a job that was looked at; the observation says so.

        That is: VMs of a job that is over which Google has only halted, whose disks bill; and what still
        runs of a gang that cannot go on, once it had its time to save.
        """
        nodes = [
            Node(rank=rank, status=one["status"], document=one["document"])
            for rank, one in enumerate((seen.raw or {}).get("nodes", ()))
        ]
        if seen.state is not None and seen.state.is_terminal:
            self._remove_all(record, [node for node in nodes if node.status in HALTED])
            return seen
        if not is_half(nodes):
            with self._lock:
                self._since.pop(record.job_id, None)
            return seen
        left_s = self._left_s(record, nodes)
        gone = ", ".join(record.names[node.rank] for node in nodes if node.is_over)
        if left_s > 0:
            return attrs.evolve(seen, detail=f"{gone} is gone; the rest is ended in {left_s:.0f} s")
        self._remove_all(record, [one for one in nodes if not one.is_over and one.status != "STOPPING"])
        return attrs.evolve(seen, detail=f"{gone} is gone; the rest is being ended")

    def _left_s(self, record: Record, nodes: Sequence[Node]) -> float:
        now = self._now()
        with self._lock:
            attempt, since = self._since.get(record.job_id, (-1, now))
            since = since if attempt == record.attempt else now
            self._since[record.job_id] = record.attempt, since
        has_started = all(node.phase in ("running", "ended") for node in nodes)
        return since + (STARTED_S if has_started else UNSTARTED_S) - now

    def _remove_all(self, record: Record, nodes: Sequence[Node]) -> None:
        for node in nodes:
            try:
                self._remove(record.zone, record.names[node.rank])
            except GputrainError as error:  # noqa: PERF203  # one who may only look leaves it to others
                log.info("could not delete %s: %s", record.names[node.rank], error)
