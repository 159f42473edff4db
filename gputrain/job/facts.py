"""What a handle knows of its job: its record, and what the last look saw.

As JSON types it has the same keys in Python, on the command line, in events and in log records: times are
ISO 8601, durations seconds, prices US dollars; what is not known is null.
"""

from __future__ import annotations

import logging
import threading
from collections.abc import Callable, Mapping, Sequence
from contextlib import suppress
from datetime import datetime, timedelta
from typing import Any

import attrs

from gputrain.backends.base import Backend, Status
from gputrain.display.table import Table, TableDisplay
from gputrain.entrypoint import contract
from gputrain.errors import GputrainError
from gputrain.google.endpoints import on_trial
from gputrain.job.events import tell
from gputrain.job.files import JobFiles
from gputrain.job.history import candidate_of, ledger_of, moment
from gputrain.job.result import told
from gputrain.jobstore import JobRecord, JobRef, Launch, Stored, read_spec
from gputrain.lifecycle import Failure, State
from gputrain.orchestration.context import Context
from gputrain.orchestration.launcher import JUST_LAUNCHED, act
from gputrain.orchestration.look import Found, look, look_many
from gputrain.orchestration.options import remaining
from gputrain.orchestration.reconciler import Nothing, state_of
from gputrain.orchestration.steps import cancel
from gputrain.planning import Candidate, Ledger
from gputrain.spec import TrainingSpec
from gputrain.text import hide_secrets, redacted
from gputrain.times import picked, plain

log = logging.getLogger("gputrain")
UNSEEN = Status()


