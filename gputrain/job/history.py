"""Where a job was asked for, as its record tells: candidates and a ledger, at that day's prices."""

from __future__ import annotations

import re
from collections.abc import Iterator
from datetime import datetime, timedelta, timezone
from fractions import Fraction

from gputrain import causes
from gputrain.catalog import Price, ProvisioningModel
from gputrain.jobstore import JobRecord, Launch, Option
from gputrain.planning import Attempt, Candidate, Ledger, Outcome
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
    """Where an option would have the job, at a price; None where a word of it is none of ours."""
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
    """Every place that a record knows to have been asked, and what it answered."""
    return Ledger(_rows(record, spec))


def _rows(record: JobRecord, spec: TrainingSpec) -> Iterator[Attempt]:
    for past in record.history:
        candidate = candidate_of(past.option, past.price_usd_h, spec)
        if candidate is None:
            continue
        at, outcome = moment(past.at), _REFUSALS.get(past.outcome)
        if outcome is not None:
            yield Attempt(candidate=candidate, at=at, outcome=outcome, answer=past.message or past.outcome)
            continue
        yield accepted(candidate, at)
        answer = _AFTER_ALL.get(past.outcome) or f"{causes.of(past.outcome).title}; it starts again"
        yield Attempt(
            candidate=candidate, at=at + timedelta(seconds=past.ran_s), outcome=Outcome.NO_ROOM, answer=answer
        )
    last = record.attempt
    candidate = None if last is None else candidate_of(last.option, last.price_usd_h, spec)
    if last is not None and candidate is not None:
        if last.state is Launch.LAUNCHED:
            yield accepted(candidate, moment(last.at))
        else:
            yield Attempt(
                candidate=candidate, at=moment(last.at), outcome=Outcome.UNCLEAR, answer=Outcome.UNCLEAR.value
            )


def moment(seconds: float) -> datetime:
    """Seconds since 1970 as a time in UTC."""
    return datetime.fromtimestamp(0, timezone.utc) + timedelta(seconds=seconds)
