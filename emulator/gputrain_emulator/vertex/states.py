"""A custom job on a clock: its states, how it ends, and what moves it from one to the next.

Texts: docs.cloud.google.com/vertex-ai/docs/training/{troubleshooting,understanding-training-service} and
public threads (vertex-ai-samples, openreview-expertise), read 2026-11-20. The numeric codes of user exits,
memory and stockout, and the states that a timeout and an ended wait lead to, were not verified.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field
from enum import Enum
from typing import Any

from gputrain_emulator import facts
from gputrain_emulator.clock import Event
from gputrain_emulator.errors import ApiError
from gputrain_emulator.quotas import Key, Quotas
from gputrain_emulator.world import Project, World

CANCELLED = 1
TRANSIENT_EXITS = frozenset({6, 134, 11, 139})  # Google restarts these as its own failures


class OverQuota(Enum):
    """What happens to a job that fits the limit but not what is left of it."""

    QUEUE = "queue"
    REFUSE = "refuse"


@dataclass(frozen=True, kw_only=True)
class Settings:
    """Times in seconds of the emulator's clock, and the open questions."""

    over_quota: OverQuota = OverQuota.QUEUE
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
    refuse_cancel_of_ended: bool = False


@dataclass(frozen=True, kw_only=True)
class Ending:
    """A `google.rpc.Status` in the making."""

    code: int
    message: str


@dataclass(frozen=True, kw_only=True)
class Endings:
    """The endings of one job."""

    project_number: str
    job_id: str
    region: str

    def exited(self, replica: str, status: int, termination: str = "") -> Ending:
        """A replica of the user's code left with a status other than 0."""
        if status == 137:
            return self.out_of_memory(replica)
        reason = f"Termination reason: {termination}. \n" if termination else ""
        return Ending(
            code=3,
            message=f"The replica {replica} exited with a non-zero status of {status}. {reason}{self._logs}",
        )

    def out_of_memory(self, replica: str) -> Ending:
        pool = replica.rpartition("-")[0]
        return Ending(code=8, message=f"Replicas low on memory: {pool}. {self._logs}")

    def stockout(self) -> Ending:
        return Ending(
            code=8,
            message=f"Resources are insufficient in region: {self.region}. "
            "Please try a different region or use a different accelerator.",
        )

    def internal(self) -> Ending:
        return Ending(code=13, message="Internal error occurred for the current attempt")

    def image_denied(self, repository: str) -> Ending:
        return Ending(
            code=7,
            message='denied: Permission "artifactregistry.repositories.downloadArtifacts" denied on '
            f'resource "{repository}" (or it may not exist)',
        )

    def cancelled(self) -> Ending:
        return Ending(code=CANCELLED, message="CANCELED")

    def timed_out(self, timeout_s: float) -> Ending:
        return Ending(
            code=CANCELLED, message=f"The job was stopped: it ran for its timeout of {timeout_s:g} seconds."
        )

    @property
    def _logs(self) -> str:
        return (
            "To find out more about why your job exited please check the logs: "
            f"https://console.cloud.google.com/logs/viewer?project={self.project_number}"
            f"&resource=ml_job%2Fjob_id%2F{self.job_id}&advancedFilter="
            f"resource.type%3D%22ml_job%22%0Aresource.labels.job_id%3D%22{self.job_id}%22"
        )


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


_EPSILON_S = 1e-6


