"""Every custom job: what moves it from one state to the next, and what it competes for."""

from __future__ import annotations

import functools
import itertools
from collections import Counter
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass, field
from typing import Any

from gputrain_emulator import facts
from gputrain_emulator.clock import Event
from gputrain_emulator.errors import ApiError
from gputrain_emulator.logging import Logs
from gputrain_emulator.quotas import Key, Quotas
from gputrain_emulator.vertex import machines, states
from gputrain_emulator.vertex.states import (
    CANCELED,
    INTERNAL,
    TERMINAL,
    TRANSIENT_EXITS,
    Ending,
    Fate,
    Phase,
    Settings,
    State,
)
from gputrain_emulator.world import Project, World

SAID = {
    State.QUEUED: "Job is queued until quota is available.",
    State.PENDING: "Waiting for job to be provisioned.",
    State.RUNNING: "Job is running.",
    State.SUCCEEDED: "Job completed successfully.",
    State.CANCELLING: "Job is being cancelled.",
    State.CANCELLED: "Job cancelled.",
    State.FAILED: "Job failed.",
}
_EPSILON_S = 1e-6


@dataclass(kw_only=True, eq=False)
class Job:
    """One custom job: its spec as JSON, and its life. Everything here runs under the world's lock."""

    vertex: Vertex
    project: Project
    region: str
    id: str
    serial: int
    document: dict[str, Any]  # CustomJob as created, without its output fields
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
    worker_restarts: Counter[str] = field(default_factory=Counter)
    due: float | None = None
    is_live: bool = False
    wait_began: float = 0.0
    has_quota: bool = False
    has_machines: bool = False
    starting: tuple[str, ...] = ()  # the replicas that a runtime is asked to start
    event: Event | None = None

    # what was asked for

    @property
    def name(self) -> str:
        """The resource name, with the project's number as Google writes it."""
        return f"projects/{self.project.number}/locations/{self.region}/customJobs/{self.id}"

    @property
    def spec(self) -> dict[str, Any]:
        spec: dict[str, Any] = self.document["jobSpec"]
        return spec

    @property
    def scheduling(self) -> dict[str, Any]:
        return dict(self.spec.get("scheduling", {}))

    @functools.cached_property
    def replicas(self) -> tuple[str, ...]:
        """``workerpool0-0``, ``workerpool1-0``, ...; the first one is the primary."""
        return tuple(
            f"workerpool{at}-{index}"
            for at, pool in enumerate(self.spec.get("workerPoolSpecs", ()))
            for index in range(int(pool.get("replicaCount", 0)))
        )

    @functools.cached_property
    def machine_counts(self) -> Counter[str]:
        """How many of each machine type."""
        count: Counter[str] = Counter()
        for machine, replicas in machines.placed(self.spec):
            count[machine["machineType"]] += replicas
        return count

    @functools.cached_property
    def needs(self) -> Sequence[tuple[Key, float]]:
        """What it charges."""
        return tuple(
            (Key(project=self.project.id, metric=metric, region=self.region), float(amount))
            for metric, amount in machines.needs(self.spec).items()
        )

    @property
    def is_flex_start(self) -> bool:
        return machines.strategy(self.spec) == "FLEX_START"

    @property
    def timeout_s(self) -> float:
        return machines.seconds(self.scheduling.get("timeout", "")) or self.settings.timeout_s

    def times(self) -> dict[str, float]:
        """Seconds since 1970, by the field's JSON name; only those that have come."""
        every = {
            "createTime": self.created, "startTime": self.started, "endTime": self.ended,
            "updateTime": self.updated,
        }  # fmt: skip
        return {name: when for name, when in every.items() if when is not None}

    def visible_error(self, now: float) -> Ending | None:
        """The error as Google shows it: about a minute after the end."""
        shows = self.ended is not None and now >= self.ended + self.settings.error_delay_s
        return self.error if shows else None

    def price_usd_h(self) -> float:
        """Compute Engine's price of the machines, and 15 % of their on-demand price as Vertex AI's fee.

        Source: SKUs of a billing report of 2025-08, us-central1; Spot and flex-start pay the same fee.
        """
        model = machines.strategy(self.spec) or "STANDARD"
        prices = (
            count * (facts.price_usd_h(kind, self.region, sold) * share)
            for kind, count in self.machine_counts.items()
            for sold, share in ((model, 1.0), ("STANDARD", 0.15))
        )
        return sum(prices)

    # what time does

    def advance(self, now: float) -> None:
        """Apply everything that has fallen due by `now`."""
        if self.phase is Phase.QUOTA:
            self.seek_quota(now)
        while (due := self.next_due()) is not None and due <= now + _EPSILON_S:
            self._step(due)

    def next_due(self) -> float | None:
        """When `advance` will next have something to do; None when only an event can move the job."""
        return min((when for when in (self.due, self._deadline()) if when is not None), default=None)

    def _deadline(self) -> float | None:
        if self.phase in (Phase.STARTING, Phase.RUNNING) and self.started is not None:
            return self.started + self.timeout_s
        if self.phase is Phase.CAPACITY and self.is_flex_start:
            asked = self.scheduling.get("maxWaitDuration")
            wait = self.settings.max_wait_s if asked is None else machines.seconds(asked)
            return self.wait_began + wait if wait > 0 else None
        return None

    def _step(self, at: float) -> None:
        deadline = self._deadline()
        if deadline is not None and deadline <= at:
            if self.phase is Phase.CAPACITY:
                self._end(at, State.FAILED, states.stockout(self.region))
            else:
                self._end(at, State.CANCELLED, states.timed_out(self.timeout_s))
        elif self.phase is Phase.CAPACITY:
            self._seek_machines(at)
        elif self.phase is Phase.PROVISIONING:
            self.tries += 1
            self._move(at, Phase.STARTING, State.PENDING, self.settings.start_s)
            self._start(self.replicas)
        elif self.phase is Phase.STARTING:
            self._run(at)
        elif self.phase is Phase.RUNNING:
            self.due = None
            tried = min(self.tries, len(self.fate.exits)) - 1
            self.replica_exited(at, self.fate.replica, self.fate.exits[tried])
        elif self.phase is Phase.CANCELLING:
            self._end(at, State.CANCELLED, CANCELED)

    def seek_quota(self, at: float) -> None:
        """Ask for quota, and then for machines."""
        quotas = self.vertex.quotas
        if not self.has_quota:
            if quotas.exceeded(self.needs) is not None:
                self._move(at, Phase.QUOTA, State.QUEUED)
                return
            quotas.take(self.needs)
            self.has_quota = True
        self.wait_began = at
        self._seek_machines(at)

    def _seek_machines(self, at: float) -> None:
        stock = self.vertex.stock
        if all(stock.get((self.region, kind), count) >= count for kind, count in self.machine_counts.items()):
            self._add_stock(-1)
            self.has_machines, self.refusals = True, 0
            self._move(at, Phase.PROVISIONING, State.PENDING, self.settings.provision_s)
            return
        self.refusals += 1
        is_spot = machines.strategy(self.spec) in ("SPOT", "LOW_COST")
        limit = self.settings.spot_restarts if is_spot else self.settings.job_attempts
        if not self.is_flex_start and self.refusals > limit:
            self._end(at, State.FAILED, states.stockout(self.region))
            return
        self._move(at, Phase.CAPACITY, State.PENDING, self.settings.capacity_retry_s)
        self.vertex.say(self, f"Resources are insufficient in region: {self.region}")

    def _start(self, replicas: Sequence[str]) -> None:
        """Machines cost from when code starts on them, which is before the state says RUNNING."""
        world = self.vertex.world
        world.ledger.start_meter(self.name, self.price_usd_h())
        self.starting = tuple(replicas)
        world.runtime.start_job(self)
        self.is_live = world.runtime.is_real

    def _run(self, at: float) -> None:
        if self.started is None:
            self.started = at
        self._move(at, Phase.RUNNING, State.RUNNING)
        run_s = self.settings.run_s if self.fate.run_s is None else self.fate.run_s
        self.due = None if self.is_live or run_s == float("inf") else at + run_s

    # what happens to it

    def replica_exited(self, now: float, replica: str, status: int) -> None:
        """A replica's container ended: the primary's 0 is success, any status but 0 is failure."""
        if self.phase not in (Phase.STARTING, Phase.RUNNING, Phase.CANCELLING):
            return
        if status == 0:
            if replica == self.replicas[0]:
                self._end(now, State.SUCCEEDED, None)
        elif self.phase is not Phase.CANCELLING:
            if status in TRANSIENT_EXITS and self._may_restart(replica):
                self._restart_worker(now, replica)
            else:
                self._end(now, State.FAILED, states.exited(self.project.number, self.id, replica, status))

    def all_replicas_gone(self, now: float) -> None:
        """In live mode, every replica has ended: a cancel is over."""
        if self.phase is Phase.CANCELLING:
            self._end(now, State.CANCELLED, CANCELED)

    def preempt(self, now: float) -> None:
        """Spot capacity is taken back: the job goes back to PENDING, up to six times."""
        if self.phase not in (Phase.PROVISIONING, Phase.STARTING, Phase.RUNNING):
            return
        self.preemptions += 1
        if self.preemptions > self.settings.spot_restarts or self._retries_are_off:
            self._end(now, State.FAILED, states.stockout(self.region))
        else:
            self._restart(now)

    def internal_error(self, now: float) -> None:
        """The service itself failed; it tries the job three times in all."""
        if self.phase is Phase.ENDED:
            return
        if self.attempts >= self.settings.job_attempts or self._retries_are_off:
            self._end(now, State.FAILED, INTERNAL)
            return
        self.attempts += 1
        self.worker_restarts.clear()
        self._restart(now)

    def cancel(self, now: float) -> None:
        """Best effort, as Google promises no more."""
        if self.phase not in (Phase.ENDED, Phase.CANCELLING):
            seconds = self.settings.live_cancel_s if self.is_live else self.settings.cancel_s
            self._move(now, Phase.CANCELLING, State.CANCELLING, seconds)
            self.vertex.world.runtime.stop_job(self)

    def put(self, now: float, state: State, ending: Ending | None) -> None:
        """Put the job into a state by hand: PAUSED, UPDATING, EXPIRED, PARTIALLY_SUCCEEDED, RUNNING again."""
        if state in TERMINAL:
            self._end(now, state, ending)
        elif state is State.RUNNING:
            self._run(now)
        else:
            self._move(now, Phase.HELD, state)

    @property
    def _retries_are_off(self) -> bool:
        return bool(self.scheduling.get("disableRetries"))

    def _may_restart(self, replica: str) -> bool:
        return not self._retries_are_off and self.worker_restarts[replica] < self.settings.worker_restarts

    def _restart_worker(self, now: float, replica: str) -> None:
        """One worker starts again, or the whole job where that is set."""
        self.worker_restarts[replica] += 1
        if self.scheduling.get("restartJobOnWorkerRestart") or len(self.replicas) == 1:
            self._restart(now)
        else:
            self.updated = now
            self._start((replica,))

    def _restart(self, at: float) -> None:
        self.vertex.world.runtime.stop_job(self)
        self._give_machines()
        self.wait_began = at
        self._seek_machines(at)

    def _move(self, at: float, phase: Phase, state: State, due_in_s: float | None = None) -> None:
        is_news, self.state = state is not self.state or not self.updated, state
        self.phase, self.updated = phase, at
        self.due = None if due_in_s is None else at + due_in_s
        if is_news:
            self.vertex.moved(self)

    def _end(self, at: float, state: State, error: Ending | None) -> None:
        self.ended, self.error = at, error
        self._move(at, Phase.ENDED, state)
        self._give_machines()
        if self.has_quota:
            self.has_quota = False
            self.vertex.quotas.release(self.needs)
        self.vertex.world.runtime.stop_job(self)  # last, as it may report at once that nothing runs
        self.vertex.look_again()

    def _give_machines(self) -> None:
        if self.has_machines:
            self.has_machines = False
            self._add_stock(1)
            self.vertex.world.ledger.stop_meter(self.name)

    def _add_stock(self, sign: int) -> None:
        for kind, count in self.machine_counts.items():
            if (self.region, kind) in self.vertex.stock:
                self.vertex.stock[self.region, kind] += sign * count


