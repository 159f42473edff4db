"""The record of an experiment: a JSON document beside the records of jobs, changed by compare-and-swap.

It is written before the first job is submitted, and holds nothing of how jobs stand: their own records do.
"""

from __future__ import annotations

import contextlib
import json
import math
from collections.abc import Callable, Iterable, Mapping, Sequence
from typing import Any

import attrs

from gputrain.errors import JobLostError, RequestError
from gputrain.experiments.points import Point, canonical
from gputrain.job import Job
from gputrain.jobstore import Conflict, DocumentStore, RecordError, check_alike
from gputrain.lifecycle import State
from gputrain.spec import TrainingSpec
from gputrain.spec.entry import make_job_id

SCHEMA = 4
TRIES = 5
LEAST_USD = 1e-6
"""Limits are multiples of it."""
TO_RETRY = (State.FAILED, State.EXPIRED)
"""The ends after which `Experiment.retry_failed` submits a point again."""

MayCost = Callable[["ExperimentRecord"], Sequence[float | None]]
"""What each point of a record may still cost, for `shares`."""


@attrs.frozen(kw_only=True)
class Entry:
    """A point as it is submitted."""

    point: Point
    args: tuple[str, ...]
    """All of them, those of the spec first."""
    limit_usd: float | None = None
    """US dollars for all jobs of the point; None: no limit."""
    retries: int = 0
    used_usd: float = 0.0
    """US dollars of the limit that its earlier jobs have used."""

    def key(self, experiment: str, retries: int | None = None) -> str:
        """The idempotency key: made from the experiment's name, the point and its retries alone."""
        times = self.retries if retries is None else retries
        return f"{experiment} {canonical(self.point)}" + (f" again {times}" if times else "")

    def spec(self, base: TrainingSpec) -> TrainingSpec:
        """The spec of the point's newest job."""
        # where nothing is left, the plan says that the limit pays for nothing
        left = None if self.limit_usd is None else max(self.limit_usd - self.used_usd, LEAST_USD)
        limits = [one for one in (base.max_cost, left) if one is not None]
        spec = base.replace(max_cost=min(limits, default=None))
        if spec.command:
            return spec.replace(command=(*spec.command, *self.args))
        return spec.replace(args=self.args)


@attrs.frozen(kw_only=True)
class ExperimentRecord:
    """All that is needed to submit each point as it was submitted first."""

    name: str
    spec: Mapping[str, Any]
    """What all points have in common, as `TrainingSpec.to_dict` writes it."""
    entries: tuple[Entry, ...] = ()
    is_function: bool = False
    max_parallel: int | None = None
    max_cost: float | None = None
    """US dollars for all points."""

    def job_ids(self, base: TrainingSpec) -> frozenset[str]:
        """The ids of all jobs that any process may have submitted, retried ones included."""
        return frozenset(
            make_job_id(base, entry.key(self.name, retries))
            for entry in self.entries
            for retries in range(entry.retries + 1)
        )

    def only(self, points: Iterable[Point]) -> ExperimentRecord:
        """The record with no more than these points."""
        wanted = set(map(canonical, points))
        kept = (entry for entry in self.entries if canonical(entry.point) in wanted)
        return attrs.evolve(self, entries=tuple(kept))

    def joined(self, other: ExperimentRecord, may_cost: MayCost) -> ExperimentRecord:
        """This record with the points of another one, each once.

        Raises:
            ConflictError: the other has another spec, or other arguments for a point.
            RequestError: the limit on all points cannot be kept.
        """
        what = f"the experiment {other.name} was begun with another spec; nothing was submitted"
        fix = "take another name=, or ask for it as it was begun"
        check_alike(self.spec, other.spec, what, fix)
        known = {canonical(entry.point): entry for entry in self.entries}
        new = []
        for entry in other.entries:
            if (there := known.get(canonical(entry.point))) is None:
                new.append(entry)
            else:
                check_alike({"args": list(there.args)}, {"args": list(entry.args)}, what, fix)
        # more points without a limit stay within the limit that there was
        limit = self.max_cost if other.max_cost is None else other.max_cost
        if limit is not None and (new or limit != self.max_cost):
            share = shares(limit, may_cost(self), len(new))
            new = [attrs.evolve(entry, limit_usd=one) for entry, one in zip(new, share)]
        return attrs.evolve(
            self,
            entries=(*self.entries, *new),
            max_parallel=other.max_parallel or self.max_parallel,
            max_cost=limit,
        )

    def to_json(self) -> bytes:
        return json.dumps({"schema": SCHEMA, **attrs.asdict(self)}).encode()

    @classmethod
    def from_json(cls, name: str, content: bytes) -> ExperimentRecord:
        """Read it. Raises RecordError where it is damaged, or of another release."""
        try:
            fields = json.loads(content)
            if (schema := fields.pop("schema")) != SCHEMA:
                raise ValueError(f"its schema is {schema}, and this release reads {SCHEMA}")
            entries = (Entry(**{**one, "args": tuple(one["args"])}) for one in fields.pop("entries"))
            return cls(**fields, entries=tuple(entries))
        except (ValueError, TypeError, LookupError, AttributeError, RecursionError) as error:
            raise RecordError(
                f"the record of the experiment {name} cannot be read", why=str(error)
            ) from error


