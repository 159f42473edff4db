"""Why a job waits: its state says that it does, and only the service's own log says for what."""

from __future__ import annotations

import contextlib

import attrs

from gputrain.backends.vertex import logs
from gputrain.backends.vertex.states import SeenJob
from gputrain.errors import AccessError, TransientError
from gputrain.gcp import Access
from gputrain.gcp.pace import Pace
from gputrain.gcp.shared import Kept
from gputrain.lifecycle import Observation, State

PATIENCE_S = 60.0
"""A job may wait so long without a reason: most have their machines in a minute or two."""

AGAIN_S = 30.0
"""What was read holds so long: Vertex AI itself looks for machines about once a minute (2026-11-22)."""

CALL_S = 6.0
"""Seconds of one call: ten of the sixty reads a minute that logs share with us."""


class Reasons:
    """What the service's log says of jobs that wait, read seldom and for few at a time."""

    def __init__(self, access: Access) -> None:
        self._access = access
        self._since: Kept[str, float] = Kept()
        self._said: Kept[str, tuple[float, str]] = Kept()
        self._turns = Pace(each_s=CALL_S, now=access.now)

    def tell(self, seen: SeenJob, told: Observation) -> Observation:
        """The observation, with the reason of one that has waited for a while."""
        if told.state not in (State.QUEUED, State.PROVISIONING):
            self._since.drop(seen.resource)
            self._said.drop(seen.resource)
            return told
        if not self._is_overdue(seen):
            return told
        reason = self._reason(seen)
        return attrs.evolve(told, detail=f"{told.detail}: {reason}") if reason else told

    def _is_overdue(self, seen: SeenJob) -> bool:
        """By Google's clock or by ours: either may be wrong, and this process may have come late."""
        now = self._access.now()
        since = self._since.get(seen.resource)
        if since is None:
            since = self._since.put(seen.resource, now)
        made = seen.created_at.timestamp() if seen.created_at else now
        return max(now - since, now - made) >= PATIENCE_S

    def _reason(self, seen: SeenJob) -> str:
        now = self._access.now()
        read_at, reason = self._said.get(seen.resource) or (None, "")
        if (read_at is not None and 0 <= now - read_at < AGAIN_S) or not self._turns.take(seen.resource):
            return reason
        with contextlib.suppress(AccessError, TransientError):  # who may not read logs is told the state
            reason = logs.of_service(self._access, seen)
        return self._said.put(seen.resource, (now, reason))[1]
