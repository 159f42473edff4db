"""Every custom job: what moves it from one state to the next, and what it competes for."""

from __future__ import annotations

import itertools
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass, field
from typing import Any

from gputrain_emulator import facts
from gputrain_emulator.clock import Event
from gputrain_emulator.errors import ApiError
from gputrain_emulator.logging import Logs
from gputrain_emulator.quotas import Key, Quotas
from gputrain_emulator.vertex.states import (
    TERMINAL,
    TRANSIENT_EXITS,
    Ask,
    Ending,
    Endings,
    Fate,
    OverQuota,
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
Needs = Sequence[tuple[Key, float]]
_EPSILON_S = 1e-6


@dataclass(kw_only=True)
class Life:
    """The mutable life of one job; everything here runs under the world's lock."""

    vertex: Vertex
    job: Job
    ask: Ask
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

    def visible_error(self, now: float) -> Ending | None:
        """The error as Google shows it: about a minute after the end."""
        shows = self.ended is not None and now >= self.ended + self.settings.error_delay_s
        return self.error if shows else None

    def _deadline(self) -> float | None:
        if self.phase in (Phase.STARTING, Phase.RUNNING) and self.started is not None:
            return self.started + (self.ask.timeout_s or self.settings.timeout_s)
        if self.phase is Phase.CAPACITY and self.ask.flex_start:
            wait = self.settings.max_wait_s if self.ask.max_wait_s is None else self.ask.max_wait_s
            return self.wait_began + wait if wait > 0 else None
        return None

    def _step(self, at: float) -> None:
        deadline = self._deadline()
        if deadline is not None and deadline <= at:
            if self.phase is Phase.CAPACITY:
                self._end(at, State.FAILED, self.endings.stockout())
            else:
                ending = self.endings.timed_out(self.ask.timeout_s or self.settings.timeout_s)
                self._end(at, State.CANCELLED, ending)
        elif self.phase is Phase.CAPACITY:
            self._seek_machines(at)
        elif self.phase is Phase.PROVISIONING:
            self.tries += 1
            self._move(at, Phase.STARTING, State.PENDING, self.settings.start_s)
            self._start(self.ask.replicas)
        elif self.phase is Phase.STARTING:
            self._run(at)
        elif self.phase is Phase.RUNNING:
            self._meet_fate(at)
        elif self.phase is Phase.CANCELLING:
            self._end(at, State.CANCELLED, self.endings.cancelled())

    def seek_quota(self, at: float) -> None:
        """Ask for quota, and then for machines."""
        quotas = self.vertex.quotas
        if not self.has_quota:
            if quotas.exceeded(self.job.needs) is not None:
                self._move(at, Phase.QUOTA, State.QUEUED)
                return
            quotas.take(self.job.needs)
            self.has_quota = True
        self.wait_began = at
        self._seek_machines(at)

    def _seek_machines(self, at: float) -> None:
        stock, region = self.vertex.stock, self.job.region
        if all(stock.get((region, kind), count) >= count for kind, count in self.job.machines.items()):
            self._add_stock(-1)
            self.has_machines, self.refusals = True, 0
            wanted = self.fate.provision_s
            seconds = self.settings.provision_s if wanted is None else wanted
            self._move(at, Phase.PROVISIONING, State.PENDING, seconds)
            return
        self.refusals += 1
        limit = self.settings.spot_restarts if self.ask.spot else self.settings.job_attempts
        if not self.ask.flex_start and self.refusals > limit:
            self._end(at, State.FAILED, self.endings.stockout())
            return
        self._move(at, Phase.CAPACITY, State.PENDING, self.settings.capacity_retry_s)
        self.vertex.say(self.job, f"Resources are insufficient in region: {region}")

    def _start(self, replicas: Sequence[str]) -> None:
        """Machines cost from when code starts on them, which is before the state says RUNNING."""
        world = self.vertex.world
        world.ledger.start_meter(self.job.name, self.job.price_usd_h())
        self.job.starting = tuple(replicas)
        world.runtime.start_job(self.job)
        self.live = world.runtime.is_real

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
        if status == 0:
            if replica == self.ask.replicas[0]:
                self._end(now, State.SUCCEEDED, None)
        elif self.phase is not Phase.CANCELLING:
            if status in TRANSIENT_EXITS and self._may_restart(replica):
                self.worker_lost(replica, now)
            else:
                self._end(now, State.FAILED, self.endings.exited(replica, status, termination))

    def all_replicas_gone(self, now: float) -> None:
        """In live mode, every replica has ended: a cancel is over."""
        if self.phase is Phase.CANCELLING:
            self._end(now, State.CANCELLED, self.endings.cancelled())

    def worker_lost(self, replica: str, now: float) -> None:
        """The machine of a replica went away: the worker starts again, or the whole job where that is set."""
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
            self._start((replica,))

    def preempt(self, now: float) -> None:
        """Spot capacity is taken back: the job goes back to PENDING, up to six times."""
        if self.phase not in (Phase.PROVISIONING, Phase.STARTING, Phase.RUNNING):
            return
        self.preemptions += 1
        if self.preemptions > self.settings.spot_restarts or self.ask.disable_retries:
            self._end(now, State.FAILED, self.endings.stockout())
        else:
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
        if self.phase not in (Phase.ENDED, Phase.CANCELLING):
            seconds = self.settings.live_cancel_s if self.live else self.settings.cancel_s
            self._move(now, Phase.CANCELLING, State.CANCELLING, seconds)
            self.vertex.world.runtime.stop_job(self.job)

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
        self.vertex.world.runtime.stop_job(self.job)
        self._give_machines()
        self.wait_began = at
        self._seek_machines(at)

    def _move(self, at: float, phase: Phase, state: State, due_in_s: float | None = None) -> None:
        is_news, self.state = state is not self.state or not self.updated, state
        self.phase, self.updated = phase, at
        self.due = None if due_in_s is None else at + due_in_s
        if is_news:
            self.vertex.moved(self.job)

    def _end(self, at: float, state: State, error: Ending | None) -> None:
        self.ended, self.error = at, error
        self._move(at, Phase.ENDED, state)
        self._give_machines()
        if self.has_quota:
            self.has_quota = False
            self.vertex.quotas.release(self.job.needs)
        self.vertex.world.runtime.stop_job(self.job)  # last, as it may report at once that nothing runs
        self.vertex.look_again()

    def _give_machines(self) -> None:
        if self.has_machines:
            self.has_machines = False
            self._add_stock(1)
            self.vertex.world.ledger.stop_meter(self.job.name)

    def _add_stock(self, sign: int) -> None:
        for kind, count in self.job.machines.items():
            if (self.job.region, kind) in self.vertex.stock:
                self.vertex.stock[self.job.region, kind] += sign * count


@dataclass(kw_only=True, eq=False)
class Job:
    """One custom job: its spec as JSON and its life."""

    project: Project
    region: str
    id: str
    serial: int
    document: dict[str, Any]  # CustomJob as created, without its output fields
    needs: Needs  # what it charges
    machines: Mapping[str, int]  # machine type -> how many
    life: Life = field(init=False)
    starting: tuple[str, ...] = ()  # the replicas that a runtime is asked to start
    event: Event | None = None

    @property
    def name(self) -> str:
        """The resource name, with the project's number as Google writes it."""
        return f"projects/{self.project.number}/locations/{self.region}/customJobs/{self.id}"

    @property
    def replicas(self) -> tuple[str, ...]:
        return self.life.ask.replicas

    def times(self) -> dict[str, float]:
        """Seconds since 1970, by the field's JSON name; only those that have come."""
        life = self.life
        every = {
            "createTime": life.created, "startTime": life.started, "endTime": life.ended,
            "updateTime": life.updated,
        }  # fmt: skip
        return {name: when for name, when in every.items() if when is not None}

    def price_usd_h(self) -> float:
        """Compute Engine's price of the machines, and 15 % of their on-demand price as Vertex AI's fee.

        Source: SKUs of a billing report of 2025-08, us-central1; Spot and flex-start pay the same fee.
        """
        model = self.document["jobSpec"].get("scheduling", {}).get("strategy", "STANDARD")
        prices = (
            count * (facts.price_usd_h(kind, self.region, sold) * share)
            for kind, count in self.machines.items()
            for sold, share in ((model, 1.0), ("STANDARD", 0.15))
        )
        return sum(prices)


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
        self.stock: dict[tuple[str, str], int] = {}
        self.persistent_resources: set[tuple[str, str, str]] = set()
        self.tensorboards: dict[str, str] = {}
        self.forbidden_accounts: set[str] = set()
        self.deaf_accounts: set[str] = set()
        self.operations: dict[str, dict[str, Any]] = {}
        self._fates: list[tuple[str, Fate]] = []
        self._serials = itertools.count(1)

    # what a test arranges

    def set_fate(self, fate: Fate, *, display_name: str = "") -> None:
        """What becomes of jobs created from now on, or of those with a display name; the last one wins."""
        with self.world.lock:
            self._fates.insert(0, (display_name, fate))

    def set_limit(self, metric: str, limit: int, *, region: str, project: str = "") -> None:
        """Set a quota limit (region `*`: everywhere); `metric` may leave out `aiplatform.googleapis.com/`."""
        with self.world.lock:
            whole = metric if "/" in metric else f"aiplatform.googleapis.com/{metric}"
            owner = project or next(iter(self.world.projects))
            self.quotas.set_limit(Key(project=owner, metric=whole, region=region), limit)
            self.look_again()

    def set_stock(self, machine_type: str, count: int, *, region: str) -> None:
        """How many machines of a type the region can still give; without this it never runs out."""
        with self.world.lock:
            self.stock[region, machine_type] = count

    # jobs

    def check_quota(self, needs: Needs) -> None:
        """429 naming every metric whose limit, or by setting whose rest, is too small."""
        is_strict = self.settings.over_quota is OverQuota.REFUSE
        short = [
            key.metric
            for key, amount in needs
            if amount > self.quotas.limit(key) - (self.quotas.usage(key) if is_strict else 0)
        ]
        if short:
            raise ApiError(429, f"The following quota metrics exceed quota limits: {', '.join(short)}")

    def create(
        self, project: Project, region: str, document: dict[str, Any], ask: Ask, *, caller: str, **rest: Any
    ) -> Job:
        """A new job; the checks are done."""
        name, now = document["displayName"], self.world.clock.now()
        job = Job(
            project=project,
            region=region,
            id=self.world.new_id(),
            serial=next(self._serials),
            document=document,
            **rest,
        )
        job.life = Life(
            vertex=self,
            job=job,
            ask=ask,
            endings=Endings(project_number=project.number, job_id=job.id, region=region),
            settings=self.settings,
            fate=next((fate for wanted, fate in self._fates if wanted in ("", name)), Fate()),
            created=now,
        )
        self.jobs[job.id] = job
        self.world.ledger.write("create", job.name, caller=caller, detail=name)
        job.life.seek_quota(now)
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
        state, error = job.life.state, job.life.error
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
            if job.life.phase is Phase.QUOTA:
                self._advance(job)

    # what happens to jobs, for tests and for live mode; each takes the id or the job

    def cancel(self, job: Job | str) -> None:
        self._do(job, Life.cancel)

    def preempt(self, job: Job | str) -> None:
        """Take the job's Spot machines away."""
        self._do(job, Life.preempt)

    def fail_internally(self, job: Job | str) -> None:
        """Let the service itself fail at the job."""
        self._do(job, Life.internal_error)

    def put(self, job: Job | str, state: State, ending: Ending | None = None) -> None:
        """Put the job into a state by hand."""
        self._do(job, lambda life, now: life.put(state, now, ending))

    def replica_exited(self, job: Job | str, replica: str, status: int, termination: str = "") -> None:
        """A replica's process has ended."""
        self._do(job, lambda life, now: life.replica_exited(replica, status, now, termination))

    def all_replicas_gone(self, job: Job | str) -> None:
        """Every process of a job that was asked to stop has ended."""
        self._do(job, Life.all_replicas_gone)

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
            if job.document["jobSpec"].get("serviceAccount") not in self.deaf_accounts:
                whole = {"message": text, "levelname": severity} if payload is None else payload
                labels = {"compute.googleapis.com/resource_name": task}
                self._log(job, task, task, labels, payload=whole, severity=severity)

    def say(self, job: Job, text: str, *, severity: str = "INFO", state: str = "") -> None:
        """A line of the service itself, as GitHub's cortex-data-foundation#42 shows it (2026-11-22)."""
        labels = {"ml.googleapis.com/job_state": state} if state else {}
        self._log(job, f"ml.googleapis.com%2F{job.id}", "service", labels, text=text, severity=severity)

    def _log(self, job: Job, log: str, task: str, labels: Mapping[str, str], **entry: Any) -> None:
        names = {"job_id": job.id, "project_id": job.project.id, "task_name": task}
        resource = {"type": "ml_job", "labels": names}
        whole = {"ml.googleapis.com/endpoint": "", **labels}
        self.world.part(Logs).write(job.project, log, resource=resource, labels=whole, **entry)

    def _do(self, job: Job | str, what: Callable[[Life, float], None]) -> None:
        with self.world.lock:
            job = self._job(job)
            what(job.life, self.world.clock.now())
            self._plan(job)

    def _job(self, job: Job | str) -> Job:
        return job if isinstance(job, Job) else self.jobs[job.rpartition("/")[2]]

    def _advance(self, job: Job) -> None:
        job.life.advance(self.world.clock.now())
        self._plan(job)

    def _plan(self, job: Job) -> None:
        """Wake the job when it next has something to do."""
        if job.event is not None:
            job.event.cancel()
        due = job.life.next_due()
        job.event = None if due is None else self.world.clock.at(due, lambda: self._advance(job))
        self.world.clock.changed()