@attrs.define(eq=False)
class ExperimentStore:
    """Where the record of one experiment lies: ``notes/NAME.json`` beside the records of jobs."""

    _documents: DocumentStore
    name: str

    def read(self) -> ExperimentRecord:
        """The record. Raises JobLostError where there is none."""
        found = self._documents.read(f"notes/{self.name}.json")
        if found is None:
            fix = "check the name, and that this trainer has the backends that it was made with"
            raise JobLostError(f"there is no experiment {self.name} in {self._documents.uri}", fix=fix)
        return ExperimentRecord.from_json(self.name, found.content)

    def change(self, change: Callable[[ExperimentRecord | None], ExperimentRecord]) -> ExperimentRecord:
        """Write what ``change`` makes of the record; it is called again where another process was faster.

        Raises:
            RequestError: other processes write it again and again; or what ``change`` raises.
        """
        path = f"notes/{self.name}.json"
        for _ in range(TRIES):
            found = self._documents.read(path)
            there = None if found is None else ExperimentRecord.from_json(self.name, found.content)
            record = change(there)
            if record == there:
                return record
            with contextlib.suppress(Conflict):
                self._documents.swap(path, record.to_json(), found.version if found else 0)
                return record
        raise RequestError(
            f"other processes write the experiment {self.name} again and again", fix="run it once"
        )

    def retry(self, failed: Iterable[Entry]) -> ExperimentRecord:
        """Write that points are submitted again. A retry that another process has written counts."""
        again = {canonical(entry.point): entry for entry in failed}

        def join(there: ExperimentRecord | None) -> ExperimentRecord:
            record = there or self.read()
            pairs = ((one, again.get(canonical(one.point), one)) for one in record.entries)
            return attrs.evolve(record, entries=tuple(max(pair, key=lambda e: e.retries) for pair in pairs))

        return self.change(join)

    def cancel(self) -> None:
        """Write that no process submits more points."""
        with contextlib.suppress(Conflict):
            self._documents.swap(f"notes/{self.name}.cancelled.json", b"{}", 0)

    def is_cancelled(self) -> bool:
        return self._documents.read(f"notes/{self.name}.cancelled.json") is not None


# One limit on what all points cost together: what each point may use


def shares(max_cost: float, held: Sequence[float | None], new: int) -> tuple[float, ...]:
    """The limit of each new point, so that all points together never cost more than ``max_cost``.

    Args:
        max_cost: US dollars for all points, old and new.
        held: what each old point may still cost, as `may_cost` says; None: unknown.
        new: how many points are new; they share equally what is left.

    Raises:
        RequestError: the limit cannot be kept.
    """
    unknown = held.count(None)
    taken = math.fsum(one for one in held if one is not None)
    if unknown:
        raise RequestError(
            f"max_cost={max_cost:g} cannot be kept; nothing was submitted",
            why=f"{_points(unknown)} of the experiment may run without a limit, or at an unknown cost",
            fix="cancel it, and map what is missing under another name= with max_cost= from the start",
        )
    left = max_cost - taken
    share = math.floor(left / new / LEAST_USD) * LEAST_USD if new else 0.0
    if left < -LEAST_USD * len(held) or (new and share < LEAST_USD):
        least = math.ceil((taken + new * 0.01) * 100) / 100
        raise RequestError(
            f"max_cost={max_cost:g} is not enough; nothing was submitted",
            why=f"{_points(len(held))} may cost ${taken:,.2f} already, and {new} more were asked for",
            fix=f"max_cost={least:g} or more, or cancel what runs and take another name=",
        )
    return (round(share, 6),) * new


def may_cost(job: Job | None, used_usd: float, limit: float | None) -> float | None:
    """US dollars that a point may still come to, over all of its jobs; None: unknown.

    A job that ended and is not retried costs what it has cost; any other may use the whole limit.

    Args:
        used_usd: what the point's earlier jobs have used.
        limit: of the point.
    """
    cost = None if job is None or job.cost_usd is None else used_usd + job.cost_usd
    if job is not None and job.state.is_terminal and job.state not in TO_RETRY and cost is not None:
        return cost
    return None if limit is None else max(limit, cost or used_usd)  # a platform may be slow to stop it


def used_usd(job: Job, limit: float | None) -> float:
    """US dollars of a point's limit that a job counts as, once it is retried: the whole where unknown."""
    # a job that expired may have machines that ran to their limit without a word of their ranks
    is_known = job.cost_usd is not None and (job.state is not State.EXPIRED or job.started_at is not None)
    return (job.cost_usd if is_known else limit) or 0.0


def _points(count: int) -> str:
    return "1 point" if count == 1 else f"{count} points"
