"""From a spec and what is on offer to every way it could run, and why the others cannot."""

from __future__ import annotations

import shlex
from collections.abc import Iterator, Mapping, Sequence
from datetime import timedelta
from fractions import Fraction
from typing import Any

import attrs

from gputrain.catalog import Price, ProvisioningModel
from gputrain.display.table import TableDisplay, TextDisplay
from gputrain.errors import UnknownGpuError
from gputrain.fields import Errors
from gputrain.planning.offers import (
    Fact,
    Network,
    Offer,
    Refusal,
    Supply,
    allowed_models,
    matches,
    refusing,
    subject_of,
    unknown_gpu,
    unmet,
)
from gputrain.quota import Verdict
from gputrain.spec import TrainingSpec
from gputrain.times import picked

SHORTEST_RUN = timedelta(minutes=1)
_RESERVED = (ProvisioningModel.STANDARD, ProvisioningModel.RESERVATION_BOUND)


@attrs.frozen(kw_only=True, cache_hash=True)
class Candidate(TableDisplay):
    """One way the spec could run: machine x provisioning model x place."""

    backend: str
    gpu: str | None
    gpu_count: int | Fraction
    machine_type: str
    place: str
    region: str = attrs.field()
    """What a refusal of a whole region rules out with this place; its own where there is nothing wider."""
    provisioning_model: ProvisioningModel | None
    """None on a machine of one's own, where nothing is sold."""
    num_nodes: int
    nproc_per_node: int
    price: Price | None = attrs.field(hash=False)
    """Price of one machine for an hour, a lower bound where it is not whole; None: unknown."""
    max_run_duration: timedelta
    """The user's limit, cut to what ``max_cost`` pays for."""
    missing_nodes: int = 0
    """How many nodes fewer than the spec asks for, for a job that goes on without those it lost."""
    region_rank: int = 0
    """Place of its region in the order that the user gave the regions in."""
    reservation: str | None = None
    """The reservation it would use; None: none."""
    network: Network | None = attrs.field(default=None, hash=False)
    """How the GPUs of its nodes talk; None for one node, or where it is not known."""
    fact: Fact = attrs.field(default=Fact(), hash=False)

    @region.default
    def _itself(self) -> str:
        return self.place

    @property
    def gpus_needed(self) -> float:
        """GPUs of the whole job."""
        return float(self.gpu_count * self.num_nodes)

    @property
    def price_usd_h(self) -> float | None:
        """US dollars an hour for all nodes; None: unknown."""
        return None if self.price is None else self.price.usd_h * self.num_nodes

    @property
    def cost_at_most_usd(self) -> float | None:
        """US dollars if the job runs for the whole of ``max_run_duration``; None: unknown."""
        price = self.price_usd_h
        if price is None or self.price is None or not self.price.is_whole:
            return None
        return price * self.max_run_duration.total_seconds() / 3600

    @property
    def gpus(self) -> str:
        """What it runs on, for people: ``2 nodes x 8 x H100``."""
        ranks = f"{self.nproc_per_node} CPU rank{'s' * (self.nproc_per_node != 1)}"
        shape = f"{self.gpu_count} x {self.gpu}" if self.gpu else ranks
        return shape if self.num_nodes == 1 else f"{self.num_nodes} nodes x {shape}"

    def to_dict(self) -> dict[str, Any]:
        """The candidate as JSON types: seconds, US dollars, unknown is None."""
        price, fact = self.price, self.fact
        return {
            **self.placed(),
            "quota": fact.verdict.value,
            "obtainability": fact.obtainability,
            "note": fact.note,
            "network": self.network and self.network.name,
            "network_gbps_per_gpu": self.network and self.network.gbps_per_gpu,
            "price_is_whole": price.is_whole if price else None,
            "price_date": (price.date or None) if price else None,
            "cost_at_most_usd": self.cost_at_most_usd,
        }

    def placed(self) -> dict[str, Any]:
        """The part of `to_dict` that stays true of a job that runs there."""
        return {
            **picked(self, "backend place machine_type gpu"),
            "gpu_count": float(self.gpu_count),
            **picked(self, "num_nodes nproc_per_node provisioning_model price_usd_h"),
            "max_run_duration_s": self.max_run_duration.total_seconds(),
        }


def is_open(candidate: Candidate) -> bool:
    """Whether a candidate may be tried as far as its facts say: one whose quota is short would be refused."""
    return candidate.fact.verdict is not Verdict.SHORT and not candidate.fact.absent_why


@attrs.frozen(kw_only=True)
class Wanted:
    """Every shape on offer, sorted into what could run, in order of preference, and what could not."""

    candidates: tuple[Candidate, ...]
    refusals: tuple[Refusal, ...]


