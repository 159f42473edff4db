"""What backends offer (machines, their places and limits), and why an offer does not carry a spec. Pure."""

from __future__ import annotations

from collections.abc import Callable, Iterable, Iterator, Sequence
from fractions import Fraction

import attrs

from gputrain import catalog
from gputrain.catalog import ANY_RESERVATION, Price, ProvisioningModel, Stage, likely_region
from gputrain.catalog.names import kind_of
from gputrain.display.table import TableDisplay
from gputrain.errors import UnknownGpuError
from gputrain.quota import QuotaReading, Verdict
from gputrain.spec import GpuRequest, TrainingSpec


@attrs.frozen(kw_only=True)
class Network(TableDisplay):
    """How the GPUs of several machines talk."""

    name: str
    gbps_per_gpu: float
    """Gbps that one GPU can send to other machines, by the rate of the lines."""
    note: str = ""
    """What else to know, and where it was read."""
    warning: str = ""
    """What it costs, where the machine could do better."""


def _kind(value: str | None) -> str | None:
    return value and kind_of(value)


@attrs.frozen(kw_only=True)
class Offer:
    """One shape of machine that a backend can run, and where.

    ``gpu`` is a kind, read as a spec's is (None: no GPU), ``gpu_count`` per machine.
    ``provisioning_models`` holds the models it is sold under; empty where nothing is sold (a machine of
    one's own). ``places`` are zones or regions in the user's order.
    """

    gpu: str | None = attrs.field(converter=_kind)
    gpu_count: int | Fraction
    machine_type: str
    provisioning_models: tuple[ProvisioningModel, ...]
    places: tuple[str, ...]
    price_of: Callable[[str, ProvisioningModel | None], Price | None] = attrs.field(
        default=lambda _place, _model: None, eq=False, repr=False
    )
    places_fix: str = ""
    """What to do where none of ``places`` is left; empty: allow more regions."""
    reserved_in: Callable[[TrainingSpec], str] = attrs.field(default=lambda _spec: "", eq=False, repr=False)
    """The place that a spec's reservation names, which need not be among ``places``; empty: none."""
    region_of: Callable[[str], str] = attrs.field(default=str, eq=False, repr=False)
    """The region that a place lies in; a place is its own where there is nothing wider."""
    max_nodes: int | None = None
    """Machines of this shape that one job can have at most; None: no limit known."""
    max_nodes_why: str = ""
    """Why no more; empty: there are no more."""
    network_of: Callable[[TrainingSpec], Network | None] = attrs.field(
        default=lambda _spec: None, eq=False, repr=False
    )
    """How the GPUs of several such machines would talk; None for one, or where it is not known."""
    refuses: Callable[[TrainingSpec, ProvisioningModel | None], tuple[str, str] | None] = attrs.field(
        default=lambda _spec, _model: None, eq=False, repr=False
    )
    """Why a spec cannot have it under a model, and what would work; None where it can."""

    def places_for(self, spec: TrainingSpec) -> tuple[str, ...]:
        """The places for a spec: where its reservation is as well."""
        return tuple(dict.fromkeys(filter(None, (*self.places, self.reserved_in(spec)))))

    @property
    def shape(self) -> str:
        """``2 x H100``, or ``CPU`` where there is no GPU."""
        return f"{self.gpu_count} x {self.gpu}" if self.gpu else "CPU"


@attrs.frozen(kw_only=True)
class Limit:
    """Something a spec may ask for that a backend cannot honour, and says so by name."""

    field: str
    asks: Callable[[TrainingSpec], bool] = attrs.field(eq=False, repr=False)
    """True for a spec that asks for it."""
    why: str
    fix: str


@attrs.frozen(kw_only=True)
class Supply:
    """All that one backend brings: its offers, and its limits."""

    backend: str
    offers: tuple[Offer, ...]
    limits: tuple[Limit, ...] = ()
    find_gpu: Callable[[str], object] = attrs.field(default=str, eq=False, repr=False)
    """Raises UnknownGpuError, with the nearest names, for a kind that the backend can never have."""
    regions: tuple[str, ...] = ()
    """The regions in the user's order of preference; empty: no order."""


