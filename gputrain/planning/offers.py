"""What backends offer: machines, their places, limits, and what was read about them. Pure values."""

from __future__ import annotations

from collections.abc import Callable
from fractions import Fraction

import attrs

from gputrain.catalog import Price, ProvisioningModel
from gputrain.catalog.names import kind_of
from gputrain.display.table import TableDisplay
from gputrain.quota import QuotaReading, Verdict
from gputrain.spec import TrainingSpec

Model = ProvisioningModel | None


@attrs.frozen(kw_only=True)
class Network(TableDisplay):
    """The network between the GPUs of several machines."""

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
    """One shape of machine that a backend can run, and where."""

    gpu: str | None = attrs.field(converter=_kind)
    """A kind, by any of its names; None: no GPU."""
    gpu_count: int | Fraction
    """Per machine."""
    machine_type: str
    provisioning_models: tuple[ProvisioningModel, ...]
    """The models it is sold under; empty where nothing is sold (a machine of one's own)."""
    places: tuple[str, ...]
    """Zones or regions in the user's order."""
    price_of: Callable[[str, Model], Price | None] = attrs.field(
        default=lambda _place, _model: None, eq=False, repr=False
    )
    places_fix: str = ""
    """What to do where none of ``places`` is left; empty: allow more regions."""
    reserved_in: Callable[[TrainingSpec], str] = attrs.field(default=lambda _spec: "", eq=False, repr=False)
    """The place that a spec's reservation names, which need not be among ``places``; empty: none."""
    region_of: Callable[[str], str] = attrs.field(default=str, eq=False, repr=False)
    """The region of a place; a place is its own where there is nothing wider."""
    max_nodes: int | None = None
    """Machines of this shape that one job can have at most; None: no limit known."""
    max_nodes_why: str = ""
    """Why no more; empty: there are no more."""
    network_of: Callable[[TrainingSpec], Network | None] = attrs.field(
        default=lambda _spec: None, eq=False, repr=False
    )
    """The network between several such machines; None for one, or where it is not known."""
    refuses: Callable[[TrainingSpec, Model], tuple[str, str] | None] = attrs.field(
        default=lambda _spec, _model: None, eq=False, repr=False
    )
    """Why a spec cannot have it under a model, and what would work; None where it can."""


@attrs.frozen(kw_only=True)
class Limit:
    """Something a spec may ask for that a backend cannot do, refused by name."""

    field: str
    asks: Callable[[TrainingSpec], bool] = attrs.field(eq=False, repr=False)
    """Whether a spec asks for it."""
    why: str
    fix: str


@attrs.frozen(kw_only=True)
class Supply:
    """The offers and limits of one backend."""

    backend: str
    offers: tuple[Offer, ...]
    limits: tuple[Limit, ...] = ()
    cautions: tuple[Limit, ...] = ()
    """What works on a condition that cannot be checked: a plan warns of it."""
    find_gpu: Callable[[str], object] = attrs.field(default=str, eq=False, repr=False)
    """Raises UnknownGpuError, with the nearest names, for a kind that the backend can never have."""
    regions: tuple[str, ...] = ()
    """The regions in the user's order of preference; empty: no order."""


@attrs.frozen(kw_only=True)
class Fact(TableDisplay):
    """What was read about one candidate's place: its quotas, whether it has the machine, and advice."""

    verdict: Verdict = Verdict.UNKNOWN
    obtainability: float | None = None
    """The provider's own estimate from 0 to 1 that the machines can be had now."""
    note: str = ""
    """What could not be read, and why; or what else to know."""
    readings: tuple[QuotaReading, ...] = attrs.field(default=(), hash=False)
    """Limit, usage and need of every quota that the job counts against, with source and time."""
    absent_why: str = ""
    """Why the machines cannot be had there, by the live answer; empty: nothing says that."""
    availability: str = ""
    """Who says that the place has the machine: an API with its time, or the catalog with its date."""


@attrs.frozen
class Refusal(TableDisplay):
    """One way the spec cannot run: what was refused, why, and what would work."""

    backend: str
    subject: str
    why: str
    fix: str = ""

    def __str__(self) -> str:
        fix = f"; what would work: {self.fix}" if self.fix else ""
        return f"{self.backend}: {self.subject}: {self.why}{fix}"
