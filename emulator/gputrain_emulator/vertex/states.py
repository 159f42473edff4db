"""The states and phases of a custom job, what a spec asks for, and what a job's life leans on."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from enum import Enum
from typing import Protocol

from gputrain_emulator.vertex.endings import Ending


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
        provision_s: how long the machines take; None takes the settings' time.
        ending: an error that comes instead of an exit, with the terminal state it leads to.
    """

    exits: tuple[int, ...] = (0,)
    replica: str = "workerpool0-0"
    run_s: float | None = None
    provision_s: float | None = None
    ending: Ending | None = None
    state: State = State.FAILED
    termination: str = ""


@dataclass(frozen=True, kw_only=True)
class Ask:
    """The part of a job's spec that decides its life."""

    replicas: tuple[str, ...]  # ("workerpool0-0", "workerpool1-0", ...); the first one is the primary
    spot: bool = False
    flex_start: bool = False
    timeout_s: float | None = None
    max_wait_s: float | None = None
    restart_job_on_worker_restart: bool = False
    disable_retries: bool = False


class Capacity(Protocol):
    """Where quota and machines come from; both calls may be repeated until they say yes."""

    def take_quota(self) -> bool: ...

    def take_machines(self) -> bool: ...

    def give_machines(self) -> None: ...

    def give_quota(self) -> None: ...


class Runner(Protocol):
    """Who runs the replicas: real processes in live mode, nobody otherwise."""

    def start(self, replicas: Sequence[str]) -> bool:
        """Start the replicas; True when they are real and will report their own end."""

    def stop(self) -> bool:
        """Ask all of them to end; True when they are real and will report it."""