def unknown_regions(supplies: Iterable[Supply]) -> Iterator[str]:
    """A sentence for each region in which a supply has nothing, and the catalog knows nothing either."""
    for one in supplies:
        there = {offer.region_of(place) for offer in one.offers for place in offer.places}
        for region in one.regions:
            if region not in there and (near := likely_region(region)):
                yield f"the catalog knows of nothing in {region}; {near} is spelt most like it"


@attrs.frozen(kw_only=True)
class Fact(TableDisplay):
    """What was read about one candidate's place: its quotas, whether it has the machine, and advice."""

    verdict: Verdict = Verdict.UNKNOWN
    obtainability: float | None = None
    """The provider's own estimate from 0 to 1 that the machines can be had now."""
    note: str = ""
    """What could not be read, and why; or what else to know."""
    readings: tuple[QuotaReading, ...] = attrs.field(default=(), hash=False)
    """Limit, usage and need of every quota the job counts against, with who told it and when."""
    absent_why: str = ""
    """Why the machines cannot be had there: the live answer says so. Empty: nothing says that."""
    availability: str = ""
    """Who says that the place has the machine: an API with its time, or the catalog with its date."""


Model = ProvisioningModel | None


@attrs.frozen
class Refusal(TableDisplay):
    """One way the spec cannot run: what was refused, why, and what would work."""

    backend: str
    subject: str
    why: str
    fix: str = ""
    asked_for: bool = True
    """False for shapes that the spec never asked for; displays leave those out."""

    def __str__(self) -> str:
        remedy = f"; what would work: {self.fix}" if self.fix else ""
        return f"{self.backend}: {self.subject}: {self.why}{remedy}"


def allowed_models(spec: TrainingSpec) -> tuple[ProvisioningModel, ...]:
    """The provisioning models to try, in order: the user's, or ``standard`` where none is named."""
    if spec.provisioning_model:
        return spec.provisioning_model
    if spec.reservation not in (None, ANY_RESERVATION):
        return (ProvisioningModel.STANDARD, ProvisioningModel.RESERVATION_BOUND)
    return (ProvisioningModel.STANDARD,)


def matches(request: GpuRequest, offer: Offer) -> bool:
    """Whether an offer is what a request asks for, kind and count."""
    return bool(offer.gpu) and _is_of_kind(request, offer) and offer.gpu_count == request.count


def _is_of_kind(request: GpuRequest, offer: Offer) -> bool:
    # A machine of one's own is not sold under any model, and takes a count without a kind.
    return request.kind == offer.gpu or (request.kind is None and not offer.provisioning_models)


def _suits(spec: TrainingSpec, offer: Offer) -> bool:
    return not spec.gpu or any(matches(request, offer) for request in spec.gpu)


def subject_of(offer: Offer, model: Model) -> str:
    """An offer under a model, in words."""
    return f"{offer.shape} on {offer.machine_type}" + (f" as {model.value}" if model else "")


def _gpus(spec: TrainingSpec) -> str:
    return ", ".join(map(str, spec.gpu))


def _models(models: tuple[ProvisioningModel, ...]) -> str:
    return " or ".join(f"'{model.value}'" for model in models)


def refusing(spec: TrainingSpec, backend: str, offer: Offer, model: Model) -> Refusal | None:
    """Why an offer is not for a spec under a model: the first reason there is; None where it suits."""
    return next(_refusals(spec, backend, offer, model), None)


