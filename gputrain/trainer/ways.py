"""The rows of a record's ladder, told from the candidates of a plan, and back."""

from __future__ import annotations

from collections.abc import Iterable, Sequence
from datetime import datetime, timedelta, timezone

import attrs

from gputrain.errors import Scope
from gputrain.planning import Attempt, Candidate, Outcome, Supply, candidates
from gputrain.records import Ask, Record, Way
from gputrain.spec import TrainingSpec

FULL_FOR_S = 1800.0
"""How long a place that took a job and then had no machines is passed over by that job."""
_REFUSALS = {one.value: one for one in (Outcome.NO_ROOM, Outcome.NO_QUOTA, Outcome.NOT_HERE)}


def way_of(candidate: Candidate) -> Way:
    """The row that a record keeps of a candidate."""
    model = candidate.provisioning_model
    return Way(
        backend=candidate.backend,
        place=candidate.place,
        region=candidate.region,
        gpu=candidate.gpu or "",
        gpu_count=str(candidate.gpu_count),
        machine_type=candidate.machine_type,
        model=model.value if model else "",
        missing_nodes=candidate.missing_nodes,
    )


def in_order(found: Iterable[Candidate], ways: Sequence[Way]) -> tuple[Candidate, ...]:
    """Candidates in the order of a record's ladder, in its regions: nobody widens what was asked for.

    A way in them that it does not know, of a size or a model that is sold since, comes last.
    """
    allowed = {(way.backend, way.region) for way in ways}
    found = [one for one in found if (one.backend, one.region) in allowed]
    turns = {way: number for number, way in enumerate(ways)}
    return tuple(sorted(found, key=lambda one: turns.get(way_of(one), len(turns))))


def ways_on(record: Record, spec: TrainingSpec, supplies: Sequence[Supply]) -> tuple[Candidate, ...]:
    """The ways of a job that goes on, in the order of its record's ladder; of one that ran, also those with
    as few nodes as it may have, once all those with more have refused it."""
    least = spec.num_nodes if spec.min_nodes is None or not record.is_made else spec.min_nodes
    sizes = {spec.num_nodes, *(spec.num_nodes - (1 << step) for step in range(10)), least}
    found: list[Candidate] = []
    for nodes in sorted((one for one in sizes if one >= least), reverse=True):
        size = spec.replace(num_nodes=nodes)
        some = in_order(candidates(size, supplies).candidates, record.ways)
        found += [attrs.evolve(one, missing_nodes=spec.num_nodes - nodes) for one in some]
    return tuple(found)


def candidate_of(ask: Ask, found: Iterable[Candidate]) -> Candidate | None:
    """The candidate that an ask was for, if it is among these."""
    return next((one for one in found if way_of(one) == ask.way), None)


def lately_refused(
    record: Record, found: Sequence[Candidate], *, within_s: float = FULL_FOR_S
) -> tuple[Attempt, ...]:
    """What places of the present attempt that were asked so lately have answered, by the board's clock.

    Whoever submits what has ended, was given up or taken back asks all of them anew.
    """
    attempts = []
    for ask in () if record.over else record.asks:
        outcome, one = _REFUSALS.get(ask.answer), candidate_of(ask, found)
        is_fresh = ask.attempt == record.attempt and record.now - ask.at < within_s
        if outcome is not None and one is not None and is_fresh:
            at = datetime.fromtimestamp(0, timezone.utc) + timedelta(seconds=ask.at)
            attempts.append(
                Attempt(candidate=one, at=at, outcome=outcome, answer=ask.answer, scope=_scope(ask.scope))
            )
    return tuple(attempts)


def _scope(text: str) -> Scope:
    try:
        return Scope(text)
    except ValueError:
        return Scope.CALL
