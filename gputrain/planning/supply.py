"""What a backend has on offer, checked as it is made: backends are anybody's."""

from __future__ import annotations

from collections.abc import Callable, Iterable, Iterator
from fractions import Fraction
from typing import Any, TypeVar

import attrs

from gputrain import fields
from gputrain.arguments import function
from gputrain.catalog import Price, ProvisioningModel, likely_region
from gputrain.catalog.names import kind_of
from gputrain.fields import FaultCollector, Field
from gputrain.spec import TrainingSpec
from gputrain.tables import Shown

T = TypeVar("T")


@attrs.frozen(kw_only=True)
class Network(Shown):
    """How the GPUs of several machines talk."""

    name: str
    gbps_per_gpu: float
    """Gbps that one GPU can send to other machines, by the rate of the lines."""
    note: str = ""
    """What else to know, and where it was read."""
    warning: str = ""
    """What it costs, where the machine could do better."""


def _count(value: Any) -> int | Fraction:
    if isinstance(value, bool) or not isinstance(value, (int, Fraction)) or value < 0:
        raise ValueError
    return value


_MODELS = fields.many(fields.instance(ProvisioningModel))
_FUNCTION = Field(function, "a function", "leave it out", is_needed=True)
_OF_OFFER = {
    "gpu": Field(fields.text, "a kind of GPU, or None", "gpu='H100'"),
    "gpu_count": Field(
        _count, "how many there are of the kind, and 0 of none", "gpu_count=8", is_needed=True
    ),
    "machine_type": Field(fields.text, "what the machine is called", "machine_type='node'", is_needed=True),
    "provisioning_models": Field(
        _MODELS,
        "a list of ProvisioningModel",
        "provisioning_models=(ProvisioningModel.SPOT,)",
        is_needed=True,
    ),
    "places": Field(
        fields.many(fields.instance(str)), "a list of names", "places=('gpu-long',)", is_needed=True
    ),
    "max_nodes": Field(fields.whole(0, 1 << 31), "a whole number", "leave it out"),
    **dict.fromkeys(("price_of", "region_of", "network_of", "refuses"), _FUNCTION),
}
"""How each argument of an offer is read; backends are anybody's."""


def _kind(value: str | None) -> str | None:
    return kind_of(value) if isinstance(value, str) else value


@attrs.frozen(kw_only=True)
class Offer:
    """One shape of machine that a backend can run, and where.

    ``gpu`` is a kind, read as a spec's is (None: no GPU), ``gpu_count`` per machine.
    ``provisioning_models`` holds the models it is sold under; empty where nothing is sold (a machine of
    one's own). ``places`` are zones or regions in the user's order.

    Raises:
        SpecError: with every argument that cannot be read.
    """

    gpu: str | None = attrs.field(converter=_kind)
    gpu_count: int | Fraction
    machine_type: str
    provisioning_models: tuple[ProvisioningModel, ...]
    places: tuple[str, ...]
    price_of: Callable[[str, ProvisioningModel | None], Price | None] = attrs.field(
        default=lambda _place, _model: None, eq=False, repr=False
    )
    price_fix: str = ""
    """What a person can do where prices are lower bounds; empty: nothing."""
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

    def __attrs_post_init__(self) -> None:
        faults = FaultCollector("Offer(...)")
        fields.read(_OF_OFFER, {name: getattr(self, name) for name in _OF_OFFER}, faults)
        if faults.is_clean("gpu", "gpu_count"):
            row = _OF_OFFER["gpu_count"]
            is_counted = (self.gpu is None) == (self.gpu_count == 0)
            faults.check(is_counted, "gpu_count", self.gpu_count, row.allowed, row.fix)
        faults.raise_if_any()

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


def _all(kind: type[Any]) -> Callable[[Any], tuple[Any, ...]]:
    return lambda value: tuple(map(fields.instance(kind), fields.instance(tuple)(value)))


_OF_SUPPLY = {
    "backend": Field(fields.text, "the name of the backend", "backend='slurm'", is_needed=True),
    "offers": Field(_all(Offer), "a tuple of Offer", "offers=(Offer(...),)", is_needed=True),
    "limits": Field(_all(Limit), "a tuple of Limit", "limits=(Limit(...),)", is_needed=True),
    "find_gpu": _FUNCTION,
    "regions": Field(fields.many(fields.instance(str)), "a list of names", "leave it out", is_needed=True),
}


@attrs.frozen(kw_only=True)
class Supply:
    """All that one backend brings: its offers, and its limits.

    Raises:
        SpecError: with every argument that cannot be read.
    """

    backend: str
    offers: tuple[Offer, ...]
    limits: tuple[Limit, ...] = ()
    find_gpu: Callable[[str], object] = attrs.field(default=str, eq=False, repr=False)
    """Raises UnknownGpuError, with the nearest names, for a kind that the backend can never have."""
    regions: tuple[str, ...] = ()
    """The regions in the user's order of preference; empty: no order."""

    def __attrs_post_init__(self) -> None:
        fields.read_whole("Supply(...)", _OF_SUPPLY, {name: getattr(self, name) for name in _OF_SUPPLY})


def unknown_regions(supplies: Iterable[Supply]) -> Iterator[str]:
    """A sentence for each region in which a supply has nothing, and the catalog knows nothing either."""
    for one in supplies:
        there = {offer.region_of(place) for offer in one.offers for place in offer.places}
        for region in one.regions:
            if region not in there and (near := likely_region(region)):
                yield f"the catalog knows of nothing in {region}; {near} is spelt most like it"


def told(backend: str, field: str, value: Any, read: Callable[[Any], T], allowed: str) -> T:
    """What a function of an offer gave. Raises SpecError: it is not what it has to be."""
    try:
        return read(value)
    except ValueError:
        fix, what = f"tell whoever wrote {backend}", f"an offer of the backend {backend!r} cannot be read"
        raise fields.refused(f"{field}(...)", value, allowed, fix, what=what) from None
