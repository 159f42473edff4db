"""A record's options and attempts, made from candidates, and candidates made of them again."""

from __future__ import annotations

import re
from collections.abc import Sequence
from datetime import datetime, timedelta, timezone
from fractions import Fraction
from itertools import takewhile

import attrs

from gputrain import causes
from gputrain.catalog import Price, ProvisioningModel
from gputrain.causes import Blame
from gputrain.errors import Scope
from gputrain.jobstore import Attempt, JobRecord, Launch, Option, PastAttempt
from gputrain.jobstore.record import draw_id
from gputrain.planning import Attempt as Answer, Candidate, Ledger, Outcome, Supply, candidates
from gputrain.planning.candidates import paid_for
from gputrain.spec import TrainingSpec

FULL_FOR_S = 1800.0
"""How long a place without room is passed over by a job that waits."""
SHORTEST_RESTART_S = 60
"""What must be left of the time limit for another attempt to be worth its while."""
_OUTCOMES = {one.value: one for one in Outcome}
_FULL = (Outcome.NO_ROOM, Outcome.NO_QUOTA, Outcome.NOT_HERE)
_AFTER_ALL = {Blame.CAPACITY: Outcome.NO_ROOM, Blame.QUOTA: Outcome.NO_QUOTA}
"""What a place refused after it had taken the attempt, by whose the end was."""
_ENDS = {
    causes.STOCKOUT_REGION.kind: "no room after all",
    causes.QUOTA_REGION.kind: "its quota is too small after all",
    "launch_lost": "nothing came of it",
    "launch_incomplete": "not all machines came",
}
_COUNT = re.compile(r"\d{1,4}(?:/[1-9]\d{0,3})?")


def option_of(candidate: Candidate) -> Option:
    """The row that a record keeps of a candidate."""
    model = candidate.provisioning_model
    return Option(
        backend=candidate.backend, place=candidate.place, region=candidate.region,
        gpu=candidate.gpu or "", gpu_count=str(candidate.gpu_count), machine_type=candidate.machine_type,
        model=model.value if model else "", missing_nodes=candidate.missing_nodes,
    )  # fmt: skip


def candidate_of(option: Option, price_usd_h: float | None, spec: TrainingSpec) -> Candidate | None:
    """The candidate of an option, at a price; None where the record holds something else."""
    models = {one.value: one for one in ProvisioningModel}
    if not _COUNT.fullmatch(option.gpu_count) or option.model not in ("", *models):
        return None
    count, nodes = Fraction(option.gpu_count), max(1, spec.num_nodes - option.missing_nodes)
    price = None
    if price_usd_h is not None:
        price = Price(usd_h=price_usd_h / nodes, source="the record of the job", date="")
    return Candidate(
        backend=option.backend, place=option.place, region=option.region,
        gpu=option.gpu or None, gpu_count=int(count) if count.denominator == 1 else count,
        machine_type=option.machine_type, provisioning_model=models.get(option.model),
        num_nodes=nodes, missing_nodes=spec.num_nodes - nodes,
        nproc_per_node=spec.nproc_per_node or max(1, int(count)),
        price=price, max_run_duration=paid_for(spec, price_usd_h or 0.0),
    )  # fmt: skip


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


def remaining(record: JobRecord) -> TrainingSpec | None:
    """Its spec with what is left of its time and money; None where that buys no minute anywhere."""
    spec = record.training_spec
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


def ledger_of(record: JobRecord) -> Ledger:
    """Every place that a record says was tried, and what it answered."""
    spec, rows = record.training_spec, list[Answer | None]()
    for past in record.history:
        if past.outcome in _OUTCOMES:
            rows.append(_answer(past, spec, _OUTCOMES[past.outcome], past.message))
        else:
            again = _ENDS.get(past.outcome) or f"{causes.of(past.outcome).title}; it starts again"
            rows.append(_answer(past, spec, Outcome.ACCEPTED))
            rows.append(_answer(past, spec, Outcome.NO_ROOM, again, past.ran_s))
    if (attempt := record.attempt) is not None:
        is_launched = attempt.state is Launch.LAUNCHED
        rows.append(_answer(attempt, spec, Outcome.ACCEPTED if is_launched else Outcome.UNCLEAR))
    return Ledger(filter(None, rows))


def refusals_of(record: JobRecord, now: datetime) -> tuple[Answer, ...]:
    """What places have refused lately, for the attempt that is due: they are not asked again at once."""
    found = []
    for past in takewhile(lambda one: not one.has_run, reversed(record.history)):
        outcome = _OUTCOMES.get(past.outcome) or _AFTER_ALL.get(causes.of(past.outcome).fault)
        if outcome in _FULL and now.timestamp() - past.at < FULL_FOR_S:
            found.append(_answer(past, record.training_spec, outcome, past.message or past.outcome))
    return tuple(filter(None, reversed(found)))


def _answer(
    one: Attempt | PastAttempt, spec: TrainingSpec, outcome: Outcome, answer: str = "", after_s: float = 0.0
) -> Answer | None:
    candidate = candidate_of(one.option, one.price_usd_h, spec)
    if candidate is None:
        return None
    scope = Scope.CALL
    if isinstance(one, PastAttempt) and one.scope in Scope._value2member_map_:
        scope = Scope(one.scope)
    if outcome is Outcome.ACCEPTED and candidate.missing_nodes:
        answer = f"accepted with {candidate.num_nodes} of {spec.num_nodes} nodes"
    at = moment(one.at) + timedelta(seconds=after_s)
    return Answer(candidate=candidate, at=at, outcome=outcome, answer=answer or outcome.value, scope=scope)


def moment(seconds: float) -> datetime:
    """Seconds since 1970 as a time in UTC."""
    return datetime.fromtimestamp(0, timezone.utc) + timedelta(seconds=seconds)
