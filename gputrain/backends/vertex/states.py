"""Vertex AI's job states as ours, a total table; and what its own words about a failed job mean. Pure."""

from __future__ import annotations

import re
from collections.abc import Mapping
from datetime import datetime, timedelta

import attrs

from gputrain import causes
from gputrain.backends.google import cause_of
from gputrain.causes import Blame, Cause
from gputrain.entrypoint import contract
from gputrain.gcp.answer import Answer, Surface
from gputrain.gcp.refusals import kind_of
from gputrain.lifecycle import Failure, State

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
    home: str = ""
    """Whose records tell of it: our label on it; empty on one of a release before 0.2."""
    regions: tuple[str, ...] = ()
    """Where it may be made, in order, if there is more than one such region: our labels on it."""
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

    @property
    def was_cancelled(self) -> bool:
        """True for one that was cancelled, or withdrawn: its key may have been asked for anew."""
        return self.state == "JOB_STATE_CANCELLED"


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


@attrs.frozen
class Symptom:
    """One row: words of ``customJob.error`` and what they mean."""

    cause: Cause
    words: re.Pattern[str]


TABLE: tuple[Symptom, ...] = (
    Symptom(
        causes.OUT_OF_MEMORY,
        re.compile(rf"ran out[ -]of[ -]memory|^Replicas low on memory|{_REPLICA} exited .* status of 137\b"),
    ),
    Symptom(causes.COMMAND, re.compile(rf"{_EXITED} (?P<code>127)\b")),
    Symptom(causes.CRASHED, re.compile(rf"{_EXITED} (?P<code>13[2456]|139)\b")),
    Symptom(causes.ENVIRONMENT, re.compile(rf"{_EXITED} (?P<code>{contract.BAD_ENVIRONMENT})\b")),
    Symptom(causes.EXIT, re.compile(rf"{_EXITED} (?P<code>\d+)")),
    Symptom(
        causes.IMAGE,
        re.compile(
            r"artifactregistry\.repositories\.downloadArtifacts|ImagePullBackOff|ErrImagePull"
            r"|[Ff]ailed to (?:pull|read|fetch|resolve|find)\b[^.]{0,30}?\b(?:image|container uri)\b"
        ),
    ),
    Symptom(causes.INTERNAL, re.compile(r"^Internal error occurred")),
)
"""Rows are tried from the top: what a program that ran has said is its own.

Source: Vertex AI troubleshooting page and public threads, read 2026-11-20.
"""


def find_symptom(error: str) -> tuple[Cause | None, Mapping[str, str | None]]:
    """The cause that these words tell, and the facts in them."""
    for row in TABLE:
        found = row.words.search(error)
        if found:
            return row.cause, found.groupdict()
    kind = kind_of(Answer(surface=Surface.VERTEX, message=error))
    return cause_of(kind.error) if kind else None, {}


def is_capacity(error: str) -> bool:
    """True where the job ended because there were no machines: another region may have some."""
    cause, _ = find_symptom(error)
    return cause is not None and cause.fault is Blame.CAPACITY


def failure_of(error: str) -> Failure:
    """The failure as Vertex AI tells it; the rank's own document says more, where there is one."""
    cause, groups = find_symptom(error)
    if cause is None:
        return Failure(kind=causes.UNKNOWN.kind, message=error or "Vertex AI gave no reason", exit_code=None)
    pool, index, status = groups.get("pool"), groups.get("index"), groups.get("code")
    head = re.split(r"\s*To find out more", error)[0]
    return Failure(
        kind=cause.kind,
        message=head,
        node_rank=int(pool) + int(index or 0) if pool in ("0", "1") else None,
        exit_code=int(status) if status else (137 if cause is causes.OUT_OF_MEMORY else None),
    )