@dataclass(kw_only=True)
class Life:
    """The mutable life of one job; its owner holds the lock."""

    ask: Ask
    link: Link
    endings: Endings
    settings: Settings
    fate: Fate
    created: float
    state: State = State.PENDING
    phase: Phase = Phase.QUOTA
    started: float | None = None
    ended: float | None = None
    updated: float = 0.0
    error: Ending | None = None
    attempts: int = 1
    tries: int = 0  # how often the machines were run, all causes together
    preemptions: int = 0
    refusals: int = 0  # how often there were no machines, since the last wait began
    worker_restarts: dict[str, int] = field(default_factory=dict)
    due: float | None = None
    live: bool = False
    wait_began: float = 0.0
    has_quota: bool = False
    has_machines: bool = False
    history: list[State] = field(default_factory=list)  # every state it has been in, in order

    # what time does

    def begin(self) -> None:
        """Ask for quota and machines for the first time."""
        self.updated = self.wait_began = self.created
        self._seek_quota(self.created)

    def advance(self, now: float) -> None:
        """Apply everything that has fallen due by `now`."""
        if self.phase is Phase.QUOTA:
            self._seek_quota(now)
        while (due := self.next_due()) is not None and due <= now + _EPSILON_S:
            self._step(due)

    def next_due(self) -> float | None:
        """When `advance` will next have something to do; None when only an event can move the job."""
        deadline = self._deadline()
        if self.due is None or deadline is None:
            return self.due if deadline is None else deadline
        return min(self.due, deadline)

    def visible_error(self, now: float) -> Ending | None:
        """The error as Google shows it: about a minute after the end."""
        if self.error is None or self.ended is None:
            return None
        return self.error if now >= self.ended + self.settings.error_delay_s else None

    @property
    def timeout_s(self) -> float:
        return self.settings.timeout_s if self.ask.timeout_s is None else self.ask.timeout_s

    def _deadline(self) -> float | None:
        if self.phase in (Phase.STARTING, Phase.RUNNING) and self.started is not None:
            return self.started + self.timeout_s
        if self.phase is Phase.CAPACITY and self.ask.flex_start:
            wait = self.settings.max_wait_s if self.ask.max_wait_s is None else self.ask.max_wait_s
            return self.wait_began + wait if wait > 0 else None
        return None

    def _step(self, at: float) -> None:
        deadline = self._deadline()
        if deadline is not None and deadline <= at:
            self._deadline_reached(at)
        elif self.phase is Phase.CAPACITY:
            self._seek_machines(at)
        elif self.phase is Phase.PROVISIONING:
            self._start_replicas(at)
        elif self.phase is Phase.STARTING:
            self._run(at)
        elif self.phase is Phase.RUNNING:
            self._meet_fate(at)
        elif self.phase is Phase.CANCELLING:
            self._end(at, State.CANCELLED, self.endings.cancelled())

    def _deadline_reached(self, at: float) -> None:
        if self.phase is Phase.CAPACITY:
            self._end(at, State.FAILED, self.endings.stockout())
        else:
            self._end(at, State.CANCELLED, self.endings.timed_out(self.timeout_s))

    # the road to running

    def _seek_quota(self, at: float) -> None:
        if not self.has_quota:
            self.has_quota = self.link.take_quota()
        if not self.has_quota:
            self._move(at, Phase.QUOTA, State.QUEUED)
            return
        self.wait_began = at
        self._seek_machines(at)

    def _seek_machines(self, at: float) -> None:
        self.has_machines = self.link.take_machines()
        if self.has_machines:
            self.refusals = 0
            wanted = self.fate.provision_s
            self._move(at, Phase.PROVISIONING, State.PENDING)
            self.due = at + (self.settings.provision_s if wanted is None else wanted)
            return
        self.refusals += 1
        limit = self.settings.spot_restarts if self.ask.spot else self.settings.job_attempts
        if not self.ask.flex_start and self.refusals > limit:
            self._end(at, State.FAILED, self.endings.stockout())
            return
        self._move(at, Phase.CAPACITY, State.PENDING)
        self.due = at + self.settings.capacity_retry_s

    def _start_replicas(self, at: float) -> None:
        self.tries += 1
        self._move(at, Phase.STARTING, State.PENDING)
        self.due = at + self.settings.start_s
        self.live = self.link.start(self.ask.replicas)

    def _run(self, at: float) -> None:
        if self.started is None:
            self.started = at
        self._move(at, Phase.RUNNING, State.RUNNING)
        run_s = self.settings.run_s if self.fate.run_s is None else self.fate.run_s
        self.due = None if self.live or run_s == float("inf") else at + run_s

    def _meet_fate(self, at: float) -> None:
        self.due = None
        if self.fate.ending is not None:
            self._end(at, self.fate.state, self.fate.ending)
            return
        tried = min(self.tries, len(self.fate.exits)) - 1
        self.replica_exited(self.fate.replica, self.fate.exits[tried], at, self.fate.termination)

    # what happens to it

    def replica_exited(self, replica: str, status: int, now: float, termination: str = "") -> None:
        """A replica's container ended: the primary's 0 is success, any status but 0 is failure."""
        if self.phase not in (Phase.STARTING, Phase.RUNNING, Phase.CANCELLING):
            return
        primary = replica == self.ask.replicas[0]
        if status == 0:
            if primary:
                self._end(now, State.SUCCEEDED, None)
            return
        if self.phase is Phase.CANCELLING:
            return
        if status in TRANSIENT_EXITS and self._may_restart(replica):
            self.worker_lost(replica, now)
            return
        self._end(now, State.FAILED, self.endings.exited(replica, status, termination))

    def all_replicas_gone(self, now: float) -> None:
        """In live mode, every replica has ended: a cancel is over."""
        if self.phase is Phase.CANCELLING:
            self._end(now, State.CANCELLED, self.endings.cancelled())

    def worker_lost(self, replica: str, now: float) -> None:
        """The machine of a replica went away: the worker starts again, or the whole job where told so."""
        if self.phase not in (Phase.STARTING, Phase.RUNNING):
            return
        if not self._may_restart(replica):
            self.internal_error(now)
            return
        self.worker_restarts[replica] = self.worker_restarts.get(replica, 0) + 1
        if self.ask.restart_job_on_worker_restart or len(self.ask.replicas) == 1:
            self._restart(now)
        else:
            self.updated = now
            self.live = self.link.start((replica,)) or self.live

    def preempt(self, now: float) -> None:
        """Spot capacity is taken back: the job goes back to PENDING, up to six times."""
        if self.phase not in (Phase.PROVISIONING, Phase.STARTING, Phase.RUNNING):
            return
        self.preemptions += 1
        if self.preemptions > self.settings.spot_restarts or self.ask.disable_retries:
            self._end(now, State.FAILED, self.endings.stockout())
            return
        self._restart(now)

    def internal_error(self, now: float) -> None:
        """The service itself failed; it tries the job three times in all."""
        if self.phase is Phase.ENDED:
            return
        if self.attempts >= self.settings.job_attempts or self.ask.disable_retries:
            self._end(now, State.FAILED, self.endings.internal())
            return
        self.attempts += 1
        self.worker_restarts.clear()
        self._restart(now)

    def cancel(self, now: float) -> None:
        """Best effort, as Google promises no more."""
        if self.phase in (Phase.ENDED, Phase.CANCELLING):
            return
        self._move(now, Phase.CANCELLING, State.CANCELLING)
        self.due = now + (self.settings.live_cancel_s if self.live else self.settings.cancel_s)
        self.link.stop()

    def put(self, state: State, now: float, ending: Ending | None = None) -> None:
        """Put the job into a state by hand: PAUSED, UPDATING, EXPIRED, PARTIALLY_SUCCEEDED, RUNNING again."""
        if state in TERMINAL:
            self._end(now, state, ending)
        elif state is State.RUNNING:
            self._run(now)
        else:
            self._move(now, Phase.HELD, state)

    def _may_restart(self, replica: str) -> bool:
        spent = self.worker_restarts.get(replica, 0)
        return not self.ask.disable_retries and spent < self.settings.worker_restarts

    def _restart(self, at: float) -> None:
        self.link.stop()
        self._give_machines()
        self.wait_began = at
        self._seek_machines(at)

    def _move(self, at: float, phase: Phase, state: State) -> None:
        if self.state is not state or not self.history:
            self.history.append(state)
        self.phase, self.state, self.updated, self.due = phase, state, at, None

    def _end(self, at: float, state: State, error: Ending | None) -> None:
        self._move(at, Phase.ENDED, state)
        self.ended, self.error = at, error
        self._give_machines()
        if self.has_quota:
            self.has_quota = False
            self.link.give_quota()
        self.link.stop()  # last, as it may report at once that nothing runs any more

    def _give_machines(self) -> None:
        if self.has_machines:
            self.has_machines = False
            self.link.give_machines()


