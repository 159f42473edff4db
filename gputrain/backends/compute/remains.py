"""What is left of a gang that cannot go on: ended by whoever acts for the job, for it bills.

The agents see a lost peer within seconds and end by themselves. They cannot where a VM died before they
had met, where its guest never came up, or where a guest hangs; then whoever waits for the job ends the rest.
"""

from __future__ import annotations

import logging
import threading
from collections.abc import Callable, Sequence
from contextlib import suppress

from gputrain.backends.compute.causes import HALTED, VmReport, is_half
from gputrain.backends.compute.gang import Gangs
from gputrain.backends.compute.look import reports_of
from gputrain.backends.compute.names import VmNames
from gputrain.entrypoint import contract
from gputrain.errors import GputrainError, TransientError
from gputrain.gcp.shared import Kept
from gputrain.lifecycle import Observation, State
from gputrain.records import Record
from gputrain.times import Since

Sleep = Callable[[float], None]

log = logging.getLogger("gputrain")

UNSTARTED_S = 40.0
"""How long the rest of a gang may live that never trained together: it has nothing to save."""

STARTED_S = 180.0
"""The same where ranks ran: they may be saving, and their VMs sending what they saved."""

HEARD_S = 10.0
"""How long a guest may take to see that its job is cancelled."""

SENT_S = 30.0
"""How long it may take, beyond the time that ranks have to save, to send what they saved and to say so."""

LOOK_EVERY_S = 1.0


class Remains:
    """Ends the rest of gangs that cannot go on, and removes what is halted of jobs that are over."""

    def __init__(self, gangs: Gangs, now: Callable[[], float]) -> None:
        self._gangs = gangs
        self._now = now
        self._lock = threading.Lock()
        self._since: Kept[tuple[str, str], Since] = Kept()

    def of(self, job_id: str, seen: Observation) -> list[VmReport]:
        """What nobody needs any more of a job that was looked at.

        That is: VMs of a job that is over which Google has only halted, whose disks bill; what still runs of
        one that was cancelled; and what runs of a gang that cannot go on, once it had its time to save.
        """
        nodes = reports_of(seen)
        if seen.state is not None and seen.state.is_terminal:
            return [node for node in nodes if node.status in HALTED]
        if seen.state is State.STOPPING:  # a cancel whose deletes were refused, or whose caller died
            return [node for node in nodes if node.status and node.status != "STOPPING"]
        if is_half(nodes) and self._left_s((job_id, seen.ask), nodes) <= 0:
            return [one for one in nodes if not one.is_over and one.status != "STOPPING"]
        return []

    def let_save(self, record: Record, look: Callable[[Record], Observation], sleep: Sleep) -> None:
        """Wait until the guests of a cancelled job have ended, or had their time to.

        The power button would give the ranks of a Spot VM 30 s whatever they were promised.
        """
        since, most_s = Since(self._now), HEARD_S + _grace_s(record) + SENT_S
        while since.seconds < most_s:
            with suppress(TransientError):  # a look that failed says nothing of the guests
                nodes = reports_of(look(record))
                if not any(node.told.has_started and not node.is_over for node in nodes):
                    return
            sleep(LOOK_EVERY_S)

    def end(self, gang: VmNames, nodes: Sequence[VmReport]) -> None:
        """Delete VMs of a gang, as far as that can be done now."""
        for node in nodes:
            try:
                self._gangs.remove(gang, gang.names[node.rank])
            except GputrainError as error:  # noqa: PERF203  # one who may only look leaves it to others
                log.info("could not delete %s: %s", gang.names[node.rank], error)

    def _left_s(self, key: tuple[str, str], nodes: Sequence[VmReport]) -> float:
        """Seconds until the rest of a half gang is ended, counted from when this process first saw it."""
        with self._lock:
            since = self._since.get(key) or self._since.put(key, Since(self._now))
        has_started = all(node.told.has_started for node in nodes)
        return (STARTED_S if has_started else UNSTARTED_S) - since.seconds


def _grace_s(record: Record) -> float:
    """How long the ranks have to save; a setting that is no number is the agent's to refuse."""
    default = contract.ENVIRONMENT[contract.GRACE][1]
    try:
        return float((record.spec.get("env") or {}).get(contract.GRACE) or default)
    except ValueError:
        return float(default)