class Vertex:
    """The state of Vertex AI. Everything here runs under the world's lock.

    Attributes:
        settings: times and open questions; replace it before jobs are created.
        stock: how many machines of a type a region can still give; what is missing is plentiful.
        deaf_accounts: service accounts that may not write logs (no roles/logging.logWriter).
    """

    def __init__(self, world: World) -> None:
        self.world = world
        self.settings = Settings()
        self.jobs: dict[str, Job] = {}
        self.quotas = world.part(Quotas)
        self.quotas.at_grant.append(self.look_again)
        self.stock: dict[tuple[str, str], int] = {}
        self.tensorboards: dict[str, str] = {}
        self.forbidden_accounts: set[str] = set()
        self.deaf_accounts: set[str] = set()
        self.operations: dict[str, dict[str, Any]] = {}
        self._fate = Fate()
        self._serials = itertools.count(1)

    # what a test arranges

    def set_fate(self, fate: Fate) -> None:
        """What becomes of jobs created from now on."""
        self._fate = fate

    def set_limit(self, metric: str, limit: int, *, region: str) -> None:
        """Set a quota limit (region `*`: everywhere); `metric` may leave out `aiplatform.googleapis.com/`."""
        with self.world.lock:
            whole = metric if "/" in metric else f"aiplatform.googleapis.com/{metric}"
            key = Key(project=next(iter(self.world.projects)), metric=whole, region=region)
            self.quotas.set_limit(key, limit)

    def set_stock(self, machine_type: str, count: int, *, region: str) -> None:
        """How many machines of a type the region can still give; without this it never runs out."""
        with self.world.lock:
            self.stock[region, machine_type] = count

    # jobs

    def create(self, project: Project, region: str, document: dict[str, Any], *, caller: str) -> Job:
        """A new job; the checks are done, but for 429 naming every metric of which there is too little."""
        now = self.world.clock.now()
        job = Job(
            vertex=self,
            project=project,
            region=region,
            id=self.world.new_id(),
            serial=next(self._serials),
            document=document,
            settings=self.settings,
            fate=self._fate,
            created=now,
        )
        short = [
            key.metric
            for key, amount in job.needs
            if amount > self.quotas.limit(key) - self.settings.refuse_over_quota * self.quotas.usage(key)
        ]
        if short:
            raise ApiError(429, f"The following quota metrics exceed quota limits: {', '.join(short)}")
        self.jobs[job.id] = job
        self.world.ledger.write("create", job.name, caller=caller, detail=document["displayName"])
        job.seek_quota(now)
        self._plan(job)
        return job

    def find(self, project: Project, region: str, job_id: str) -> Job:
        job = self.jobs.get(job_id)
        if job is None or job.project is not project or job.region != region:
            name = f"projects/{project.number}/locations/{region}/customJobs/{job_id}"
            raise ApiError(404, f"The CustomJob {name} is not found.")
        return job

    def moved(self, job: Job) -> None:
        """The job is in another state: the ledger and its log show it."""
        state, error = job.state, job.error
        self.world.ledger.write(state.name.lower(), job.name)
        text = error.message if state is State.FAILED and error else ""
        self.say(
            job,
            text or SAID.get(state, state.value),
            severity="ERROR" if text else "INFO",
            state="QUEUED" if state is State.PENDING else state.name,
        )

    def look_again(self) -> None:
        """Let every queued job ask for its quota, in the order of their creation."""
        for job in list(self.jobs.values()):
            if job.phase is Phase.QUOTA:
                self._do(job, Job.advance)

    # what happens to jobs, for tests and for live mode; each takes the id or the job

    def cancel(self, job: Job | str) -> None:
        self._do(job, Job.cancel)

    def preempt(self, job: Job | str) -> None:
        """Take the job's Spot machines away."""
        self._do(job, Job.preempt)

    def fail_internally(self, job: Job | str) -> None:
        """Let the service itself fail at the job."""
        self._do(job, Job.internal_error)

    def put(self, job: Job | str, state: State, ending: Ending | None = None) -> None:
        """Put the job into a state by hand."""
        self._do(job, Job.put, state, ending)

    def replica_exited(self, job: Job | str, replica: str, status: int) -> None:
        """A replica's process has ended."""
        self._do(job, Job.replica_exited, replica, status)

    def all_replicas_gone(self, job: Job | str) -> None:
        """Every process of a job that was asked to stop has ended."""
        self._do(job, Job.all_replicas_gone)

    def write_log(
        self,
        job: Job | str,
        task: str,
        text: str,
        *,
        severity: str = "INFO",
        payload: Mapping[str, Any] | None = None,
    ) -> None:
        """A line of a replica's output, as the log agent of the training VM writes it.

        payload: the line's own JSON object, when it was one.
        """
        with self.world.lock:
            job = self._job(job)
            if job.spec.get("serviceAccount") not in self.deaf_accounts:
                whole = {"message": text, "levelname": severity} if payload is None else payload
                labels = {"compute.googleapis.com/resource_name": task}
                self._log(job, task, task, labels, jsonPayload=dict(whole), severity=severity)

    def say(self, job: Job, text: str, *, severity: str = "INFO", state: str = "") -> None:
        """A line of the service itself, as GitHub's cortex-data-foundation#42 shows it (2026-11-22)."""
        labels = {"ml.googleapis.com/job_state": state} if state else {}
        self._log(
            job, f"ml.googleapis.com%2F{job.id}", "service", labels, textPayload=text, severity=severity
        )

    def _log(self, job: Job, log: str, task: str, labels: Mapping[str, str], **entry: Any) -> None:
        names = {"job_id": job.id, "project_id": job.project.id, "task_name": task}
        document = {
            "logName": f"projects/{job.project.id}/logs/{log}",
            "resource": {"type": "ml_job", "labels": names},
            "labels": {"ml.googleapis.com/endpoint": "", **labels},
            **entry,
        }
        self.world.part(Logs).add(job.project, document)

    def _do(self, job: Job | str, what: Callable[..., None], *words: Any) -> None:
        with self.world.lock:
            job = self._job(job)
            what(job, self.world.clock.now(), *words)
            self._plan(job)

    def _job(self, job: Job | str) -> Job:
        return job if isinstance(job, Job) else self.jobs[job.rpartition("/")[2]]

    def _plan(self, job: Job) -> None:
        """Wake the job when it next has something to do."""
        if job.event is not None:
            job.event.cancel()
        due = job.next_due()
        job.event = None if due is None else self.world.clock.at(due, lambda: self._do(job, Job.advance))
        self.world.clock.changed()
