"""What a custom job can be and how it can end, and the times that it takes.

Texts: docs.cloud.google.com/vertex-ai/docs/training/{troubleshooting,understanding-training-service} and
public threads (vertex-ai-samples, openreview-expertise), read 2026-11-20. The numeric codes of user exits,
memory and stockout, and the states that a timeout and an ended wait lead to, were not verified.
"""

from __future__ import annotations

from dataclasses import dataclass
from enum import Enum

TRANSIENT_EXITS = frozenset({6, 134, 11, 139})  # Google restarts these as its own failures


@dataclass(frozen=True, kw_only=True)
class Settings:
    """Times in seconds of the emulator's clock, and the open questions."""

    provision_s: float = 90.0
    start_s: float = 5.0  # the code runs on the workers this long before the state says RUNNING
    run_s: float = 300.0
    cancel_s: float = 15.0
    live_cancel_s: float = 60.0  # by then real replicas, killed after their grace, have reported their end
    capacity_retry_s: float = 60.0
    error_delay_s: float = 60.0  # customJob.error is filled in about a minute after the end
    worker_restarts: int = 5
    job_attempts: int = 3
    spot_restarts: int = 6
    timeout_s: float = 7 * 24 * 3600.0
    max_wait_s: float = 24 * 3600.0
    refuse_over_quota: bool = False  # what fits the limit but not what is left of it is queued otherwise


@dataclass(frozen=True, kw_only=True)
class Ending:
    """A `google.rpc.Status` in the making."""

    code: int
    message: str


CANCELED = Ending(code=1, message="CANCELED")
INTERNAL = Ending(code=13, message="Internal error occurred for the current attempt")


def exited(project_number: str, job_id: str, replica: str, status: int) -> Ending:
    """A replica of the user's code left with a status other than 0."""
    logs = (
        "To find out more about why your job exited please check the logs: "
        f"https://console.cloud.google.com/logs/viewer?project={project_number}"
        f"&resource=ml_job%2Fjob_id%2F{job_id}&advancedFilter="
        f"resource.type%3D%22ml_job%22%0Aresource.labels.job_id%3D%22{job_id}%22"
    )
    if status == 137:
        return Ending(code=8, message=f"Replicas low on memory: {replica.rpartition('-')[0]}. {logs}")
    return Ending(code=3, message=f"The replica {replica} exited with a non-zero status of {status}. {logs}")


def stockout(region: str) -> Ending:
    said = f"Resources are insufficient in region: {region}. "
    return Ending(code=8, message=said + "Please try a different region or use a different accelerator.")


def image_denied(repository: str) -> Ending:
    denied = 'denied: Permission "artifactregistry.repositories.downloadArtifacts" denied on resource'
    return Ending(code=7, message=f'{denied} "{repository}" (or it may not exist)')


def timed_out(timeout_s: float) -> Ending:
    said = f"The job was stopped: it ran for its timeout of {timeout_s:g} seconds."
    return Ending(code=1, message=said)


class State(Enum):
    """`aiplatform.v1.JobState`, as far as a custom job has it."""

    QUEUED = "JOB_STATE_QUEUED"
    PENDING = "JOB_STATE_PENDING"
    RUNNING = "JOB_STATE_RUNNING"
    SUCCEEDED = "JOB_STATE_SUCCEEDED"
    FAILED = "JOB_STATE_FAILED"
    CANCELLING = "JOB_STATE_CANCELLING"
    CANCELLED = "JOB_STATE_CANCELLED"
    PAUSED = "JOB_STATE_PAUSED"
    EXPIRED = "JOB_STATE_EXPIRED"
    UPDATING = "JOB_STATE_UPDATING"
    PARTIALLY_SUCCEEDED = "JOB_STATE_PARTIALLY_SUCCEEDED"


TERMINAL = frozenset(
    {State.SUCCEEDED, State.FAILED, State.CANCELLED, State.EXPIRED, State.PARTIALLY_SUCCEEDED}
)


class Phase(Enum):
    """What a job waits for."""

    QUOTA = "quota"
    CAPACITY = "capacity"
    PROVISIONING = "provisioning"
    STARTING = "starting"
    RUNNING = "running"
    CANCELLING = "cancelling"
    HELD = "held"  # a state put there by hand
    ENDED = "ended"


@dataclass(frozen=True, kw_only=True)
class Fate:
    """What is to become of a job that no real process runs.

    Args:
        exits: the statuses that the named replica leaves with, one for each try; the last one repeats.
        run_s: how long a try runs; None takes the settings' time, infinity runs until something happens.
    """

    exits: tuple[int, ...] = (0,)
    replica: str = "workerpool0-0"
    run_s: float | None = None
