"""What a shape costs, dated; standard, spot and flex-start kept apart; unknown is None, never a guess.

Below it the search for what is on sale, by kind, count, place, price and more.
"""

from __future__ import annotations

from fractions import Fraction
from functools import cache

import attrs

from gputrain.errors import NoFitError
from gputrain.tables import Shown, Table

from .families import ProvisioningModel, Service
from .images import release
from .load import rows, source
from .places import regions
from .shape import Shape, Shapes, carrying

_MODELS = (ProvisioningModel.STANDARD, ProvisioningModel.SPOT, ProvisioningModel.FLEX_START)
_HOST = "the N1 machine itself"
VERTEX_FEE = "Vertex AI's management fee"
"""What prices on Vertex AI leave out."""


@attrs.frozen(kw_only=True)
class Price(Shown):
    """US dollars an hour for one machine with its GPUs, in one region, under one provisioning model.

    ``leaves_out`` names what the figure does not hold; with anything there it is a lower bound.
    Disks, network traffic and discounts are never in it.
    """

    usd_h: float
    source: str
    date: str
    """The day of the price list, as ISO text."""
    leaves_out: tuple[str, ...] = ()
    region: str = ""
    provisioning_model: ProvisioningModel | None = None

    @property
    def is_whole(self) -> bool:
        """Whether the figure is the whole price of the machine, and not a lower bound."""
        return not self.leaves_out

    def __str__(self) -> str:
        least = "" if self.is_whole else "at least "
        note = "" if self.is_whole else f", without {' and '.join(self.leaves_out)}"
        return f"{least}${self.usd_h:,.2f}/h ({self.date}{note})"


class Prices(Shown, tuple[Price, ...]):
    """Prices, shown as a table."""

    __slots__ = ()

    @property
    def table(self) -> Table:
        return Table(
            title="Prices, US dollars an hour",
            columns=("region", "provisioning model", "USD/h", "leaves out", "dated"),
            rows=tuple(
                (p.region, p.provisioning_model, f"{p.usd_h:.4f}", ", ".join(p.leaves_out), p.date)
                for p in self
            ),
            right=("USD/h",),
        )


def price(
    shape: Shape | str,
    region: str,
    provisioning_model: ProvisioningModel | str = ProvisioningModel.STANDARD,
    *,
    service: Service | str = Service.COMPUTE,
) -> Price | None:
    """The price of a shape (or of a machine type with its GPUs built in) in a region, or None where unknown.

    None also where the service does not sell the shape that way: a3-highgpu-2g has an on-demand list price,
    but Compute Engine does not sell it on demand. A ``reservation-bound`` price depends on the reservation,
    so it is unknown. On Vertex AI the figure is Compute Engine's price, and a fee of unsettled size comes
    on top; there the on-demand list price of a small H100 machine does count.

    Raises:
        NoFitError: the catalog knows no such machine type.

    Source: prices, 2026-07-30, kept only where the region lists the machine; or the user's refreshed table.

    >>> str(price("g2-standard-24", "us-central1"))
    '$2.00/h (2026-07-30)'
    """
    wanted, service, model = _shape(shape), Service(service), ProvisioningModel(provisioning_model)
    if model not in wanted.sold_as(service):
        return None
    per = wanted.gpu.kind if wanted.is_attached else wanted.machine_type
    found = _listed(per).get(region, {})
    if model not in found:
        return None
    usd_h, key = found[model]
    left_out = ((_HOST,) if wanted.is_attached else ()) + ((VERTEX_FEE,) if service is Service.VERTEX else ())
    return Price(
        usd_h=usd_h * (float(wanted.gpu_count) if wanted.is_attached else 1),
        region=region,
        provisioning_model=model,
        leaves_out=left_out,
        source=source(key).what,
        date=source(key).dated,
    )


def prices(shape: Shape | str, *, service: Service | str = Service.COMPUTE) -> Prices:
    """Every known price of a shape, cheapest first.

    >>> prices("a3-megagpu-8g")[0].region
    'us-west4'
    """
    wanted = _shape(shape)
    per = wanted.gpu.kind if wanted.is_attached else wanted.machine_type
    known = (price(wanted, region, model, service=service) for region in _listed(per) for model in _MODELS)
    return Prices(sorted((one for one in known if one), key=lambda one: (one.usd_h, one.region)))


