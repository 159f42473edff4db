"""What was read about each candidate, joined to it: the order of trying, and those that fall out. Pure."""

from __future__ import annotations

from collections.abc import Iterator, Mapping, Sequence

import attrs

from gputrain.planning.attempts import few_places
from gputrain.planning.candidates import Candidate, Refusal, Wanted
from gputrain.planning.offers import Fact
from gputrain.quota import Verdict

_ORDER = (Verdict.FITS, Verdict.UNKNOWN, Verdict.SHORT)


def weigh(wanted: Wanted, facts: Mapping[Candidate, Fact]) -> Wanted:
    """The candidates with their facts, best first; a place that lacks the machine becomes a refusal."""
    ranked = rank(wanted, facts)
    gone = [one for one in ranked if one.fact.absent_why]
    return Wanted(
        candidates=tuple(one for one in ranked if not one.fact.absent_why),
        refusals=(*wanted.refusals, *_absent(gone)),
    )


def rank(wanted: Wanted, facts: Mapping[Candidate, Fact]) -> tuple[Candidate, ...]:
    """The candidates with their facts: the user's order of GPUs, models, backends and regions stands, and
    within one region the zones go by quota verdict, then by the provider's advice, then by price.
    """
    known = [attrs.evolve(one, fact=facts[one]) if one in facts else one for one in wanted.candidates]
    groups: dict[tuple[object, ...], int] = {}
    for one in known:
        groups.setdefault(_choice(one), len(groups))
    return tuple(sorted(known, key=lambda one: (groups[_choice(one)], *_merit(one))))


def _choice(one: Candidate) -> tuple[object, ...]:
    return one.gpu, one.gpu_count, one.provisioning_model, one.backend, one.region_rank


def _merit(one: Candidate) -> tuple[float, ...]:
    advice = 0.5 if one.fact.obtainability is None else one.fact.obtainability
    price = float("inf") if one.price_usd_h is None else one.price_usd_h
    return _ORDER.index(one.fact.verdict), -advice, price


def _absent(gone: Sequence[Candidate]) -> Iterator[Refusal]:
    """One refusal for all places that lack a machine for the same reason."""
    places: dict[Refusal, list[Candidate]] = {}
    for one in gone:
        sold = f" as {one.provisioning_model.value}" if one.provisioning_model else ""
        subject = f"{one.gpus} on {one.machine_type}{sold}"
        why = one.fact.absent_why
        refusal = Refusal(backend=one.backend, subject=subject, why=why, fix="allow more regions")
        places.setdefault(refusal, []).append(one)
    for refusal, found in places.items():
        yield attrs.evolve(refusal, subject=f"{refusal.subject} in {few_places(found)}")
