"""Vertex AI's job states as ours, and what its messages about a failed job mean. Pure."""

from __future__ import annotations

import re
from collections.abc import Mapping
from datetime import datetime, timedelta

import attrs

from gputrain import causes
from gputrain.backends.google import cause_of
from gputrain.causes import Cause
from gputrain.google.errors import ErrorDetails, classify
from gputrain.lifecycle import Failure, State
from gputrain.runtime import contract

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

ENDED = frozenset(name for name, state in STATES.items() if state is not None and state.is_terminal)


_REPLICA = r"workerpool(?P<pool>\d)-(?P<index>\d+)"
_EXITED = rf"{_REPLICA} exited with a non-zero status of"
NO_LOGS = "no log line came although ranks ran: the job's service account may lack roles/logging.logWriter"


@attrs.frozen(kw_only=True)
class SeenJob:
    """One custom job as a look saw it."""

    resource: str
    """``projects/P/locations/R/customJobs/NUMBER``."""
    job_id: str
    """Our label on it."""
    state: str
    """Vertex AI's word."""
    created_at: datetime | None = None
    started_at: datetime | None = None
    ended_at: datetime | None = None
    error: str = ""
    timeout: timedelta | None = None
    attempt: str = ""
    """The id of the attempt that it was made for: our label on it."""
    tensorboard: str = ""
    """Full name of the instance that shows its curves."""
    terminals: tuple[tuple[str, str], ...] = ()
    """Address of a terminal in each replica that runs, where they are allowed."""

    @property
    def number(self) -> str:
        """The id that Vertex AI gave it."""
        return self.resource.rpartition("/")[2]

    @property
    def region(self) -> str:
        """Where it is."""
        return self.resource.split("/")[3]

    @property
    def links(self) -> tuple[str, ...]:
        """Where a person sees more of it while it runs."""
        found = [f"terminal of {replica}: {url}" for replica, url in self.terminals[:1]]
        if self.tensorboard:  # as Google's SDK puts it together
            path = f"{self.tensorboard}/experiments/{self.number}".replace("/", "+")
            found.append(
                f"TensorBoard: https://{self.region}.tensorboard.googleusercontent.com/experiment/{path}"
            )
        return tuple(found)

    @property
    def has_ended(self) -> bool:
        """True when nothing of it will run again."""
        return self.state in ENDED


def state_of(seen: SeenJob) -> State | None:
    """Our state; a job that Vertex AI stopped at its time limit has expired, also where it says otherwise.

    Source: the word for a reached timeout is not documented; CANCELLED and FAILED were both reported.
    """
    state = STATES.get(seen.state)
    if state in (State.CANCELLED, State.FAILED) and seen.timeout and seen.started_at and seen.ended_at:
        return State.EXPIRED if seen.ended_at - seen.started_at >= seen.timeout else state
    return state


TABLE: tuple[tuple[Cause, re.Pattern[str]], ...] = (
    (
        causes.OUT_OF_MEMORY,
        re.compile(rf"ran out[ -]of[ -]memory|^Replicas low on memory|{_REPLICA} exited .* status of 137\b"),
    ),
    (causes.COMMAND, re.compile(rf"{_EXITED} (?P<code>127)\b")),
    (causes.CRASHED, re.compile(rf"{_EXITED} (?P<code>13[2456]|139)\b")),
    (causes.ENVIRONMENT, re.compile(rf"{_EXITED} (?P<code>{contract.BAD_ENVIRONMENT})\b")),
    (causes.EXIT, re.compile(rf"{_EXITED} (?P<code>\d+)")),
    (
        causes.IMAGE,
        re.compile(
            r"artifactregistry\.repositories\.downloadArtifacts|ImagePullBackOff|ErrImagePull"
            r"|[Ff]ailed to (?:pull|read|fetch|resolve|find)\b[^.]{0,30}?\b(?:image|container uri)\b"
        ),
    ),
    (causes.INTERNAL, re.compile(r"^Internal error occurred")),
)
"""Words of ``customJob.error`` and what they mean. Rows are tried from the top: a program's exit comes first.

Source: Vertex AI troubleshooting page and public threads, read 2026-11-20.
"""


def failure_of(error: str) -> Failure:
    """The failure as Vertex AI reports it; the rank's own document says more, where there is one."""
    cause, facts = None, dict[str, str | None]()
    for one, words in TABLE:
        if found := words.search(error):
            cause, facts = one, found.groupdict()
            break
    else:
        rule = classify(ErrorDetails(message=error))
        cause = cause_of(rule.error) if rule else None
    if cause is None:
        return Failure(kind=causes.UNKNOWN.kind, message=error or "Vertex AI gave no reason")
    pool, index, status = facts.get("pool"), facts.get("index"), facts.get("code")
    return Failure(
        kind=cause.kind,
        message=re.split(r"\s*To find out more", error)[0],
        node_rank=int(pool) + int(index or 0) if pool in ("0", "1") else None,
        exit_code=int(status) if status else (137 if cause is causes.OUT_OF_MEMORY else None),
    )