def costs_at_most(
    shape: Shape,
    usd_h: float,
    *,
    region: str | None = None,
    provisioning_model: ProvisioningModel | None = None,
    service: Service | None = None,
) -> bool:
    """Whether a shape is known to cost at most so much an hour; False where no whole price is known.

    Without a region, somewhere; without a provisioning model, under any that the service sells it as.
    Only Compute Engine's prices are whole, so for Vertex AI alone it is False.
    """
    if shape.is_attached or service is Service.VERTEX:
        return False
    sold = shape.sold_as(Service.COMPUTE)
    models = [model for model in sold if provisioning_model in (None, model)]
    places = _listed(shape.machine_type)
    figures = places.values() if region is None else [places.get(region, {})]
    return any(known[model][0] <= usd_h for known in figures for model in models if model in known)


def _shape(shape: Shape | str) -> Shape:
    if isinstance(shape, Shape):
        return shape
    found = carrying(None, machine_type=shape)
    if len(found) == 1:
        return found[0]
    raise NoFitError(
        f"{shape} alone has no price",
        why="GPUs are attached to it, and each kind and count costs something else",
        fix=f"pass a shape, such as shapes('T4', 1, machine_type={shape!r})[0]",
    )


@cache
def _listed(name: str) -> dict[str, dict[ProvisioningModel, tuple[float, str]]]:
    """For a machine type or an attached GPU kind: region, then model, then dollars and the source's key."""
    return {
        region: {model: (float(figure), key) for model, figure in zip(_MODELS, figures) if figure}
        for what, region, *figures, key in rows("prices")
        if what == name
    }


def shapes(
    gpu: str | None = None,
    count: float | Fraction | None = None,
    *,
    machine_type: str | None = None,
    service: Service | str | None = None,
    provisioning_model: ProvisioningModel | str | None = None,
    region: str | None = None,
    min_gpu_memory_gib: float = 0,
    min_compute_capability: str = "0.0",
    max_usd_h: float | None = None,
) -> Shapes:
    """The shapes that carry a GPU kind and a count, exactly; all of them when nothing is asked.

    Args:
        gpu: any name of a GPU (`find`).
        count: GPUs on one machine.
        machine_type: this machine only; for attached GPUs, another N1 host than the default.
        service: only what this service offers, ``"compute"`` or ``"vertex"``.
        provisioning_model: only what is sold this way (``"spot"``), by ``service`` or by either without one.
        region: only what the service (by default Compute Engine) lists in this region.
        min_gpu_memory_gib: at least this much memory on each GPU.
        min_compute_capability: at least this, such as ``"8.0"`` for bfloat16.
        max_usd_h: known to cost at most this per hour, in ``region`` or somewhere,
            under ``provisioning_model`` or any that is sold. Shapes without a whole price are left out:
            GPUs attached to N1, and everything on Vertex AI, whose fee is not known.

    Returns:
        Smallest count first, then newest GPU, then the table's order. Empty where the filters leave nothing.

    Raises:
        UnknownGpuError: no GPU goes by that name.
        NoFitError: no machine carries that count, or the GPU is gone; ``counts`` holds those that exist.
        ValueError: a word that is no service, provisioning model or compute capability.

    Source: `gputrain.catalog.machines`, read on `gputrain.catalog.READ_ON`.

    >>> [shape.machine_type for shape in shapes("H100", 2)]
    ['a3-highgpu-2g']
    """
    service = Service(service) if service else None
    model = ProvisioningModel(provisioning_model) if provisioning_model else None
    least = release(min_compute_capability)
    return Shapes(
        shape
        for shape in carrying(gpu, count, machine_type)
        if shape.gpu.memory_gib >= min_gpu_memory_gib
        and shape.gpu.capability >= least
        and _is_offered(shape, service, model)
        and (region is None or region in regions(shape, service or Service.COMPUTE))
        and (
            max_usd_h is None
            or costs_at_most(shape, max_usd_h, region=region, provisioning_model=model, service=service)
        )
    )


def _is_offered(shape: Shape, service: Service | None, model: ProvisioningModel | None) -> bool:
    asked = (service,) if service else tuple(Service)
    sold = {one for each in asked for one in shape.sold_as(each)}
    return bool(sold) if model is None else model in sold