@dataclass(kw_only=True, eq=False)
class Job:
    """One custom job: its spec as JSON and its life."""

    project: Project
    region: str
    id: str
    serial: int
    document: dict[str, Any]  # CustomJob as created, without its output fields
    needs: tuple[tuple[Key, float], ...]  # what it charges
    machines: Mapping[str, int]  # machine type -> how many
    life: Life = field(init=False)
    starting: tuple[str, ...] = ()  # the replicas that a runtime is asked to start
    told: int = 0  # how many states of its history have been logged
    vain: int = 0  # how many looks for machines in vain were known
    event: Event | None = None

    @property
    def name(self) -> str:
        """The resource name, with the project's number as Google writes it."""
        return f"projects/{self.project.number}/locations/{self.region}/customJobs/{self.id}"

    @property
    def replicas(self) -> tuple[str, ...]:
        return self.life.ask.replicas

    def times(self) -> dict[str, float]:
        """Seconds since 1970, by the field's name; only those that have come."""
        life = self.life
        all_times = {
            "create_time": life.created,
            "start_time": life.started,
            "end_time": life.ended,
            "update_time": life.updated,
        }
        return {name: when for name, when in all_times.items() if when is not None}


Needs = Sequence[tuple[Key, float]]


class Shares:
    """Quota by project, region and metric; stock by region and machine type, where somebody set one."""

    def __init__(self, quotas: Quotas) -> None:
        self.quotas = quotas
        self.stock: dict[tuple[str, str], int] = {}

    def check(self, needs: Needs, over_quota: OverQuota) -> None:
        """429 naming every metric whose limit, or by setting whose rest, is too small."""
        short = []
        for key, amount in needs:
            used = self.quotas.usage(key) if over_quota is OverQuota.REFUSE else 0
            if amount > self.quotas.limit(key) - used:
                short.append(key.metric)
        if short:
            names = ", ".join(short)
            raise ApiError(429, f"The following quota metrics exceed quota limits: {names}")


