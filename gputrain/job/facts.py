"""What a handle knows of its job without looking: what was asked for, and what the last look saw.

As JSON types it has the same keys in Python, on the command line, in events and in log records: times are
ISO 8601, durations seconds, prices US dollars; what is not known is null.
"""

from __future__ import annotations

import logging
from collections.abc import Callable, Mapping
from datetime import datetime, timedelta
from typing import Any

import attrs

from gputrain.backends import seam
from gputrain.backends.abilities import KeepsRecords
from gputrain.backends.base import Backend, JobRef
from gputrain.errors import JobLostError
from gputrain.gcp.endpoints import on_trial
from gputrain.job.events import tell
from gputrain.job.record import AskedFor, Going
from gputrain.job.result import told
from gputrain.lifecycle import Failure, Observation, State, advance
from gputrain.planning import Candidate, Ledger
from gputrain.planning.attempts import moved
from gputrain.secrets import redacted, without_secrets
from gputrain.spec import TrainingSpec
from gputrain.tables import Shown, Table
from gputrain.threads import new_lock
from gputrain.times import picked, plain

log = logging.getLogger("gputrain")

_UNRECORDED = "not known here: the record is in the job's bucket, and this backend was given no bucket="


class Facts(Shown):
    """The part of a `Job` that knows, looks and asks.

    What was asked for is read from the job's record when it is first wanted, the same in every process.
    """

    def __init__(
        self,
        ref: JobRef,
        backend: Backend,
        candidate: Candidate | None,
        attempts: Ledger,
        going: Going,
        now: Callable[[], datetime],
    ) -> None:
        self.ref = ref
        self._backend = backend
        self._candidate = candidate
        self._attempts = attempts
        self._going = going
        self.now = now
        self._asked = AskedFor(going.record)
        self._was_moved = False
        """Whether another process has started it again, so that the record knows more than this handle."""
        self._state = State.QUEUED
        self._lock = new_lock()
        self._seen = self._told = Observation()  # as it is shown, and as the backend told it
        self.point: Mapping[str, Any] = {}
        """Which point of an experiment it runs; empty for a job of none."""

    @property
    def uri(self) -> str:
        """The name of the job: ``gputrain.attach(uri)`` takes it up again, in any process, on any day."""
        return self.ref.uri

    @property
    def state(self) -> State:
        """Where the job stood at the last look; `refresh` looks anew."""
        return self._state

    @property
    def id(self) -> str:
        """What everything that is made for the job is named after: no other job has it."""
        return self.ref.name

    @property
    def name(self) -> str:
        """As the spec calls it; its `id` where the spec gives no name, or cannot be read."""
        spec = self.spec
        return self.id if spec is None or spec.name is None else spec.name

    @property
    def spec(self) -> TrainingSpec | None:
        """What was asked for; a function is the script that was made of it. None where no record is kept."""
        return self._asked.spec

    @property
    def labels(self) -> Mapping[str, str]:
        """Those of its spec."""
        return {} if self.spec is None else self.spec.labels

    @property
    def created_at(self) -> datetime | None:
        """When it was first asked for; None where no record is kept."""
        return self._asked.created_at

    @property
    def candidate(self) -> Candidate | None:
        """Where it was placed last; None where no record is kept, and another process placed it."""
        asked = self._asked.candidate if self._was_moved else None
        return asked or self._candidate or self._asked.candidate

    @property
    def attempts(self) -> Ledger:
        """The ledger: every place that was tried, oldest first, and what it answered."""
        asked = self._asked.attempts if self._was_moved else None
        return asked or self._attempts or self._asked.attempts

    @property
    def started_at(self) -> datetime | None:
        """When ranks first ran; None before."""
        return self._seen.started_at

    @property
    def ended_at(self) -> datetime | None:
        """When it ended; None before."""
        return self._seen.ended_at

    @property
    def detail(self) -> str:
        """A few words on where it stands, in the platform's own terms."""
        return self._seen.detail

    @property
    def failure(self) -> Failure | None:
        """Why it ended without success; None before, and where it ended well."""
        return self._seen.failure

    @property
    def attempt(self) -> int:
        """Which start of the job was seen last: 0 for the first, one more with each restart."""
        return self._seen.attempt

    @property
    def place(self) -> str:
        """Where it is, as far as a look or its name tells."""
        return self._seen.place or self.ref.place

    @property
    def trial(self) -> str:
        """The address of the emulator that runs it; empty: this is no trial."""
        return seam.trial(self._backend)

    def to_dict(self) -> dict[str, Any]:
        """All that is known of the job, as JSON types; the command line prints the same."""
        candidate, spec = self.candidate, self.spec
        return {
            **picked(self, "uri id name"),
            "backend": self.ref.backend,
            "project": self.ref.project or None,
            "place": self.ref.place or None,
            **picked(self, "state detail labels created_at started_at ended_at"),
            "duration_s": plain(self.duration),
            **picked(self, "cost_usd failure"),
            "candidate": None if candidate is None else candidate.placed(),
            "attempts": [
                {**picked(one.candidate, "backend place"), **picked(one, "at outcome answer")}
                for one in self.attempts
            ],
            "spec": None if spec is None else _shown(spec.to_dict()),
        }

    @property
    def duration(self) -> timedelta | None:
        """How long ranks have been running, all attempts together, at least 0; None before they start."""
        if self._seen.started_at is None:
            return None
        this = (self._seen.ended_at or self.now()) - self._seen.started_at  # a clock may be behind the job's
        return timedelta(seconds=self._seen.ran_before_s) + max(this, timedelta(0))

    @property
    def cost_usd(self) -> float | None:
        """US dollars spent so far, at the dated price of the plan; None: unknown.

        Of an attempt that is over, with what its machines took before ranks ran, as far as that is known.
        """
        price_usd_h = self._seen.price_usd_h
        if price_usd_h is None and self.candidate is not None:
            price_usd_h = self.candidate.price_usd_h
        if price_usd_h is None:
            return None
        ranks_s = (self.duration or timedelta(0)).total_seconds() - self._seen.ran_before_s
        now_s = max(0.0, ranks_s, self._seen.ran_s)  # what a restart and the limits count
        return self._seen.spent_before_usd + price_usd_h * now_s / 3600

    @property
    def table(self) -> Table:
        """The job in a few rows."""
        shown = told(self.ref, self._state, self.candidate, self.duration, self._seen.detail)
        rows = shown.rows if self._is_recorded else (*shown.rows, ("asked for", _UNRECORDED))
        return attrs.evolve(shown, title=f"{shown.title}{on_trial(self.trial)}", rows=rows)

    @property
    def _is_recorded(self) -> bool:
        return not isinstance(self._backend, KeepsRecords) or self._backend.recorder() is not None

    def refresh(self) -> Observation:
        """Look at the job once.

        Raises:
            JobLostError: neither the job nor its traces can be found.
            TransientError: it could not be looked at now; the state stays what it was.
        """
        told, way = self._look()
        seen = told if not way else attrs.evolve(
            told, state=State.INTERRUPTED, detail=f"{told.place}: {way}", failure=None, ended_at=None
        )  # fmt: skip
        with self._lock:
            before, self._state = self._state, advance(self._state, seen.state)
            self._note_move(seen)
            self._seen, self._told = seen, told
        if self._state is not before:
            tell(self, before)
        return seen

    def _look(self) -> tuple[Observation, str]:
        """What its backend tells, and what comes next where that is no end; followed where it has gone on."""
        try:
            told = seam.observe(self._backend, self.ref)
        except JobLostError:
            if not self._follow(None):
                raise
            return self._look()
        may_go_on = told.state in (State.FAILED, State.CANCELLED)
        way = self._going.way_on(told) if may_go_on else ""
        has_moved = may_go_on and not way and self._follow(told)
        return self._look() if has_moved else (told, way)

    def _follow(self, seen: Observation | None) -> bool:
        there = self._going.elsewhere(self._backend, seen)
        if there is None:
            return False
        with self._lock:
            self.ref, self._backend = there
        return True

    def _note_move(self, seen: Observation) -> None:
        """Write into the ledger that the job is elsewhere than it was, whoever moved it."""
        if seen.place != self._seen.place or seen.attempt != self._seen.attempt:
            self._asked = AskedFor(self._going.record)
            self._was_moved = self._was_moved or self._seen.state is not None
        left = self._candidate
        if left is None or seen.place in ("", left.place):
            return
        told = moved(left, seen.place, self.now(), has_run=seen.attempt > 0)
        self._candidate, self._attempts = told[-1].candidate, Ledger((*self._attempts, *told))

    def resume(self) -> bool:
        """Start the job again where it was interrupted, or where it found no machines, if there is room.

        `wait` does so by itself, in any process whose backends are set as those that made the job; one that
        is set otherwise watches, and says with which it could. True where this call started it.
        """
        if self._state is not State.INTERRUPTED:
            return False
        step = self._going.go_on(self._told, self._attempts)
        placed, self._attempts = step.placed, step.attempts
        if placed is None:
            return False
        with self._lock:
            self.ref, self._backend = placed.ref, placed.backend
            self._candidate, self._asked = placed.candidate, AskedFor(self._going.record)
            self._was_moved = False
            self._state, self._seen, self._told = State.QUEUED, Observation(), Observation()
        log.warning("it goes on as %s", self.uri)
        return True

    def supervise(self) -> bool:
        """Do what a job may need after a look: end what is left of a gang that cannot go on, and `resume`."""
        self._going.tidy(self.ref, self._backend, self._told)
        return self.resume()

    def cancel(self) -> None:
        """Ask the job to stop; its ranks may save first. Twice is once, and an ended job stays as it is."""
        self._going.cancel(self.ref, self._backend)
        with self._lock:
            self._state = advance(self._state, State.STOPPING)

    def __eq__(self, other: object) -> bool:
        return isinstance(other, Facts) and other.uri == self.uri

    def __hash__(self) -> int:
        return hash(self.id)  # a job that goes on elsewhere has another uri, and the same id

    def __repr__(self) -> str:
        return f"<Job {self.uri} {self._state.value}{on_trial(self.trial)}>"


def _shown(spec: dict[str, Any]) -> dict[str, Any]:
    """The spec, with what looks secret hidden: documents are printed and kept."""
    shown: dict[str, Any] = redacted({name: one for name, one in spec.items() if name != "secrets"})
    shown |= {"env": without_secrets(spec["env"])} if "env" in spec else {}
    return {name: shown.get(name, one) for name, one in spec.items()}  # its secrets are references