def candidates(spec: TrainingSpec, supplies: Sequence[Supply]) -> Wanted:
    """Sort everything on offer: the user's order of GPUs first, then of provisioning models, then of
    backends, then of places.

    Raises:
        UnknownGpuError: no backend knows a GPU by that name; ``faults`` holds all such names.

    Pure. Each (offer, provisioning model) ends in candidates (one a place) or in exactly one refusal.
    """
    _check_gpus(spec, supplies)
    found: list[tuple[tuple[int, ...], Candidate]] = []
    refusals: list[Refusal] = []
    for number, supply in enumerate(supplies):
        blocked = tuple(_limits(spec, supply))
        refusals += blocked
        refusals += unmet(spec, supply)
        for offer in supply.offers:
            for model in offer.provisioning_models or (None,):
                priced: list[Candidate] = []
                refusal = refusing(spec, supply.backend, offer, model)
                if refusal is None:
                    priced = _priced(spec, supply, offer, model)
                    refusal = None if priced else _unaffordable(spec, supply, offer, model)
                if refusal is not None:
                    refusals.append(refusal)
                elif blocked:
                    refusals.append(_blocked(supply.backend, offer, model, blocked))
                else:
                    order = (_gpu_rank(spec, offer), _model_rank(spec, model), number)
                    found += [((*order, one.region_rank, at), one) for at, one in enumerate(priced)]
    found.sort(key=lambda pair: pair[0])
    return Wanted(candidates=tuple(one for _, one in found), refusals=tuple(refusals))


def _check_gpus(spec: TrainingSpec, supplies: Sequence[Supply]) -> None:
    """A name that nobody knows is a slip of the pen: told as such, before anything is read."""
    faults = Errors("the spec")
    nearest: list[str] = []
    for request in spec.gpu:
        unknown = [unknown_gpu(request, supply) for supply in supplies]
        if unknown and (error := unknown[0]) is not None and None not in unknown:
            faults.add("gpu", str(request), "", error.fix, problem=error.what)
            nearest += error.nearest
    faults.raise_if_any(UnknownGpuError, nearest=tuple(dict.fromkeys(nearest)))


def _limits(spec: TrainingSpec, supply: Supply) -> Iterator[Refusal]:
    for limit in supply.limits:
        if limit.asks(spec):
            yield Refusal(supply.backend, limit.field, limit.why, limit.fix)


def _blocked(backend: str, offer: Offer, model: ProvisioningModel | None, by: Sequence[Refusal]) -> Refusal:
    fields = ", ".join(refusal.subject for refusal in by)
    return Refusal(backend, subject_of(offer, model), f"{fields} refused", asked_for=False)


def _priced(
    spec: TrainingSpec, supply: Supply, offer: Offer, model: ProvisioningModel | None
) -> list[Candidate]:
    result = []
    network = offer.network_of(spec)
    for place in offer.places_for(spec):
        price = _price_for(spec, offer, place, model)
        duration = _affordable(spec, price)
        if duration is None:
            continue
        region = offer.region_of(place)
        result.append(
            Candidate(
                backend=supply.backend,
                gpu=offer.gpu,
                gpu_count=offer.gpu_count,
                machine_type=offer.machine_type,
                place=place,
                region=region,
                provisioning_model=model,
                num_nodes=spec.num_nodes,
                nproc_per_node=spec.nproc_per_node or max(1, int(offer.gpu_count)),
                price=price,
                max_run_duration=duration,
                region_rank=supply.regions.index(region) if region in supply.regions else len(supply.regions),
                reservation=spec.reservation if model in _RESERVED else None,
                network=network,
            )
        )
    return result


def _affordable(spec: TrainingSpec, price: Price | None) -> timedelta | None:
    """The longest run that ``max_cost`` pays for; None where it pays for none, or the price is unknown."""
    if spec.max_cost is not None and not (price and price.is_whole):
        return None
    paid = paid_for(spec, price.usd_h * spec.num_nodes if price else 0.0)
    return paid if paid >= min(SHORTEST_RUN, spec.max_run_duration) else None


def paid_for(spec: TrainingSpec, usd_h: float) -> timedelta:
    """What ``max_cost`` pays for of ``max_run_duration``, where all nodes cost so much an hour."""
    longest = spec.max_run_duration
    if spec.max_cost is None or spec.max_cost * 3600 >= usd_h * longest.total_seconds():
        return longest
    return timedelta(seconds=int(spec.max_cost / usd_h * 3600))