def needs_of(project: str, region: str, metrics: Mapping[str, int]) -> tuple[tuple[Key, float], ...]:
    """What a job charges, as the quota book counts it."""
    return tuple(
        (Key(project=project, metric=metric, region=region), float(amount))
        for metric, amount in metrics.items()
    )


class Link:
    """What one job takes: quota, machines and guests; both takes may be repeated until they say yes."""

    def __init__(self, shares: Shares, job: Job, world: World) -> None:
        self.shares = shares
        self.job = job
        self.world = world

    def take_quota(self) -> bool:
        if self.shares.quotas.exceeded(self.job.needs) is not None:
            return False
        self.shares.quotas.take(self.job.needs)
        return True

    def give_quota(self) -> None:
        self.shares.quotas.release(self.job.needs)

    def take_machines(self) -> bool:
        stock, region = self.shares.stock, self.job.region
        wanted = self.job.machines.items()
        if any(stock.get((region, kind), count) < count for kind, count in wanted):
            return False
        self._add_stock(-1)
        return True

    def give_machines(self) -> None:
        self._add_stock(1)
        self.world.ledger.stop_meter(self.job.name)

    def start(self, replicas: Sequence[str]) -> bool:
        """Start the replicas; True when they are real and will report their own end."""
        # Machines cost from when code starts on them, which is before the state says RUNNING.
        self.world.ledger.start_meter(self.job.name, self._price_usd_h())
        self.job.starting = tuple(replicas)
        self.world.runtime.start_job(self.job)
        return self.world.runtime.is_real

    def stop(self) -> None:
        self.world.runtime.stop_job(self.job)

    def _price_usd_h(self) -> float:
        """Compute Engine's price of the machines, and 15 % of their on-demand price as Vertex AI's fee.

        Source: SKUs of a billing report of 2025-08, us-central1; Spot and flex-start pay the same fee.
        """
        scheduling = self.job.document["jobSpec"].get("scheduling", {})
        model = scheduling.get("strategy", "STANDARD")
        region = self.job.region
        return sum(
            count
            * (facts.price_usd_h(kind, region, model) + 0.15 * facts.price_usd_h(kind, region, "STANDARD"))
            for kind, count in self.job.machines.items()
        )

    def _add_stock(self, sign: int) -> None:
        for kind, count in self.job.machines.items():
            key = (self.job.region, kind)
            if key in self.shares.stock:
                self.shares.stock[key] += sign * count
