"""From a spec and what is on offer to every way it could run, and why the others cannot. Pure."""

from __future__ import annotations

import shlex
from collections.abc import Iterable, Iterator, Mapping, Sequence
from datetime import timedelta
from fractions import Fraction
from typing import Any

import attrs

from gputrain import catalog
from gputrain.catalog import ANY_RESERVATION, Price, ProvisioningModel, Stage, likely_region
from gputrain.display.table import TableDisplay, TextDisplay
from gputrain.errors import UnknownGpuError
from gputrain.fields import Errors
from gputrain.planning.offers import Fact, Model, Network, Offer, Refusal, Supply
from gputrain.quota import Verdict
from gputrain.spec import GpuRequest, TrainingSpec
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
    region: str = attrs.Factory(lambda self: self.place, takes_self=True)
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
    """How many nodes fewer than the spec asks for, for a job that continues with fewer."""
    region_rank: int = 0
    """Place of its region in the order that the user gave the regions in."""
    reservation: str | None = None
    """The reservation it would use; None: none."""
    network: Network | None = attrs.field(default=None, hash=False)
    """How the GPUs of its nodes talk; None for one node, or where it is not known."""
    fact: Fact = attrs.field(default=Fact(), hash=False)

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

    Each wanted offer ends, under each model that is allowed, in candidates (one a place) or in
    exactly one refusal.

    Raises:
        UnknownGpuError: no backend knows a GPU by that name; ``faults`` holds all such names.
    """
    _check_gpus(spec, supplies)
    found: list[tuple[tuple[int, ...], Candidate]] = []
    refusals: list[Refusal] = []
    allowed = allowed_models(spec)
    for number, supply in enumerate(supplies):
        limits = [limit for limit in supply.limits if limit.asks(spec)]
        refusals += [Refusal(supply.backend, one.field, one.why, one.fix) for one in limits]
        refusals += _unmet(spec, supply)
        for offer in supply.offers:
            if not _is_asked_for(spec, offer):
                continue
            gpu = next((rank for rank, one in enumerate(spec.gpu) if _matches(one, offer)), 0)
            for model in tuple(one for one in offer.provisioning_models if one in allowed) or (None,):
                refusal, priced = _refusal(spec, offer, model), list[Candidate]()
                if refusal is None:
                    priced = _priced(spec, supply, offer, model)
                    refusal = None if priced else _unaffordable(spec, offer, model)
                if refusal is not None:
                    refusals.append(Refusal(supply.backend, _subject(offer, model), *refusal))
                elif not limits:
                    order = (gpu, allowed.index(model) if model else 0, number)
                    found += [((*order, one.region_rank, at), one) for at, one in enumerate(priced)]
    found.sort(key=lambda pair: pair[0])
    return Wanted(candidates=tuple(one for _, one in found), refusals=tuple(dict.fromkeys(refusals)))


def _check_gpus(spec: TrainingSpec, supplies: Sequence[Supply]) -> None:
    """Refuse names that no backend knows, before anything is read."""
    faults, nearest = Errors("the spec"), list[str]()
    for request in spec.gpu:
        unknown = [unknown_gpu(request, supply) for supply in supplies]
        if unknown and (error := unknown[0]) is not None and None not in unknown:
            faults.add("gpu", str(request), "", error.fix, problem=error.what)
            nearest += error.nearest
    faults.raise_if_any(UnknownGpuError, nearest=tuple(dict.fromkeys(nearest)))


def unknown_gpu(request: GpuRequest, supply: Supply) -> UnknownGpuError | None:
    """The error of a backend that can never have the kind; None where it knows it."""
    try:
        if request.kind is not None:
            supply.find_gpu(request.kind)
    except UnknownGpuError as error:
        return error
    return None


def unknown_regions(supplies: Iterable[Supply]) -> Iterator[str]:
    """A sentence for each region in which a supply has nothing, and the catalog knows nothing either."""
    for one in supplies:
        there = {offer.region_of(place) for offer in one.offers for place in offer.places}
        for region in one.regions:
            if region not in there and (near := likely_region(region)):
                yield f"the catalog knows of nothing in {region}; did you mean {near}?"


def allowed_models(spec: TrainingSpec) -> tuple[ProvisioningModel, ...]:
    """The provisioning models to try, in order: the user's, or ``standard`` where none is named."""
    if spec.provisioning_model:
        return spec.provisioning_model
    return _RESERVED if spec.reservation not in (None, ANY_RESERVATION) else _RESERVED[:1]


def _is_of_kind(request: GpuRequest, offer: Offer) -> bool:
    # A machine of one's own is not sold under any model, and takes a count without a kind.
    return request.kind == offer.gpu or (request.kind is None and not offer.provisioning_models)


def _matches(request: GpuRequest, offer: Offer) -> bool:
    return bool(offer.gpu) and _is_of_kind(request, offer) and offer.gpu_count == request.count


def _subject(offer: Offer, model: Model) -> str:
    shape = f"{offer.gpu_count} x {offer.gpu}" if offer.gpu else "CPU"
    return f"{shape} on {offer.machine_type}" + (f" as {model.value}" if model else "")


def _places(spec: TrainingSpec, offer: Offer) -> tuple[str, ...]:
    """The places of an offer, with that of the spec's reservation."""
    return tuple(dict.fromkeys(filter(None, (*offer.places, offer.reserved_in(spec)))))


def _models(models: tuple[ProvisioningModel, ...]) -> str:
    return " or ".join(f"'{model.value}'" for model in models)


