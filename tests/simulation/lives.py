"""From when until when each machine or job cost money, and for which ask it was made."""

import attrs

from gputrain_emulator.ledger import Ledger
from tests.simulation.fences import attempt_of

OVERLAP_S = 90.0
"""How long two attempts may cost money at once: machines that are superseded find that out when they boot."""

ENDS = frozenset({
    "delete-asked", "delete", "stop", "preempt", "time-limit", "host-error", "guest-terminate", "fail",
    "cancelling", "cancelled", "succeeded", "failed", "expired",
})  # fmt: skip


@attrs.define
class Life:
    """One machine or custom job, until it is asked to go or goes."""

    nonce: str
    machine: str
    since: float
    until: float = float("inf")
    end: str = ""
    """The ledger's word for it."""
    by: str = ""
    """Who ended it."""


class Lives(Ledger):
    """The clouds' ledger, which also keeps the lives of what bears one job's name."""

    def __init__(self, world, job_id, judge):
        super().__init__(clock=world.clock)
        self._world, self._job_id, self._judge = world, job_id, judge
        self._now = {}
        self.all = []

    def write(self, event, resource, *, caller="system", detail=""):
        row = super().write(event, resource, caller=caller, detail=detail)
        if event == "create" and self._job_id in f"{resource} {detail}":
            nonce = self._nonce(resource)
            if nonce:
                self._now[resource] = Life(nonce, resource, row.time)
                self.all.append(self._now[resource])
        elif resource in self._now and event in (*ENDS, "cancel"):
            one = self._now[resource]
            if event in ("cancel", "delete-asked"):
                self._judge(one, caller)
            if event in ENDS:
                del self._now[resource]
                one.until, one.end, one.by = row.time, event, caller
        return row

    def _nonce(self, resource):
        from gputrain_emulator.compute import Compute
        from gputrain_emulator.vertex import Vertex

        parts = resource.split("/")
        if parts[-2] == "instances":
            vm = self._world.part(Compute).vms.get((parts[1], parts[3], parts[5]))
            return attempt_of(vm.resource.get("labels", {})) if vm else None
        job = self._world.part(Vertex).jobs.get(parts[-1])
        return attempt_of(job.document.get("labels", {})) if job else None

    def overlaps(self):
        """Pairs of asks that cost money at once for too long, with the times."""
        spans = {}
        for one in self.all:
            since, until = spans.get(one.nonce, (one.since, one.until))
            spans[one.nonce] = min(since, one.since), max(until, one.until)
        found, ordered = [], sorted(spans.items(), key=lambda item: item[1])
        for at, (one, (_, until)) in enumerate(ordered):
            for other, (since, end) in ordered[at + 1 :]:
                last = min(until, end, self.clock.now())
                if last - since > OVERLAP_S:
                    found.append((one, other, since, last))
        return found
