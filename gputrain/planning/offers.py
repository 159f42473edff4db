"""What backends bring to a plan: the shapes they can run, and what they cannot honour."""

from __future__ import annotations

from collections.abc import Callable
from fractions import Fraction

import attrs

from gputrain.catalog import Price, ProvisioningModel
from gputrain.quota import Reading, Verdict
from gputrain.spec import TrainingSpec


def _no_price(_place: str, _model: ProvisioningModel | None) -> Price | None:
    return None


def _itself(place: str) -> str:
    return place


def _any(kind: str) -> object:
    return kind


def _nothing(_spec: TrainingSpec, _model: ProvisioningModel | None) -> tuple[str, str] | None:
    return None


@attrs.frozen(kw_only=True)
class Offer:
    """One shape of machine that a backend can run, and where.

    ``gpu`` is the catalog's kind (None: no GPU), ``gpu_count`` per machine.
    ``provisioning_models`` holds the models it is sold under; empty where nothing is sold (a machine of
    one's own). ``places`` are zones or regions in the user's order.
    """

    gpu: str | None
    gpu_count: int | Fraction
    machine_type: str
    provisioning_models: tuple[ProvisioningModel, ...]
    places: tuple[str, ...]
    price_of: Callable[[str, ProvisioningModel | None], Price | None] = attrs.field(
        default=_no_price, eq=False, repr=False
    )
    region_of: Callable[[str], str] = attrs.field(default=_itself, eq=False, repr=False)
    """The region that a place lies in; a place is its own where there is nothing wider."""
    max_nodes: int | None = None
    """Machines of this shape that one job can have at most; None: no limit known."""
    max_nodes_why: str = ""
    """Why no more, and what would allow more; empty: there are no more."""
    max_nodes_fix: str = ""
    refuses: Callable[[TrainingSpec, ProvisioningModel | None], tuple[str, str] | None] = attrs.field(
        default=_nothing, eq=False, repr=False
    )
    """Why a spec cannot have it under a model, and what would work; None where it can."""

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
    find_gpu: Callable[[str], object] = attrs.field(default=_any, eq=False, repr=False)
    """Raises UnknownGpuError, with the nearest names, for a kind that the backend can never have."""
    regions: tuple[str, ...] = ()
    """The regions in the user's order of preference; empty: no order."""


@attrs.frozen(kw_only=True)
class Fact:
    """What was read about one candidate's place: its quotas, whether it has the machine, and advice."""

    verdict: Verdict = Verdict.UNKNOWN
    obtainability: float | None = None
    """The provider's own estimate from 0 to 1 that the machines can be had now."""
    note: str = ""
    """What could not be read, and why; or what else to know."""
    readings: tuple[Reading, ...] = attrs.field(default=(), hash=False)
    """Limit, usage and need of every quota the job counts against, with who told it and when."""
    absent_why: str = ""
    """Why the machines cannot be had there: the live answer says so. Empty: nothing says that."""
    availability: str = ""
    """Who says that the place has the machine: an API with its time, or the catalog with its date."""
