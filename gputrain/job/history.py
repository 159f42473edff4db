"""Where a job was tried, from its record: candidates and a ledger, at that day's prices."""

from __future__ import annotations

import re
from datetime import datetime, timedelta, timezone
from fractions import Fraction

from gputrain import causes
from gputrain.catalog import Price, ProvisioningModel
from gputrain.jobstore import Attempt, JobRecord, Launch, Option, PastAttempt
from gputrain.planning import Attempt as Answer, Candidate, Ledger, Outcome
from gputrain.planning.attempts import accepted
from gputrain.planning.candidates import paid_for
from gputrain.spec import TrainingSpec

_COUNT = re.compile(r"\d{1,4}(?:/[1-9]\d{0,3})?")
_REFUSALS = {one.value: one for one in Outcome}
_AFTER_ALL = {
    causes.STOCKOUT_REGION.kind: "no room after all",
    causes.QUOTA_REGION.kind: "its quota is too small after all",
    "launch_lost": "nothing came of it",
    "launch_incomplete": "not all machines came",
}


def candidate_of(option: Option, price_usd_h: float | None, spec: TrainingSpec) -> Candidate | None:
    """The candidate of an option, at a price; None where the record holds something else."""
    if not _COUNT.fullmatch(option.gpu_count):
        return None
    try:
        model = ProvisioningModel(option.model) if option.model else None
    except ValueError:
        return None
    count = Fraction(option.gpu_count)
    nodes = max(1, spec.num_nodes - option.missing_nodes)
    price = None if price_usd_h is None else price_usd_h / nodes
    return Candidate(
        backend=option.backend,
        gpu=option.gpu or None,
        gpu_count=int(count) if count.denominator == 1 else count,
        machine_type=option.machine_type,
        place=option.place,
        region=option.region,
        provisioning_model=model,
        num_nodes=nodes,
        missing_nodes=spec.num_nodes - nodes,
        nproc_per_node=spec.nproc_per_node or max(1, int(count)),
        price=None if price is None else Price(usd_h=price, source="the record of the job", date=""),
        max_run_duration=paid_for(spec, price_usd_h or 0.0),
    )


def ledger_of(record: JobRecord, spec: TrainingSpec) -> Ledger:
    """Every place that a record says was tried, and what it answered."""
    rows: list[Answer] = []

    def add(one: Attempt | PastAttempt, outcome: Outcome, answer: str = "", after_s: float = 0.0) -> None:
        candidate = candidate_of(one.option, one.price_usd_h, spec)
        at = moment(one.at) + timedelta(seconds=after_s)
        if candidate is not None and outcome is Outcome.ACCEPTED:
            rows.append(accepted(candidate, at))
        elif candidate is not None:
            answer = answer or outcome.value
            rows.append(Answer(candidate=candidate, at=at, outcome=outcome, answer=answer))

    for past in record.history:
        if past.outcome in _REFUSALS:
            add(past, _REFUSALS[past.outcome], past.message)
        else:
            add(past, Outcome.ACCEPTED)
            again = _AFTER_ALL.get(past.outcome) or f"{causes.of(past.outcome).title}; it starts again"
            add(past, Outcome.NO_ROOM, again, past.ran_s)
    if record.attempt is not None:
        is_launched = record.attempt.state is Launch.LAUNCHED
        add(record.attempt, Outcome.ACCEPTED if is_launched else Outcome.UNCLEAR)
    return Ledger(rows)


def moment(seconds: float) -> datetime:
    """Seconds since 1970 as a time in UTC."""
    return datetime.fromtimestamp(0, timezone.utc) + timedelta(seconds=seconds)