def _price_for(spec: TrainingSpec, offer: Offer, place: str, model: ProvisioningModel | None) -> Price | None:
    """The dated price of a machine; where none is known as a whole, what the user says that it costs."""
    price = offer.price_of(place, model)
    if spec.price_per_hour is None or (price is not None and price.is_whole):
        return price
    return Price(usd_h=spec.price_per_hour, source="price_per_hour", date="the spec", region=place)


def _unaffordable(
    spec: TrainingSpec, supply: Supply, offer: Offer, model: ProvisioningModel | None
) -> Refusal:
    subject = subject_of(offer, model)
    prices = [_price_for(spec, offer, place, model) for place in offer.places_for(spec)]
    if not any(price is not None and price.is_whole for price in prices):
        missing = dict.fromkeys(name for price in prices if price for name in price.leaves_out)
        why = f"the price of {' and '.join(missing)} is unknown" if missing else "its price is unknown"
        why = f"{why}, so max_cost cannot be kept"
        without = "say it with price_per_hour=, or leave max_cost out and set max_run_duration"
        return Refusal(supply.backend, subject, why, without)
    return Refusal(
        supply.backend,
        subject,
        f"a max_cost of {spec.max_cost:g} does not pay for a minute of it",
        "raise max_cost",
    )


def _gpu_rank(spec: TrainingSpec, offer: Offer) -> int:
    return next((rank for rank, request in enumerate(spec.gpu) if matches(request, offer)), 0)


def _model_rank(spec: TrainingSpec, model: ProvisioningModel | None) -> int:
    return 0 if model is None else allowed_models(spec).index(model)


_ORDER = (Verdict.FITS, Verdict.UNKNOWN, Verdict.SHORT)


def weigh(wanted: Wanted, facts: Mapping[Candidate, Fact]) -> Wanted:
    """The candidates with their facts, best first; a place that lacks the machine becomes a refusal."""
    ranked = rank(wanted.candidates, facts)
    absent: dict[Refusal, list[Candidate]] = {}  # all places that lack a machine for one reason
    for one in ranked:
        if one.fact.absent_why:
            sold = f" as {one.provisioning_model.value}" if one.provisioning_model else ""
            subject = f"{one.gpus} on {one.machine_type}{sold}"
            refusal = Refusal(one.backend, subject, one.fact.absent_why, "allow more regions")
            absent.setdefault(refusal, []).append(one)
    refusals = [
        attrs.evolve(refusal, subject=f"{refusal.subject} in {few_places(found)}")
        for refusal, found in absent.items()
    ]
    there = tuple(one for one in ranked if not one.fact.absent_why)
    return Wanted(candidates=there, refusals=(*wanted.refusals, *refusals))


def rank(ones: Sequence[Candidate], facts: Mapping[Candidate, Fact]) -> tuple[Candidate, ...]:
    """The candidates with their facts: the user's order of GPUs, models, backends and regions stands, and
    within one region the zones go by quota verdict, then by the provider's advice, then by price.
    """
    known = [attrs.evolve(one, fact=facts[one]) if one in facts else one for one in ones]
    groups: dict[tuple[object, ...], int] = {}

    def merit(one: Candidate) -> tuple[float, ...]:
        choice = (one.gpu, one.gpu_count, one.provisioning_model, one.backend, one.region_rank)
        advice = 0.5 if one.fact.obtainability is None else one.fact.obtainability
        price = float("inf") if one.price_usd_h is None else one.price_usd_h
        return groups.setdefault(choice, len(groups)), _ORDER.index(one.fact.verdict), -advice, price

    return tuple(sorted(known, key=merit))


SHOWN_PLACES = 4


def few_places(ones: Sequence[Candidate]) -> str:
    """Where candidates are, in a few words: ``us-central1-a, -b, us-east4-a, -b and 2 more``."""
    found = list(dict.fromkeys((one.place, one.region) for one in ones))
    shown, before = [], ""
    for place, region in found[:SHOWN_PLACES]:
        shown.append(place.removeprefix(region) if region == before and place != region else place)
        before = region
    more = len(found) - SHOWN_PLACES
    return ", ".join(shown) + (f" and {more} more" if more > 0 else "")


@attrs.frozen(kw_only=True)
class GcloudJob(TextDisplay):
    """A file and a command that together make the job that ``plan.submit()`` would make.

    It prints as the shell commands that write the file and run the command.
    """

    config: str
    """Content of the file ``config.yaml``."""
    command: tuple[str, ...]
    """The words of the command, run beside that file; ``shlex.join`` makes a line of them."""

    def __str__(self) -> str:
        return f"cat > config.yaml <<'END'\n{self.config}END\n{shlex.join(self.command)}"
