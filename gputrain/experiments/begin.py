"""From what a caller asks for to an experiment: checked whole, written down, and only then begun."""

from __future__ import annotations

import json
import math
import re
from collections.abc import Iterable, Mapping
from typing import Any, Protocol

import attrs

from gputrain.entrypoint import host
from gputrain.errors import RequestError
from gputrain.experiments.book import (
    Arguments,
    ExperimentRecord,
    Point,
    arguments_of,
    kept,
    only,
    opened,
    read_points,
)
from gputrain.experiments.experiment import Experiment, Submits
from gputrain.experiments.outcome import never_began
from gputrain.fields import FaultCollector, matching, number
from gputrain.planning import Candidate
from gputrain.records import Board
from gputrain.records.record import spec_of
from gputrain.spec import TrainingSpec
from gputrain.spec.entry import ARGUMENTS, make_job_id

NAME = re.compile(r"[a-z](?:[-a-z0-9]{0,38}[a-z0-9])?")
MOST_UNKNOWN = 16
"""Jobs at a time where no quota was read."""


class Planned(Protocol):
    """A plan, as far as it matters here."""

    @property
    def best(self) -> Candidate: ...


class Plans(Submits, Protocol):
    """A trainer that can look beforehand."""

    def plan(self, entry: TrainingSpec) -> Planned: ...


def begun(
    trainer: Plans,
    board: Board,
    base: TrainingSpec,
    over: Iterable[Point],
    *,
    name: str,
    arguments: Arguments | None,
    max_parallel: int | None,
    max_cost: float | None,
) -> Experiment:
    """The experiment of that name, with its book written before any job is asked for.

    Raises:
        SpecError: with all faults of the points, the name and the limits.
        ConflictError: the name is that of an experiment with another spec.
        NoFitError: nothing on offer has the shape.
    """
    points = read_points(over)
    _check(name, max_parallel, max_cost)
    base = base.replace(name=None)  # its jobs are found by the experiment's
    is_function = base.function is not None
    share = None if max_cost is None else round(max_cost / len(points), 6)
    if is_function and base.args[:1] == (ARGUMENTS,):  # of a partial function: what all points share
        common = json.loads(base.args[1])
        points, base = tuple({**common, **point} for point in points), base.replace(args=())
    args = tuple(arguments_of(point, is_function, arguments) for point in points)
    first = base.replace(args=(*base.args, *args[0]))
    planned = trainer.plan(first if share is None else first.replace(max_cost=share))
    best = planned.best  # nothing that fits: told now, not point by point
    most = max_parallel or _room(best)
    asked = ExperimentRecord(
        name=name,
        spec={key: value for key, value in spec_of(base, (f"{base.title}.py",)).items() if key != "args"},
        points=points,
        args=args,
        is_function=is_function,
        max_parallel=max_parallel,
        share_usd=share,
    )
    book = only(kept(board, asked), points)
    return Experiment(trainer, board, book, base, most)


def resumed(trainer: Plans, board: Board, name: str) -> Experiment:
    """The experiment of that name as it was begun; what is missing is submitted, where its code is here.

    Raises:
        JobLostError: there is none.
    """
    book = opened(board, name)
    spec = TrainingSpec.from_dict(dict(book.spec)).replace(name=None)  # of a function, its record has one
    trainer_of = _OnlyWatches(trainer, name) if book.is_function else trainer
    most = book.max_parallel or MOST_UNKNOWN
    if not book.is_function and book.max_parallel is None:
        most = _room(trainer.plan(spec).best)
    return Experiment(trainer_of, board, book, spec, most)


@attrs.frozen
class _OnlyWatches:
    """For an experiment of a function, whose code is in the script that began it."""

    trainer: Submits
    name: str

    def submit(self, entry: TrainingSpec, *, idempotency_key: str | None = None, **_: Any) -> Any:
        """The job of that key. RequestError: there is none that began, and the function is not here."""
        for job in self.jobs(name=make_job_id(entry, idempotency_key)):
            if not never_began(job):
                return job
        raise RequestError(
            f"the function {entry.title} of the experiment {self.name} is not here",
            why="only its jobs can be found by the name alone",
            fix="run the script with its trainer.map(...) again: it submits what is missing, once",
        )

    def jobs(self, *, name: str = "") -> Iterable[Any]:
        """Those of the trainer."""
        return self.trainer.jobs(name=name)


def _check(name: str, max_parallel: int | None, max_cost: float | None) -> None:
    faults = FaultCollector("the experiment")
    allowed = "at most 40 small letters, digits and hyphens, starting with a letter"
    faults.parse("name", name, matching(NAME), allowed, "name='lr-scan'")
    limits: Mapping[str, float | None] = {"max_parallel": max_parallel, "max_cost": max_cost}
    for field, value in limits.items():
        if value is not None:
            faults.parse(field, value, number(0, math.inf), "above 0", f"{field}=4")
    faults.raise_if_any()


def _room(best: Candidate) -> int:
    """How many jobs at a time: what the cores of this machine bear, or the quotas have left."""
    if best.provisioning_model is None:  # a machine of one's own; GPUs are shared out by its backend
        return max(1, host.cpu_count() // (best.nproc_per_node * best.num_nodes))
    left = [
        int((one.limit - one.usage) // one.need)
        for one in best.fact.readings
        if one.is_gate and one.need and one.limit is not None and one.usage is not None and one.limit < 1e9
    ]
    return max(1, min(left)) if left else MOST_UNKNOWN
