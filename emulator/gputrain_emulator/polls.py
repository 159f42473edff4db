"""Clients that poll a standing clock: looking twice at what is under way is waiting for it."""

from __future__ import annotations

import re
from typing import Any

from gputrain_emulator.call import Call

LOOKED_AT = re.compile(r"compute\.\w*[oO]perations\.get|compute\.instances\.get|aiplatform\.customJobs\.get")
UNDER_WAY = frozenset(
    ["PENDING", "PROVISIONING", "STAGING", "STOPPING", "REPAIRING"]
    + [f"JOB_STATE_{state}" for state in ("QUEUED", "PENDING", "RUNNING", "CANCELLING")]
)
"""States that pass by themselves; RUNNING counts for operations only, as a machine may stay in it."""


class Polls:
    """Who has seen what under way.

    Args:
        enabled: whether a second look moves the clock on to what happens next.
    """

    def __init__(self, *, enabled: bool) -> None:
        self._enabled = enabled
        self._unfinished: set[tuple[str, str]] = set()

    def before(self, call: Call) -> None:
        """Let time pass up to the next event, if this is a second look."""
        clock = call.world.clock
        if self._enabled and not clock.wall and (call.caller.email, call.path) in self._unfinished:
            due = clock.next_event()
            if due is not None:
                clock.advance_to(due)

    def after(self, call: Call, result: Any) -> None:
        """Remember what the caller was shown."""
        if not self._enabled or not LOOKED_AT.fullmatch(call.method.id) or not isinstance(result, dict):
            return
        state = result.get("status") or result.get("state") or ""
        is_running = state == "RUNNING" and "operationType" in result
        key = (call.caller.email, call.path)
        (self._unfinished.add if is_running or state in UNDER_WAY else self._unfinished.discard)(key)
