"""The record of an experiment: a JSON document beside the records of jobs, changed by compare-and-swap.

It is written before the first job is submitted, and holds nothing of how jobs stand: their own records do.
"""

from __future__ import annotations

import contextlib
import json
from collections.abc import Callable, Mapping, Sequence
from typing import Any

import attrs

from gputrain.errors import JobLostError, RequestError
from gputrain.experiments.budget import LEAST_USD, shares
from gputrain.experiments.points import Point, canonical, key_of
from gputrain.jobstore import Conflict, DocumentStore, RecordError, check_alike
from gputrain.spec import TrainingSpec
from gputrain.spec.entry import make_job_id

SCHEMA = 3
TRIES = 5
MOST_RETRIES = 1000

MayCost = Callable[["ExperimentRecord"], Sequence[float | None]]
"""What each point of a record may still cost, for `budget.shares`."""


@attrs.frozen(kw_only=True)
class Retries:
    """What came before the job that counts for a point."""

    times: int = 0
    used_usd: float = 0.0
    """US dollars of the point's limit that its earlier jobs have used."""


@attrs.frozen(kw_only=True)
class ExperimentRecord:
    """All that is needed to submit each point as it was asked for first."""

    name: str
    spec: Mapping[str, Any]
    """What all points have in common, as `TrainingSpec.to_dict` writes it."""
    points: tuple[Point, ...]
    args: tuple[tuple[str, ...], ...]
    """The arguments of each point, those of ``spec`` first."""
    limits_usd: tuple[float | None, ...]
    """US dollars that each point may use, all its jobs together; None: no limit."""
    is_function: bool = False
    max_parallel: int | None = None
    max_cost: float | None = None
    """US dollars for all points."""
    retried: Mapping[str, Retries] = attrs.field(factory=dict)
    """By the point's canonical text."""

    def retries(self, point: Point) -> Retries:
        """What came before the job that counts for a point."""
        return self.retried.get(canonical(point), Retries())

    def requests(self, base: TrainingSpec) -> list[tuple[TrainingSpec, str]]:
        """The spec and the idempotency key of each point's newest job."""
        requests = []
        for point, args, limit in zip(self.points, self.args, self.limits_usd):
            before = self.retries(point)
            # where nothing is left, the plan says that the limit pays for nothing
            left = None if limit is None else max(limit - before.used_usd, LEAST_USD)
            each = [one for one in (base.max_cost, left) if one is not None]
            spec = base.replace(max_cost=min(each, default=None))
            spec = spec.replace(command=(*spec.command, *args)) if spec.command else spec.replace(args=args)
            requests.append((spec, key_of(self.name, point, before.times)))
        return requests

    def job_ids(self, base: TrainingSpec) -> frozenset[str]:
        """The ids of all jobs that any process may have submitted, retried ones included."""
        return frozenset(
            make_job_id(base, key_of(self.name, point, times))
            for point in self.points
            for times in range(self.retries(point).times + 1)
        )

    def only(self, points: Sequence[Point]) -> ExperimentRecord:
        """The record with no more than these points."""
        wanted = set(map(canonical, points))
        kept = [number for number, point in enumerate(self.points) if canonical(point) in wanted]
        return attrs.evolve(
            self,
            points=tuple(self.points[n] for n in kept),
            args=tuple(self.args[n] for n in kept),
            limits_usd=tuple(self.limits_usd[n] for n in kept),
        )

    def joined(self, asked: ExperimentRecord, may_cost: MayCost) -> ExperimentRecord:
        """This record with the points of another one, each once.

        Raises:
            ConflictError: the other has another spec, or other arguments for a point.
            RequestError: the limit on all points cannot be kept.
        """
        what = f"the experiment {asked.name} was begun with another spec; nothing was submitted"
        fix = "take another name=, or ask for it as it was begun"
        check_alike(self.spec, asked.spec, what, fix)
        known = {canonical(point): args for point, args in zip(self.points, self.args)}
        new = []
        for point, args in zip(asked.points, asked.args):
            if (there := known.get(canonical(point))) is None:
                new.append((point, args))
            else:
                check_alike({"args": list(there)}, {"args": list(args)}, what, fix)
        # more points without a limit stay within the limit that there was
        limit = self.max_cost if asked.max_cost is None else asked.max_cost
        limits: tuple[float | None, ...] = (None,) * len(new)
        if limit is not None and (new or limit != self.max_cost):
            limits = shares(limit, may_cost(self), len(new))
        return attrs.evolve(
            self,
            points=(*self.points, *(point for point, _ in new)),
            args=(*self.args, *(args for _, args in new)),
            limits_usd=(*self.limits_usd, *limits),
            max_parallel=asked.max_parallel or self.max_parallel,
            max_cost=limit,
        )

    def to_json(self) -> bytes:
        """As it is stored."""
        return json.dumps({"schema": SCHEMA, **attrs.asdict(self)}).encode()

    @classmethod
    def from_json(cls, name: str, content: bytes) -> ExperimentRecord:
        """Read it. Raises RecordError where it is damaged, or of another release."""
        try:
            fields = json.loads(content)
            if (schema := fields.pop("schema")) != SCHEMA:
                raise ValueError(f"its schema is {schema}, and this release reads {SCHEMA}")
            fields["retried"] = {text: Retries(**one) for text, one in fields["retried"].items()}
            fields["args"] = tuple(map(tuple, fields["args"]))
            fields |= {one: tuple(fields[one]) for one in ("points", "limits_usd")}
            return cls(**fields)
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
        found = self._documents.read(self._note)
        if found is None:
            fix = "check the name, and that this trainer has the backends that it was made with"
            raise JobLostError(f"there is no experiment {self.name} in {self._documents.uri}", fix=fix)
        return ExperimentRecord.from_json(self.name, found.content)

    @property
    def _note(self) -> str:
        return f"notes/{self.name}.json"

    @property
    def _cancelled(self) -> str:
        return f"notes/{self.name}.cancelled.json"

    def change(self, change: Callable[[ExperimentRecord | None], ExperimentRecord]) -> ExperimentRecord:
        """Write what ``change`` makes of the record; it is called again where another process was faster.

        Raises:
            RequestError: other processes write it again and again; or what ``change`` raises.
        """
        for _ in range(TRIES):
            found = self._documents.read(self._note)
            there = None if found is None else ExperimentRecord.from_json(self.name, found.content)
            record = change(there)
            if record == there:
                return record
            with contextlib.suppress(Conflict):
                self._documents.swap(self._note, record.to_json(), found.version if found else 0)
                return record
        raise RequestError(
            f"other processes write the experiment {self.name} again and again", fix="run it once"
        )

    def retry(self, failed: Mapping[str, Retries]) -> ExperimentRecord:
        """Write that points are to be submitted again; a retry that another process has written counts.

        Args:
            failed: by a point's canonical text.

        Raises:
            RequestError: as `change`, or a point was retried 1,000 times.
        """
        if any(one.times > MOST_RETRIES for one in failed.values()):
            what = f"a point of {self.name} was submitted again {MOST_RETRIES} times; nothing was submitted"
            raise RequestError(what, fix="find out why it fails, and map it under another name=")

        def join(there: ExperimentRecord | None) -> ExperimentRecord:
            record = there or self.read()
            new = {
                key: one
                for key, one in failed.items()
                if one.times > record.retried.get(key, Retries()).times
            }
            return attrs.evolve(record, retried={**record.retried, **new})

        return self.change(join)

    def cancel(self) -> None:
        """Write that no process is to submit more points; twice is as once."""
        with contextlib.suppress(Conflict):
            self._documents.swap(self._cancelled, b"{}", 0)

    def is_cancelled(self) -> bool:
        """Whether that was written."""
        return self._documents.read(self._cancelled) is not None