def _is_asked_for(spec: TrainingSpec, offer: Offer) -> bool:
    if spec.machine_type not in (None, offer.machine_type):
        return False
    if spec.gpu:
        return any(_matches(request, offer) for request in spec.gpu)
    is_named = spec.machine_type is not None or not offer.provisioning_models
    return not offer.gpu or (is_named and (spec.nproc_per_node or 1) <= offer.gpu_count)


def _refusal(spec: TrainingSpec, offer: Offer, model: Model) -> tuple[str, str] | None:
    """Why an offer is not for a spec under a model, and what would work.

    Args:
        model: None where nothing is sold, or under no model that is allowed.
    """
    if not _places(spec, offer):
        return "not available in the places you allow", offer.places_fix or "allow more regions"
    if offer.provisioning_models and model is None:
        sold = _models(offer.provisioning_models)
        why = f"it is sold only as {sold}; you allow {_models(allowed_models(spec))}"
        return why, f"provisioning_model={sold}"
    if offer.max_nodes is not None and spec.num_nodes > offer.max_nodes:
        why = f"{spec.num_nodes} such nodes are more than the {offer.max_nodes} there are"
        return offer.max_nodes_why or why, "fewer num_nodes"
    return offer.refuses(spec, model)  # after ours: a backend speaks only of what the spec asks for


def _unmet(spec: TrainingSpec, supply: Supply) -> Iterator[Refusal]:
    """One reason for each request that no offer matches, naming what there is."""
    backend, kinds = supply.backend, tuple(sorted({offer.gpu for offer in supply.offers if offer.gpu}))
    is_refused = any(limit.field == "gpu" and limit.asks(spec) for limit in supply.limits)
    if not (spec.gpu or is_refused) and all(one.gpu and one.provisioning_models for one in supply.offers):
        yield Refusal(backend, "gpu", "no GPU is named", f"gpu='{kinds[0]}:1'" if kinds else "")
    machines = [
        offer.machine_type for offer in supply.offers
        if not spec.gpu or any(_matches(request, offer) for request in spec.gpu)
    ]  # fmt: skip
    if spec.machine_type and machines and spec.machine_type not in machines:
        why = f"it does not carry {', '.join(map(str, spec.gpu))}"
        yield Refusal(backend, f"machine_type {spec.machine_type}", why, " or ".join(machines))
    for request in spec.gpu:
        own = {offer.gpu_count for offer in supply.offers if offer.gpu and _is_of_kind(request, offer)}
        unknown = unknown_gpu(request, supply)
        if unknown is not None:
            yield Refusal(backend, str(request), unknown.what, unknown.fix)
        elif request.count not in own:
            yield Refusal(backend, str(request), *_none_like(request, sorted(own), kinds))


def _none_like(
    request: GpuRequest, counts: Sequence[int | Fraction], kinds: Sequence[str]
) -> tuple[str, str]:
    """Why no offer is like a request whose kind has these counts, and what would work."""
    if counts:
        why = f"no machine carries {request.count} x {request.kind or 'GPU'}"
        return why, f"counts that exist: {', '.join(map(str, counts))}"
    ranks = f"nproc_per_node={request.count} instead of gpu runs as many CPU ranks here"
    fix = (
        f"GPUs that are: {', '.join(kinds)}" if kinds else f"{ranks}; or use a cloud backend, such as vertex"
    )
    if request.kind is None:
        if not kinds:
            return "there is no GPU here", fix
        return "a count alone means GPUs of this machine", "say which: gpu='L4:2'"
    gone = ""
    try:
        life = catalog.find(request.kind).lifecycle
        gone = f": {life.note} {life.ends}" if life.stage is Stage.GONE else ""
    except UnknownGpuError:
        pass
    return f"{request.kind} is not available here{gone}", fix


def _priced(spec: TrainingSpec, supply: Supply, offer: Offer, model: Model) -> list[Candidate]:
    """A candidate for each place whose price ``max_cost`` pays for."""
    found, network = [], offer.network_of(spec)
    for place in _places(spec, offer):
        price = _price_for(spec, offer, place, model)
        if spec.max_cost is not None and not (price and price.is_whole):
            continue
        duration = paid_for(spec, price.usd_h * spec.num_nodes if price else 0.0)
        if duration < min(SHORTEST_RUN, spec.max_run_duration):
            continue
        region = offer.region_of(place)
        found.append(
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
    return found


def paid_for(spec: TrainingSpec, usd_h: float) -> timedelta:
    """The part of ``max_run_duration`` that ``max_cost`` pays for, where all nodes cost so much an hour."""
    longest = spec.max_run_duration
    if spec.max_cost is None or spec.max_cost * 3600 >= usd_h * longest.total_seconds():
        return longest
    return timedelta(seconds=int(spec.max_cost / usd_h * 3600))


def _price_for(spec: TrainingSpec, offer: Offer, place: str, model: Model) -> Price | None:
    """The dated price of a machine; where none is known as a whole, the user's own."""
    price = offer.price_of(place, model)
    if spec.price_per_hour is None or (price is not None and price.is_whole):
        return price
    return Price(usd_h=spec.price_per_hour, source="price_per_hour", date="the spec", region=place)


def _unaffordable(spec: TrainingSpec, offer: Offer, model: Model) -> tuple[str, str]:
    prices = [_price_for(spec, offer, place, model) for place in _places(spec, offer)]
    if any(price is not None and price.is_whole for price in prices):
        return f"a max_cost of {spec.max_cost:g} does not pay for a minute of it", "raise max_cost"
    missing = dict.fromkeys(name for price in prices if price for name in price.leaves_out)
    unknown = f"the price of {' and '.join(missing)}" if missing else "its price"
    fix = "say it with price_per_hour=, or leave max_cost out and set max_run_duration"
    return f"{unknown} is unknown, so max_cost cannot be kept", fix


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
