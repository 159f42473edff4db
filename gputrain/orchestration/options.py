"""A record's options and attempts, made from candidates, and the candidates that are left of them."""

from __future__ import annotations

from collections.abc import Iterable, Sequence
from datetime import datetime, timedelta, timezone

import attrs

from gputrain import causes
from gputrain.causes import Blame
from gputrain.errors import Scope
from gputrain.jobstore import Attempt, JobRecord, Option
from gputrain.jobstore.record import draw_id
from gputrain.planning import Attempt as Answer, Candidate, Outcome, Supply, candidates
from gputrain.spec import TrainingSpec

FULL_FOR_S = 1800.0
"""How long a place without room is passed over by a job that waits."""
SHORTEST_RESTART_S = 60
"""What must be left of the time limit for another attempt to be worth its while."""
_REFUSALS = {one.value: one for one in (Outcome.NO_ROOM, Outcome.NO_QUOTA, Outcome.NOT_HERE)}
_AFTER_ALL = {Blame.CAPACITY: Outcome.NO_ROOM, Blame.QUOTA: Outcome.NO_QUOTA}
"""What a place refused after it had taken the attempt, by whose the end was."""


def option_of(candidate: Candidate) -> Option:
    """The row that a record keeps of a candidate."""
    model = candidate.provisioning_model
    return Option(
        backend=candidate.backend,
        place=candidate.place,
        region=candidate.region,
        gpu=candidate.gpu or "",
        gpu_count=str(candidate.gpu_count),
        machine_type=candidate.machine_type,
        model=model.value if model else "",
        missing_nodes=candidate.missing_nodes,
    )


def draw(record: JobRecord, candidate: Candidate, now: datetime, attempt_id: str = "") -> Attempt:
    """A new attempt at a candidate. Its id is in every name; a long job's part of a name is cut."""
    attempt_id = attempt_id or draw_id()
    stem = record.job_id[: 50 - len(attempt_id)].rstrip("-")
    return Attempt(
        id=attempt_id,
        option=option_of(candidate),
        names=tuple(f"{stem}-{attempt_id}-{rank}" for rank in range(candidate.num_nodes)),
        at=now.timestamp(),
        price_usd_h=candidate.price_usd_h,
    )


def had_machines(record: JobRecord) -> bool:
    """Whether anything of an earlier attempt may have run: it was not refused."""
    refusals = {one.value for one in Outcome}
    return any(one.outcome not in refusals for one in record.history)


def remaining(record: JobRecord, spec: TrainingSpec) -> TrainingSpec | None:
    """The spec with what is left of its time and money; None where that buys no minute anywhere."""
    if not record.used_s and not record.used_usd:
        return spec
    run_s = int(spec.max_run_duration.total_seconds() - record.used_s)
    money = None if spec.max_cost is None else round(spec.max_cost - record.used_usd, 6)
    if run_s <= 0 or (record.used_s and run_s < SHORTEST_RESTART_S) or (money is not None and money <= 0):
        return None
    return spec.replace(max_run_duration=timedelta(seconds=run_s), max_cost=money)


def candidates_left(
    record: JobRecord, spec: TrainingSpec, supplies: Sequence[Supply]
) -> tuple[Candidate, ...]:
    """The candidates of these supplies in the order of the record's plan, and in its regions alone.

    Of a job that has run, also those with as few nodes as ``min_nodes`` allows, after all those with more.
    """
    turns = {option: number for number, option in enumerate(record.options)}
    regions = {(option.backend, option.region) for option in record.options}
    found: list[Candidate] = []
    for num_nodes in _sizes(record, spec):
        size = spec.replace(num_nodes=num_nodes)
        some = [one for one in candidates(size, supplies).candidates if (one.backend, one.region) in regions]
        some.sort(key=lambda one: turns.get(option_of(one), len(turns)))  # what is sold since comes last
        found += [attrs.evolve(one, missing_nodes=spec.num_nodes - num_nodes) for one in some]
    return tuple(found)


def _sizes(record: JobRecord, spec: TrainingSpec) -> list[int]:
    """How many nodes may be asked for, most first: fewer by one, two, four and so on, to the least."""
    if spec.min_nodes is None or not record.has_run:
        return [spec.num_nodes]
    sizes = {spec.num_nodes, spec.min_nodes, *(spec.num_nodes - (1 << step) for step in range(10))}
    return sorted((one for one in sizes if one >= spec.min_nodes), reverse=True)


def with_answer(record: JobRecord, answer: Answer) -> JobRecord:
    """The record with what a place answered: its attempt was refused, or it was not tried."""
    at = answer.at.timestamp()
    if answer.outcome is Outcome.PASSED_OVER:
        return record.passed_over(option_of(answer.candidate), at, answer.answer)
    if record.attempt is None:  # refused before the record named it
        return record
    return record.refused(answer.outcome.value, now=at, scope=answer.scope.value, message=answer.answer)


def answers_of(record: JobRecord, found: Iterable[Candidate], now: datetime) -> tuple[Answer, ...]:
    """What places have refused lately, for the attempt that is due: they are not asked again at once."""
    answers, by_option = [], {option_of(one): one for one in found}
    for past in reversed(record.history):
        if past.has_run:
            break
        after_all = _AFTER_ALL.get(causes.of(past.outcome).fault)
        outcome, candidate = _REFUSALS.get(past.outcome, after_all), by_option.get(past.option)
        if outcome is not None and candidate is not None and now.timestamp() - past.at < FULL_FOR_S:
            at = datetime.fromtimestamp(past.at, timezone.utc)
            scope = Scope(past.scope) if past.scope in Scope._value2member_map_ else Scope.CALL
            text = past.message or past.outcome
            answers.append(Answer(candidate=candidate, at=at, outcome=outcome, answer=text, scope=scope))
    return tuple(reversed(answers))
