"""From what a caller asks for to an experiment: checked whole, written down, and only then begun."""

from __future__ import annotations

import json
import math
import re
from collections.abc import Iterable, Sequence
from typing import Protocol

import attrs

from gputrain.entrypoint import host
from gputrain.errors import RequestError, SpecError
from gputrain.experiments.book import ExperimentRecord, board_of, joined, kept, only, opened
from gputrain.experiments.driver import Room
from gputrain.experiments.experiment import Experiment, set_going
from gputrain.experiments.outcome import OnlyWatches, Submits, may_cost
from gputrain.experiments.points import Arguments, Point, arguments_of, read_points
from gputrain.fields import FaultCollector, matching, number, whole
from gputrain.planning import Candidate, Plan
from gputrain.records import Board, read_spec
from gputrain.records.record import spec_of
from gputrain.spec import TrainingSpec
from gputrain.spec.entry import ARGUMENTS
from gputrain.staging.function import check_call

NAME = re.compile(r"[a-z](?:[-a-z0-9]{0,38}[a-z0-9])?")
MOST_UNKNOWN = 16
"""Jobs at a time where no quota was read."""
SHOWN_FAULTS = 20


class Planned(Protocol):
    """A plan, as far as it matters here."""

    @property
    def plan(self) -> Plan: ...


class Plans(Submits, Protocol):
    """A trainer that can look beforehand."""

    def plan(self, entry: TrainingSpec) -> Planned: ...


def begun(
    trainer: Plans,
    boards: Sequence[Board],
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
        SpecError: with all faults of the points, the code, the name and the limits.
        ConflictError: the name is that of an experiment with another spec, or with other arguments.
        RequestError: the limit on what they cost together cannot be kept.
        NoFitError: nothing on offer has the shape.
    """
    points = read_points(over)
    name, max_parallel, max_cost = _read(name, max_parallel, max_cost)
    base = base.replace(name=None)  # its jobs are found by the experiment's
    if base.function is not None and base.args[:1] == (ARGUMENTS,):  # partial: what all points share
        common = json.loads(base.args[1])
        points, base = read_points({**common, **point} for point in points), base.replace(args=())
    args = tuple((*base.args, *arguments_of(one, base.function is not None, arguments)) for one in points)
    _check_calls(base, args)
    board = board_of(boards, name)
    ask = _Ask(trainer, board, base, ExperimentRecord(
        name=name,
        spec=spec_of(base, (f"{base.title}.py",)),
        points=points,
        args=args,
        limits_usd=(None,) * len(points),
        is_function=base.function is not None,
        max_parallel=max_parallel,
        max_cost=max_cost,
    ))  # fmt: skip
    book, room = kept(board, name, ask.joined), _room(max_parallel, ask.plan.best)
    return set_going(Experiment(trainer, board, only(book, points), base, room))


class _Ask:
    """What is asked for under a name, joined with what is there: looked at whole before it is written."""

    def __init__(self, trainer: Plans, board: Board, base: TrainingSpec, asked: ExperimentRecord) -> None:
        self._trainer, self._board, self._base, self._asked = trainer, board, base, asked

    def joined(self, there: ExperimentRecord | None) -> ExperimentRecord:
        """The book as it is to be written. Raises as `begun`."""
        book = joined(there, self._asked, self._held)
        whole = attrs.evolve(only(book, self._asked.points), retried={})  # what is used up is a point's own
        self.plan = self._trainer.plan(whole.asks(self._base)[0][0]).plan
        faults = FaultCollector("the spec")
        faults.faults += self.plan.faults
        faults.raise_if_any()
        self.plan.check_fits()  # nothing that fits: told now, not point by point
        return book

    def _held(self, book: ExperimentRecord) -> Sequence[float | None]:
        return may_cost(book, self._base, self._trainer.jobs(name=book.name)) if book.points else ()


def resumed(trainer: Plans, boards: Sequence[Board], name: str) -> Experiment:
    """The experiment of that name as it was begun; what is missing is submitted, where its code is here.

    Raises:
        JobLostError: there is none.
    """
    board = board_of(boards, name)
    book = opened(board, name)
    kept_spec = {**book.spec, "name": None}  # of a function, its record has one
    spec = read_spec(kept_spec, f"the experiment {name}")
    if book.is_function or not book.is_whole:
        function = spec.title.removesuffix(".py")
        why = f"the function {function} is not here" if book.is_function else _NOT_WHOLE
        refusal = RequestError(
            f"{name} is only watched from here: {why}",
            fix="run the script with its trainer.map(...) again: it submits what is missing, once",
        )
        watches, room = OnlyWatches(trainer, refusal), _room(book.max_parallel, None)
        return set_going(Experiment(watches, board, book, spec, room))
    best = None if book.max_parallel else trainer.plan(spec).plan.best
    return set_going(Experiment(trainer, board, book, spec, _room(book.max_parallel, best)))


_NOT_WHOLE = "it was begun by an older release, which did not write down the arguments that all points share"


def _check_calls(base: TrainingSpec, args: Sequence[tuple[str, ...]]) -> None:
    """See that the function takes each point. Raises SpecError with every point that it does not take."""
    if base.function is None:
        return
    faults = FaultCollector("the function")
    for one in args:
        given = json.loads(one[1]) if len(one) == 2 and one[0] == ARGUMENTS else {}
        try:
            check_call(base.function, given)
        except SpecError as error:
            faults.faults += [fault for fault in error.faults if fault not in faults.faults]
        if len(faults.faults) >= SHOWN_FAULTS:
            break
    faults.raise_if_any()


def _read(
    name: str, max_parallel: int | None, max_cost: float | None
) -> tuple[str, int | None, float | None]:
    faults = FaultCollector("the experiment")
    allowed = "at most 40 small letters, digits and hyphens, starting with a letter"
    named = faults.parse("name", name, matching(NAME), allowed, "name='lr-scan'")
    if max_parallel is not None:
        max_parallel = faults.parse(
            "max_parallel", max_parallel, whole(1, 10**6), "a whole number above 0", "max_parallel=4"
        )
    if max_cost is not None:
        max_cost = faults.parse(
            "max_cost", max_cost, number(0, math.inf), "US dollars, above 0", "max_cost=20"
        )
    faults.raise_if_any()
    return named or "", max_parallel, max_cost


def _room(asked: int | None, best: Candidate | None) -> Room:
    """What was asked for, or what the cores of this machine bear, or what the quotas have left."""
    if asked or best is None:
        return lambda _: asked or MOST_UNKNOWN
    if best.provisioning_model is None:  # a machine of one's own; GPUs are shared out by its backend
        return lambda _: max(1, host.cpu_count() // (best.nproc_per_node * best.num_nodes))
    left = [
        int((one.limit - one.usage) // one.need)
        for one in best.fact.readings
        if one.is_gate and one.need and one.limit is not None and one.usage is not None and one.limit < 1e9
    ]
    return lambda living: max(1, living + min(left)) if left else MOST_UNKNOWN  # whose GPUs are used already
