"""One custom job on a clock: what state it is in when, and what moves it.

Nothing here reads a clock or a network. `advance(now)` applies what is due, in the order it fell due;
everything else that can happen to a job is a method. Times are seconds of the emulator's clock.

    waiting (QUEUED, PENDING) -> provisioning (PENDING) -> starting (PENDING) -> running (RUNNING) -> ended
        ^                                                       |                    |
        +---------------- preempted, lost, internal error ------+--------------------+

A restart goes back to `waiting`, so states are not monotone, as Google's are not.
"""

from __future__ import annotations

from dataclasses import dataclass, field

from gputrain_emulator.vertex.endings import TRANSIENT_EXITS, Ending, Endings, Settings
from gputrain_emulator.vertex.states import TERMINAL, Ask, Capacity, Fate, Phase, Runner, State

_EPSILON_S = 1e-6


@dataclass(kw_only=True)
class Life:
    """The mutable life of one job; its owner holds the lock."""

    ask: Ask
    capacity: Capacity
    runner: Runner
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
            self.has_quota = self.capacity.take_quota()
        if not self.has_quota:
            self._move(at, Phase.QUOTA, State.QUEUED)
            return
        self.wait_began = at
        self._seek_machines(at)

    def _seek_machines(self, at: float) -> None:
        self.has_machines = self.capacity.take_machines()
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
        self.live = self.runner.start(self.ask.replicas)

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
            self.live = self.runner.start((replica,)) or self.live

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
        self.runner.stop()

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
        self.runner.stop()
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
            self.capacity.give_quota()
        self.runner.stop()  # last, as it may report at once that nothing runs any more

    def _give_machines(self) -> None:
        if self.has_machines:
            self.has_machines = False
            self.capacity.give_machines()
