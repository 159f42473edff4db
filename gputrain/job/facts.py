"""What a handle knows of its job without looking: what was asked for, and what the last look saw.

As JSON types it has the same keys in Python, on the command line, in events and in log records: times are
ISO 8601, durations seconds, prices US dollars; what is not known is null.
"""

from __future__ import annotations

from collections.abc import Callable, Mapping
from datetime import datetime, timedelta
from typing import TYPE_CHECKING, Any

import attrs

from gputrain.backends.base import JobRef
from gputrain.job.asked import AskedFor
from gputrain.job.going import Going
from gputrain.job.result import told
from gputrain.lifecycle import Failure, Observation, State
from gputrain.planning import Candidate, Ledger
from gputrain.secrets import HIDDEN, looks_secret
from gputrain.spec import TrainingSpec
from gputrain.tables import Shown, Table

if TYPE_CHECKING:
    from datetime import datetime


class Facts(Shown):
    """The part of a `Job` that is only read.

    What was asked for is read from the job's record when it is first wanted, the same in every process.
    """

    def __init__(
        self,
        ref: JobRef,
        candidate: Candidate | None,
        attempts: Ledger,
        going: Going,
        now: Callable[[], datetime],
    ) -> None:
        self.ref = ref
        self._candidate = candidate
        self._attempts = attempts
        self._going = going
        self.now = now
        self._asked = AskedFor(going.record)
        self._state = State.QUEUED
        self._seen = Observation()
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
        return self._candidate or self._asked.candidate

    @property
    def attempts(self) -> Ledger:
        """The ledger: every place that was tried, oldest first, and what it answered."""
        return self._attempts or self._asked.attempts

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

    def to_dict(self) -> dict[str, Any]:
        """All that is known of the job, as JSON types; the command line prints the same."""
        return of_job(self)

    @property
    def duration(self) -> timedelta | None:
        """How long ranks have been running, all attempts together; None before they start."""
        if self._seen.started_at is None:
            return None
        before = timedelta(seconds=self._seen.ran_before_s)
        return before + ((self._seen.ended_at or self.now()) - self._seen.started_at)

    @property
    def cost_usd(self) -> float | None:
        """US dollars spent so far, at the dated price of the plan; None: unknown."""
        if self.candidate is None or self.candidate.price_usd_h is None:
            return None
        return self.candidate.price_usd_h * (self.duration or timedelta(0)).total_seconds() / 3600

    @property
    def table(self) -> Table:
        """The job in a few rows."""
        return told(self.ref, self._state, self.candidate, self.duration, self._seen.detail)

    def __eq__(self, other: object) -> bool:
        return isinstance(other, Facts) and other.uri == self.uri

    def __hash__(self) -> int:
        return hash(self.id)  # a job that goes on elsewhere has another uri, and the same id

    def __repr__(self) -> str:
        return f"<Job {self.uri} {self._state.value}>"


Json = dict[str, Any]


def of_job(job: Facts) -> Json:
    """All that is known of a job."""
    ref, duration, created = job.ref, job.duration, job.created_at
    return {
        "uri": ref.uri,
        "id": job.id,
        "name": job.name,
        "backend": ref.backend,
        "project": ref.project or None,
        "place": ref.place or None,
        "state": job.state.value,
        "detail": job.detail,
        "labels": dict(job.labels),
        "created_at": _text(created),
        "started_at": _text(job.started_at),
        "ended_at": _text(job.ended_at),
        "duration_s": None if duration is None else duration.total_seconds(),
        "cost_usd": job.cost_usd,
        "failure": of_failure(job.failure),
        "candidate": None if job.candidate is None else of_candidate(job.candidate),
        "attempts": [
            {
                "backend": one.candidate.backend,
                "place": one.candidate.place,
                "at": one.at.isoformat(),
                "outcome": one.outcome.value,
                "answer": one.answer,
            }
            for one in job.attempts
        ],
        "spec": None if job.spec is None else _shown(job.spec.to_dict()),
    }


def of_candidate(one: Candidate) -> Json:
    """Where a job runs, or would."""
    model = one.provisioning_model
    return {
        "backend": one.backend,
        "place": one.place,
        "machine_type": one.machine_type,
        "gpu": one.gpu,
        "gpu_count": float(one.gpu_count),
        "num_nodes": one.num_nodes,
        "nproc_per_node": one.nproc_per_node,
        "provisioning_model": model.value if model else None,
        "price_usd_h": one.price_usd_h,
        "max_run_duration_s": one.max_run_duration.total_seconds(),
    }


def of_failure(failure: Failure | None) -> Json | None:
    """Why it ended without success; null where it did not."""
    if failure is None:
        return None
    return {**attrs.asdict(failure), "last_lines": list(failure.last_lines)}


def _shown(spec: Json) -> Json:
    """The spec, with what looks secret hidden: documents are printed and kept."""
    env = spec.get("env", {})
    hidden = {name: HIDDEN if looks_secret(value, name=name) else value for name, value in env.items()}
    return {**spec, "env": hidden} if env else spec


def _text(time: datetime | None) -> str | None:
    return None if time is None else time.isoformat()
