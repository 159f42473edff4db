"""Vertex AI's job states as ours: a total table. Pure."""

from __future__ import annotations

from collections.abc import Mapping
from datetime import datetime, timedelta

import attrs

from gputrain.lifecycle import State

STATES: Mapping[str, State | None] = {
    "JOB_STATE_UNSPECIFIED": None,
    "JOB_STATE_QUEUED": State.QUEUED,
    "JOB_STATE_PENDING": State.PROVISIONING,
    "JOB_STATE_RUNNING": State.RUNNING,
    "JOB_STATE_SUCCEEDED": State.SUCCEEDED,
    "JOB_STATE_FAILED": State.FAILED,
    "JOB_STATE_CANCELLING": State.STOPPING,
    "JOB_STATE_CANCELLED": State.CANCELLED,
    "JOB_STATE_PAUSED": State.INTERRUPTED,
    "JOB_STATE_EXPIRED": State.EXPIRED,
    "JOB_STATE_UPDATING": None,
    "JOB_STATE_PARTIALLY_SUCCEEDED": State.FAILED,
}
"""Every state of google.cloud.aiplatform_v1.JobState (2.7.0); None moves nothing.

A state that is not here, of tomorrow's API, moves nothing either. Google's own client waits for ever on two
that are terminal, EXPIRED and PARTIALLY_SUCCEEDED.
"""

LABEL_REGION = "gputrain-region-"
"""A label's key with a number behind it, from 0: the regions that a job may be made in, in order."""

ENDED = frozenset(name for name, state in STATES.items() if state is not None and state.is_terminal)


@attrs.frozen(kw_only=True)
class SeenJob:
    """One custom job as a look saw it."""

    resource: str
    """``projects/P/locations/R/customJobs/NUMBER``."""
    job_id: str
    """Our label on it."""
    state: str
    """Vertex AI's word; empty for one that the client does not know."""
    created_at: datetime | None = None
    started_at: datetime | None = None
    ended_at: datetime | None = None
    error_code: int = 0
    error: str = ""
    timeout: timedelta | None = None
    may_restart: bool = False
    """Whether Vertex AI starts it again after an interruption."""
    nonce: str = ""
    """That of the ask that it was made for: our label on it."""
    regions: tuple[str, ...] = ()
    """Where it may be made, in order, if there is more than one such region: our labels on it."""

    @property
    def number(self) -> str:
        """The id that Vertex AI gave it."""
        return self.resource.rpartition("/")[2]

    @property
    def region(self) -> str:
        """Where it is."""
        return self.resource.split("/")[3]

    @property
    def has_ended(self) -> bool:
        """True when nothing of it will run again."""
        return self.state in ENDED

    @property
    def was_undone(self) -> bool:
        """True for one that was cancelled before it ran."""
        return self.state == "JOB_STATE_CANCELLED" and self.started_at is None


def state_of(seen: SeenJob) -> State | None:
    """Our state; a job that Vertex AI stopped at its time limit has expired, whatever word it uses.

    Source: the word for a reached timeout is not documented; CANCELLED and FAILED were both reported.
    """
    state = STATES.get(seen.state)
    if state in (State.CANCELLED, State.FAILED) and _ran_out(seen):
        return State.EXPIRED
    return state


def _ran_out(seen: SeenJob) -> bool:
    if seen.timeout is None or seen.started_at is None or seen.ended_at is None:
        return False
    return seen.ended_at - seen.started_at >= seen.timeout