def _refusals(spec: TrainingSpec, backend: str, offer: Offer, model: Model) -> Iterator[Refusal]:
    subject, allowed, sold = subject_of(offer, model), allowed_models(spec), offer.provisioning_models
    is_unnamed = not spec.gpu and bool(offer.gpu)
    if not _suits(spec, offer):
        yield Refusal(backend, subject, f"not asked for: gpu is {_gpus(spec)}", asked_for=False)
    if is_unnamed and spec.machine_type != offer.machine_type and model is not None:
        fix = f"gpu='{offer.gpu}:{offer.gpu_count}'"
        yield Refusal(backend, subject, "not asked for: no gpu is named", fix, asked_for=False)
    if spec.machine_type not in (None, offer.machine_type):
        yield Refusal(
            backend, subject, f"not asked for: machine_type is {spec.machine_type}", asked_for=False
        )
    if not offer.places_for(spec):
        fix = offer.places_fix or "allow more regions"
        yield Refusal(backend, subject, "not available in the places you allow", fix)
    if model is not None and model not in allowed:
        why = f"it is sold only as {_models(sold)}; you allow {_models(allowed)}"
        is_asked_for = not set(allowed) & set(sold)
        yield Refusal(
            backend, subject_of(offer, None), why, f"provisioning_model={_models(sold)}", is_asked_for
        )
    if model is ProvisioningModel.RESERVATION_BOUND and spec.reservation in (None, ANY_RESERVATION):
        fix = "reservation='my-reservation'"
        yield Refusal(backend, subject, "reservation-bound needs a reservation", fix, asked_for=False)
    if is_unnamed and (spec.nproc_per_node or 1) > offer.gpu_count:
        yield Refusal(backend, subject, f"{spec.nproc_per_node} ranks want a GPU each", asked_for=False)
    if offer.max_nodes is not None and spec.num_nodes > offer.max_nodes:
        why = f"{spec.num_nodes} such nodes are more than the {offer.max_nodes} there are"
        yield Refusal(backend, subject, offer.max_nodes_why or why, "fewer num_nodes")
    own = offer.refuses(spec, model)  # after ours: a backend speaks only of what the spec asks for
    if own:
        yield Refusal(backend, subject, *own)


def unmet(spec: TrainingSpec, supply: Supply) -> Iterator[Refusal]:
    """One reason for each request that no offer matches, naming what there is."""
    kinds = tuple(sorted({offer.gpu for offer in supply.offers if offer.gpu}))
    is_told = any(limit.field == "gpu" and limit.asks(spec) for limit in supply.limits)
    if not (spec.gpu or is_told) and all(one.gpu and one.provisioning_models for one in supply.offers):
        yield Refusal(supply.backend, "gpu", "no GPU is named", f"gpu='{kinds[0]}:1'" if kinds else "")
    machines = [offer.machine_type for offer in supply.offers if _suits(spec, offer)]
    if spec.machine_type and machines and spec.machine_type not in machines:
        subject = f"machine_type {spec.machine_type}"
        yield Refusal(supply.backend, subject, f"it does not carry {_gpus(spec)}", " or ".join(machines))
    for request in spec.gpu:
        own = {offer.gpu_count for offer in supply.offers if offer.gpu and _is_of_kind(request, offer)}
        unknown = unknown_gpu(request, supply)
        if unknown is not None:
            yield Refusal(supply.backend, str(request), unknown.what, unknown.fix)
        elif request.count not in own:
            yield _none_like(supply.backend, request, sorted(own), kinds)


def _none_like(
    backend: str, request: GpuRequest, counts: Sequence[int | Fraction], kinds: Sequence[str]
) -> Refusal:
    """Why nothing on offer is like a request: of its kind there are these counts, and in all these kinds."""
    asked = str(request)
    if counts:
        why = f"no machine carries {request.count} x {request.kind or 'GPU'}"
        return Refusal(backend, asked, why, f"counts that exist: {', '.join(map(str, counts))}")
    ranks = f"nproc_per_node={request.count}" + " instead of gpu runs as many CPU ranks here"
    without = f"{ranks}; or use a cloud backend, such as vertex"
    if request.kind is None:
        if not kinds:
            return Refusal(backend, asked, "there is no GPU here", without)
        return Refusal(backend, asked, "a count alone means GPUs of this machine", "say which: gpu='L4:2'")
    fix = f"GPUs that are: {', '.join(kinds)}" if kinds else without
    return Refusal(backend, asked, _not_here(request.kind), fix)


def unknown_gpu(request: GpuRequest, supply: Supply) -> UnknownGpuError | None:
    """What a backend says of a kind that it can never have; None where it knows it."""
    try:
        if request.kind is not None:
            supply.find_gpu(request.kind)
    except UnknownGpuError as error:
        return error
    return None


def _not_here(kind: str) -> str:
    try:
        life = catalog.find(kind).lifecycle
    except UnknownGpuError:
        return f"{kind} is not available here"
    gone = f": {life.note} {life.ends}" if life.stage is Stage.GONE else ""
    return f"{kind} is not available here{gone}"