class Facts(TableDisplay):
    """The part of a `Job` that knows, looks and asks.

    Args:
        ref: its name.
        context: what it is looked at with; or what makes that when it is first wanted.
        stored: its record, where it was just read or written.
    """

    def __init__(
        self, ref: JobRef, context: Context | Callable[[], Context], stored: Stored | None = None
    ) -> None:
        self.ref = ref
        self._context_or_opener = context
        self._stored = stored
        self._found: Found | None = None
        self._seen = UNSEEN
        self._state = State.QUEUED
        if stored is not None and stored.record.has_ended:
            self._state = state_of(stored.record.result)
        self._lock = threading.RLock()
        self.point: Mapping[str, Any] = {}
        """Which point of an experiment it runs; empty for a job of none."""

    @property
    def _context(self) -> Context:
        """What it is looked at with. Errors as of whatever makes it."""
        if not isinstance(self._context_or_opener, Context):
            self._context_or_opener = self._context_or_opener()
        return self._context_or_opener

    @property
    def now(self) -> Callable[[], datetime]:
        """The clock."""
        return self._context.now

    @property
    def _record(self) -> JobRecord | None:
        """As it was read last; None where it cannot be read."""
        if self._stored is None:
            try:
                self._stored = self._context.jobs.read(self.id)
            except GputrainError as error:
                log.warning("the record of %s could not be read: %s", self.id, error.what)
        return None if self._stored is None else self._stored.record

    @property
    def _backend(self) -> Backend | None:
        """The backend of its attempt; None where it has none, or that one is not here."""
        record = self._record
        return None if record is None else self._context.backends.get(record.backend)

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
    def backend(self) -> str:
        """The backend that it is with, or was last; empty: none yet."""
        return "" if self._record is None else self._record.backend

    @property
    def spec(self) -> TrainingSpec | None:
        """What was asked for; a function is the script that was made of it. None where it cannot be read."""
        record = self._record
        try:
            return None if record is None else read_spec(record.spec, self.id)
        except GputrainError as error:
            log.info("%s", error)
            return None

    @property
    def labels(self) -> Mapping[str, str]:
        """Those of its spec."""
        return {} if self.spec is None else self.spec.labels

    @property
    def created_at(self) -> datetime | None:
        """When it was first asked for; None where that cannot be read."""
        return moment(self._record.created_at) if self._record is not None else None

    @property
    def candidate(self) -> Candidate | None:
        """Where it was placed last; None where it has no place yet."""
        record, spec = self._record, self.spec
        if record is None or spec is None:
            return None
        last = record.attempt or next((one for one in reversed(record.history) if one.has_run), None)
        left = remaining(record, spec) or spec
        return None if last is None else candidate_of(last.option, last.price_usd_h, left)

    @property
    def attempts(self) -> Ledger:
        """The ledger: every place that was tried, oldest first, and what it answered."""
        record, spec = self._record, self.spec
        return Ledger() if record is None or spec is None else ledger_of(record, spec)

    @property
    def started_at(self) -> datetime | None:
        """When ranks of its present attempt first ran; None before."""
        if self._record is not None and self._record.has_ended and self._record.started_at:
            return moment(self._record.started_at)
        return self._seen.started_at

    @property
    def ended_at(self) -> datetime | None:
        """When it ended; None before."""
        if self._record is not None and self._record.has_ended and self._record.ended_at:
            return moment(self._record.ended_at)
        return self._seen.ended_at if self._state.is_terminal else None

    @property
    def detail(self) -> str:
        """A few words on where it stands, in the platform's own terms."""
        return (
            self._record.detail if self._record is not None and self._record.has_ended else self._seen.detail
        )

    @property
    def failure(self) -> Failure | None:
        """Why it ended without success; None before, and where it ended well."""
        if self._record is not None and self._record.has_ended:
            return self._record.failure
        return self._seen.failure if self._state.is_terminal else None

    @property
    def attempt(self) -> int:
        """Which start of the job was seen last: 0 for the first, one more with each restart."""
        record = self._record
        if record is None:
            return self._seen.restarts
        return record.restarts + (0 if record.has_ended else self._seen.restarts)

    @property
    def place(self) -> str:
        """Where it is, as its record tells."""
        record = self._record
        last = None if record is None else record.attempt or (record.history[-1] if record.history else None)
        return "" if last is None else last.option.place

    @property
    def machines(self) -> tuple[str, ...]:
        """The names of the machines of its present attempt, by node; empty where it has none that bill."""
        record, placed = self._record, self.candidate
        is_billed = placed is not None and placed.provisioning_model is not None
        return record.attempt.names if is_billed and record is not None and record.attempt else ()

    @property
    def outputs(self) -> JobFiles:
        """Its results: their ``uri``, `JobFiles.list` and `JobFiles.download`."""
        return self._files("output_dir")

    @property
    def checkpoints(self) -> JobFiles:
        """Its state between attempts, as `outputs`."""
        return self._files("checkpoint_dir")

    def _files(self, field: str) -> JobFiles:
        record, backend, spec = self._record, self._backend, self.spec
        uri = (None if spec is None else getattr(spec, field)) or ""
        if record is not None and backend is not None:
            with suppress(GputrainError):  # of another host
                uri = backend.place(record, field, uri)
        return JobFiles(uri=uri, backend=backend)

    @property
    def trial(self) -> str:
        """The address of the emulator that runs it; empty: this is no trial."""
        return self._context.trial

    def to_dict(self) -> dict[str, Any]:
        """All that is known of the job, as JSON types; the command line prints the same."""
        candidate, spec = self.candidate, self.spec
        return {
            **picked(self, "uri id name"),
            "backend": self.backend or None,
            "project": self.ref.project or None,
            "place": self.place or None,
            **picked(self, "state detail labels created_at started_at ended_at"),
            "duration_s": plain(self.duration),
            **picked(self, "cost_usd failure"),
            "outputs": self.outputs.uri or None,
            "checkpoints": self.checkpoints.uri or None,
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
        before_s = sum(one.ran_s for one in self._record.history) if self._record is not None else 0.0
        if self.started_at is None:
            return timedelta(seconds=before_s) if before_s else None
        this = (self.ended_at or self.now()) - self.started_at  # a clock may be behind the job's
        return timedelta(seconds=before_s) + max(this, timedelta(0))

    @property
    def cost_usd(self) -> float | None:
        """US dollars spent so far, at the dated price of the plan; None: unknown.

        Of an attempt that is over, with what its machines took before ranks ran, as far as that is known.
        """
        record = self._record
        last = None if record is None else record.attempt or (record.history[-1] if record.history else None)
        if record is None or last is None or last.price_usd_h is None:
            return None
        if record.has_ended or record.attempt is None:
            return record.used_usd
        ranks_s = 0.0
        if self.started_at is not None:
            ranks_s = ((self.ended_at or self.now()) - self.started_at).total_seconds()
        return record.used_usd + last.price_usd_h * max(0.0, ranks_s, self._seen.ran_s) / 3600

    @property
    def table(self) -> Table:
        """The job in a few rows."""
        shown = told(self.ref, self._state, self.candidate, self.duration, self.detail)
        cost = self.cost_usd
        more = {
            "cost": f"${cost:,.2f}" if cost else "",
            "resources": ", ".join(self.machines),
            "outputs": self.outputs.uri,
            "checkpoints": self.checkpoints.uri,
        }
        rows = (*shown.rows, *((name, text) for name, text in more.items() if text))
        return attrs.evolve(shown, title=f"{shown.title}{on_trial(self.trial)}", rows=rows)

    def refresh(self) -> Status:
        """Look at the job once; what was seen, with the job's state, which is None where it cannot be told.

        Raises:
            JobLostError: it has no record.
            TransientError: it could not be looked at now; the state stays what it was.
        """
        if not (self._state.is_terminal and self._found is not None):
            self.take(look(self._context, self.id))
        assert self._found is not None, "it was just looked at"
        return attrs.evolve(self._seen, state=self._found.state)

    @property
    def platform(self) -> str:
        """Jobs of one platform are looked at together: those whose records lie in one place."""
        return self._context.jobs.documents.uri

    @property
    def is_one(self) -> bool:
        """Whether there is, or was, a job: of a submit that failed only the record is left."""
        record = self._record
        return record is None or not record.has_ended or record.was_taken

    @property
    def has_step(self) -> bool:
        """Whether the last look says that something is to be done for it: see `supervise`."""
        return self._found is not None and not isinstance(self._found.action, Nothing)

    @staticmethod
    def refresh_many(jobs: Sequence[Facts]) -> list[Exception | None]:
        """Look at many jobs by a few calls; what kept each from being seen."""
        errors: dict[int, Exception | None] = {}
        groups: dict[int, list[Facts]] = {}
        for job in jobs:
            groups.setdefault(id(job._context.jobs), []).append(job)
        for group in groups.values():
            try:
                found: Mapping[str, Found | Exception] = look_many(
                    group[0]._context, list(dict.fromkeys(job.id for job in group))
                )
            except Exception as error:  # noqa: BLE001  # told to whoever waits: it must not end a shared thread
                found = {job.id: error for job in group}
            for job in group:
                one = found[job.id]
                errors[id(job)] = one if isinstance(one, Exception) else None
                if isinstance(one, Found):
                    job.take(one)
        return [errors[id(job)] for job in jobs]

    def take(self, found: Found) -> None:
        """Take over what a look saw, of this job alone or of many."""
        with self._lock:
            before = self._state
            self._found, self._stored, self._seen = found, found.stored, found.status
            if found.state is not None and not before.is_terminal:
                self._state = found.state
        if self._state is not before:
            tell(self, before)

    def supervise(self) -> bool:
        """Take the one step that the last look says comes next: adopt it, end it, or launch it again.

        `wait` does so by itself, in any process whose backends are set as those that made the job; one that
        is set otherwise watches, and says with which it could. True where this call launched it.
        """
        found = self._found
        if found is None:
            return False
        done = act(self._context, found)
        if done is found:
            return False
        self.take(done)
        attempt = done.stored.record.attempt
        is_launched = attempt is not None and attempt.state is Launch.LAUNCHED
        is_mine = is_launched and done.status is JUST_LAUNCHED  # else another process was quicker
        if is_mine:
            log.warning("%s is launched again, at %s", self.uri, self.place)
        return is_mine

    def cancel(self) -> None:
        """Ask the job to stop; its ranks may save first. Twice is once, and an ended job stays as it is."""
        spec = self.spec
        grace = contract.ENVIRONMENT[contract.GRACE][1] if spec is None else spec.env.get(contract.GRACE)
        stored = cancel(self._context, self.id, float(grace or contract.ENVIRONMENT[contract.GRACE][1]))
        if stored is None:
            self.refresh()  # it says that there is no such job
            return
        with self._lock:
            before, self._stored = self._state, stored
            if stored.record.has_ended:
                self._state = state_of(stored.record.result)
            elif not before.is_terminal:
                self._state = State.STOPPING
        if self._state is not before:
            tell(self, before)

    def __eq__(self, other: object) -> bool:
        return isinstance(other, Facts) and other.uri == self.uri

    def __hash__(self) -> int:
        return hash(self.uri)

    def __repr__(self) -> str:
        known = self._context_or_opener
        trial = on_trial(known.trial) if isinstance(known, Context) else ""
        return f"<Job {self.uri} {self._state.value}{trial}>"


def _shown(spec: dict[str, Any]) -> dict[str, Any]:
    """The spec, with what looks secret hidden: documents are printed and kept."""
    shown: dict[str, Any] = redacted({name: one for name, one in spec.items() if name != "secrets"})
    shown |= {"env": hide_secrets(spec["env"])} if "env" in spec else {}
    return {name: shown.get(name, one) for name, one in spec.items()}  # its secrets are references
