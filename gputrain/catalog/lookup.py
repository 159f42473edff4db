"""Look up GPUs, machines, shapes, places, prices, quotas and networks."""

from __future__ import annotations

from collections.abc import Mapping
from difflib import SequenceMatcher, get_close_matches
from fractions import Fraction
from functools import cache, lru_cache
from typing import Any

from gputrain.errors import NoFitError

from . import load
from .models import (
    Attachment,
    Fabric,
    Family,
    Gpu,
    Gpus,
    Machine,
    Machines,
    Price,
    Prices,
    ProvisioningModel,
    Quota,
    Service,
    Shape,
    Shapes,
    Source,
    Stage,
)
from .names import BY_KIND, GPUS, find

VCPUS_PER_GPU = 8
"""Host chosen for attached GPUs unless a machine type is named: n1-standard with 8 vCPUs a GPU.

Our choice: enough processes to feed the GPU, within every limit of both services.
"""
VERTEX_FEE = 0.15
"""Vertex AI's management fee as a share of the on-demand price, also of Spot and flex-start machines.

Source: vertex-fee, a bill of 2025-08; a second figure of 2026 is the same. Google does not publish it.
"""
_HOST = "the N1 machine itself"


def gpus() -> Gpus:
    """Every GPU kind, newest first, those that are gone included."""
    return GPUS


@cache
def families() -> Mapping[str, Family]:
    """Every machine family by its key; one is there twice where not all its machines are sold alike."""
    return {row["key"]: Family(**load.cells(Family, row)) for row in load.rows("families")}


@cache
def machines() -> Machines:
    """Every machine type with its GPUs built in, then the N1 hosts that take GPUs."""
    return Machines(
        Machine(family=families()[row["family"]], **load.cells(Machine, row)) for row in load.rows("machines")
    )


@cache
def attachments() -> tuple[Attachment, ...]:
    """Which counts of which GPUs N1 hosts carry. P100 is gone, so its rows are not kept."""
    return tuple(Attachment(**load.cells(Attachment, row)) for row in load.rows("attachments"))


def machine(machine_type: str) -> Machine:
    """One machine type by its name.

    Raises:
        NoFitError: the catalog knows no such machine type; ``nearest`` holds the most alike.
    """
    found = next((one for one in machines() if one.machine_type == machine_type), None)
    if found is not None:
        return found
    nearest = tuple(get_close_matches(str(machine_type), [one.machine_type for one in machines()], n=3))
    raise NoFitError(
        f"the catalog knows no machine type {str(machine_type)[:60]!r}",
        why=f"the nearest: {', '.join(nearest)}" if nearest else "it is like no machine type with GPUs",
        fix="take one of gputrain.catalog.machines()",
        nearest=nearest,
    )


def shapes(
    gpu: str | None = None,
    count: float | Fraction | None = None,
    *,
    machine_type: str | None = None,
    service: Service | str | None = None,
    provisioning_model: ProvisioningModel | str | None = None,
    region: str | None = None,
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
        min_compute_capability: at least this, such as ``"8.0"`` for bfloat16.
        max_usd_h: known to cost at most this per hour, in ``region`` or somewhere, under
            ``provisioning_model`` or any that is sold. Shapes without a whole price are left out.

    Returns:
        Smallest count first, then newest GPU, then the table's order. Empty where the filters leave nothing.

    Raises:
        UnknownGpuError: no GPU goes by that name.
        NoFitError: no machine carries that count, or the GPU is gone; ``counts`` holds those that exist.
        ValueError: a word that is no service, provisioning model or compute capability.

    >>> [shape.machine_type for shape in shapes("H100", 2)]
    ['a3-highgpu-2g']
    """
    services = (Service(service),) if service else tuple(Service)
    model = ProvisioningModel(provisioning_model) if provisioning_model else None
    least, listing = (release(min_compute_capability), services[0] if service else Service.COMPUTE)

    def is_cheap(price: Price) -> bool:
        is_model = model in (None, price.provisioning_model)
        return is_model and price.is_whole and max_usd_h is not None and price.usd_h <= max_usd_h

    def is_wanted(shape: Shape) -> bool:
        sold = {one for each in services for one in shape.sold_as(each)}
        return (
            shape.gpu.capability >= least
            and (bool(sold) if model is None else model in sold)
            and (region is None or region in regions(shape, listing))
            and (max_usd_h is None or any(map(is_cheap, prices(shape, service=listing, region=region))))
        )

    return Shapes(filter(is_wanted, _carrying(gpu, count, machine_type)))


def _carrying(gpu: str | None, count: Any = None, machine_type: str | None = None) -> tuple[Shape, ...]:
    if gpu is None:
        built_in = machine(machine_type).gpu if machine_type else None  # raises for an unknown name
        kinds = (built_in,) if built_in else tuple(BY_KIND)
        every = (shape for kind in kinds for shape in _of_kind(kind, machine_type))
        found = tuple(sorted(every, key=lambda shape: shape.gpu_count))
    else:
        found = _of_kind(find(gpu).kind, machine_type)
    if count is not None:
        found = tuple(shape for shape in found if shape.gpu_count == count)
    if gpu is not None and not found:
        raise _no_fit(find(gpu), count, machine_type)
    return found


def counts(gpu: str) -> tuple[int | Fraction, ...]:
    """The counts of one GPU kind that a single machine can carry, ascending; empty for one that is gone.

    >>> counts("T4")
    (1, 2, 4)
    """
    return _counts(find(gpu).kind, None)


def _counts(kind: str, machine_type: str | None) -> tuple[int | Fraction, ...]:
    return tuple(dict.fromkeys(shape.gpu_count for shape in _of_kind(kind, machine_type)))


@lru_cache(maxsize=512)  # bounded: machine_type is the caller's text
def _of_kind(kind: str, machine_type: str | None) -> tuple[Shape, ...]:
    """The shapes with a kind of GPU, by count; no GPU is sold both built in and attached."""
    gpu = BY_KIND[kind]
    built_in = [
        Shape(gpu=gpu, gpu_count=one.gpu_count, machine=one)
        for one in machines()
        if one.gpu == kind and machine_type in (None, one.machine_type)
    ]
    attached = [
        Shape(gpu=gpu, gpu_count=limit.gpu_count, machine=host, attachment=limit)
        for limit in attachments()
        if limit.gpu == kind
        for host in machines()
        if host.machine_type == (machine_type or f"n1-standard-{limit.gpu_count * VCPUS_PER_GPU}")
        and host.gpu is None
        and host.vcpus <= limit.max_vcpus
        and host.memory_gib <= limit.max_memory_gib
    ]
    return tuple(sorted((*built_in, *attached), key=lambda shape: shape.gpu_count))


def _no_fit(gpu: Gpu, count: object, machine_type: str | None) -> NoFitError:
    life = gpu.lifecycle
    if life.stage is Stage.GONE:
        fix = f"take {' or '.join(gpu.instead)}"
        return NoFitError(f"{gpu.kind} is gone from Google Cloud", why=f"{life.note} {life.ends}", fix=fix)
    if machine_type is not None:
        machine(machine_type)
    exist = _counts(gpu.kind, machine_type)
    if not exist:
        types = dict.fromkeys(shape.machine_type for shape in _of_kind(gpu.kind, None))
        why = f"{gpu.kind} is carried by {', '.join(types)}"
        fix = "take one of those machine types, or leave machine_type out"
        what = f"{machine_type} carries no {gpu.kind}"
        return NoFitError(what, why=why, fix=fix, counts=counts(gpu.kind))
    nearest = min(exist, key=lambda one: abs(one - count)) if isinstance(count, int | float) else exist[0]
    fix = f"ask for gpu='{gpu.kind}:{nearest}'"
    if isinstance(count, int):
        whole = [one for one in exist if isinstance(one, int) and 0 < one < count and count % one == 0]
        if whole:
            fix += f", or gpu='{gpu.kind}:{whole[-1]}' with num_nodes={count // whole[-1]} for {count} in all"
    where = f"on {machine_type}" if machine_type else "on one machine"
    why = f"counts that exist {where}: {', '.join(map(str, exist))}"
    return NoFitError(f"there is no {gpu.kind}:{count} {where}", why=why, fix=fix, counts=exist)


def regions(shape: Shape, service: Service | str = Service.COMPUTE) -> tuple[str, ...]:
    """The regions where a service lists a shape, sorted; empty where it does not offer it.

    Presence, not capacity. A GPU seen in a region does not put every machine with it there. For Vertex AI
    these are the regions of its accelerator table that train.

    Source: machine-regions (2026-08-17), accelerator-regions (2026-08-10), vertex-regions (2026).

    >>> len(regions(shapes("H100-MEGA", 8)[0]))
    13
    """
    service = Service(service)
    if not shape.sold_as(service):
        return ()
    if service is Service.VERTEX:
        return _places("vertex-regions", shape.gpu.kind)
    if shape.is_attached:
        return _places("gpu-regions", shape.gpu.kind)
    return _places("machine-regions", shape.machine_type)


def zones(shape: Shape) -> tuple[str, ...]:
    """The zones of Compute Engine known to have a shape, sorted: its machine's own list, else its GPU's.

    A region of `regions` without a zone here has some that the tables lack.

    Source: zones (mid-2026), audit (2026-06-23) for the newest GPUs.

    >>> zones(shapes("GB200", 4)[0])
    ('us-central1-a', 'us-central1-b')
    """
    own = _places("machine-zones", shape.machine_type)
    listed = set(regions(shape))
    return tuple(zone for zone in own or _places("gpu-zones", shape.gpu.kind) if region_of(zone) in listed)


def possible_zones(shape: Shape, region: str) -> tuple[str, ...]:
    """The zones of a region that may have a shape on Compute Engine, sorted.

    Those of `zones`; where a region sells the shape and no zone is known, every zone of the region, for
    Compute Engine's own list to decide. Regions that not every project sees (us-east7) count here too.
    """
    known = tuple(zone for zone in zones(shape) if region_of(zone) == region)
    sold_in = (*regions(shape), *_places("restricted-regions", shape.machine_type))
    if known or region not in sold_in:
        return known
    return tuple(sorted(one for one in _all_places() if one != region and region_of(one) == region))


@cache
def _all_places() -> frozenset[str]:
    return frozenset(place for row in _place_rows().values() for place in row["places"].split())


def listed_in(shape: Shape, service: Service | str = Service.COMPUTE) -> Source:
    """The document, with its day, that the places of a shape were read in."""
    kind, name = shape.gpu.kind, shape.machine_type
    compute = (("machine-zones", name), ("gpu-zones", kind), ("machine-regions", name))
    lists = (("vertex-regions", kind),) if Service(service) is Service.VERTEX else compute
    row = next(row for one in lists if (row := _place_rows().get(one)))
    return load.source_of(row["source"], row["dated"])


def not_for_training(shape: Shape) -> tuple[str, ...]:
    """Regions where Vertex AI has the GPU for other work but does not train on it."""
    return _places("vertex-not-training", shape.gpu.kind)


@cache
def region_of(place: str) -> str:
    """The region a zone lies in; a region, whose name ends in a digit as no zone's does, is its own.

    >>> region_of("us-central1-a"), region_of("us-central1")
    ('us-central1', 'us-central1')
    """
    return place if place[-1:].isdigit() else place.rpartition("-")[0]


def likely_region(name: str) -> str:
    """The region that is spelt most like a name, or several; empty where the catalog knows the name."""
    known = {region_of(place) for place in _all_places()}
    alike = {one: SequenceMatcher(None, one, name).ratio() for one in sorted(known - {name})}
    return "" if name in known else " or ".join(one for one in alike if alike[one] == max(alike.values()))


@cache
def _place_rows() -> Mapping[tuple[str, str], load.Row]:
    return {(row["list"], name): row for row in load.rows("places") for name in row["of"].split()}


@cache
def _places(table: str, name: str) -> tuple[str, ...]:
    row = _place_rows().get((table, name))
    return tuple(sorted(row["places"].split())) if row else ()


def price(
    shape: Shape | str,
    region: str,
    provisioning_model: ProvisioningModel | str = ProvisioningModel.STANDARD,
    *,
    service: Service | str = Service.COMPUTE,
    management_fee: float | None = None,
) -> Price | None:
    """The price of a shape (or of a machine type with its GPUs built in) in a region, or None where unknown.

    None also where the service does not sell the shape that way. A ``reservation-bound`` price depends on the
    reservation, so it is unknown. On Vertex AI a management fee comes on top, `VERTEX_FEE` unless
    ``management_fee`` says another share of the on-demand price.

    Raises:
        NoFitError: the catalog knows no such machine type.

    >>> str(price("g2-standard-24", "us-central1"))
    '$2.00/h (2026-07-30)'
    """
    wanted, service, model = (_shape(shape), Service(service), ProvisioningModel(provisioning_model))
    found = _listed(wanted, region, model)
    if model not in wanted.sold_as(service) or found is None:
        return None
    usd_h, listed = found
    left_out, source = [_HOST] if wanted.is_attached else [], listed.what
    if service is Service.VERTEX:
        share = VERTEX_FEE if management_fee is None else management_fee
        standard = _listed(wanted, region, ProvisioningModel.STANDARD)
        if standard is None:
            left_out.append("Vertex AI's management fee")
        else:
            usd_h += share * standard[0]
            source += f", and a management fee of {share:.4g} times the on-demand price"
            source += "" if management_fee is not None else f" ({load.source('vertex-fee').dated})"
    return Price(
        usd_h=usd_h,
        gpu=wanted.gpu.kind,
        gpu_count=wanted.gpu_count,
        machine_type=wanted.machine_type,
        region=region,
        provisioning_model=model,
        leaves_out=tuple(left_out),
        source=source,
        date=listed.dated,
    )


def prices(
    shape: Shape | str,
    *,
    service: Service | str = Service.COMPUTE,
    spot: bool | None = None,
    region: str | None = None,
) -> Prices:
    """Every known price of a shape, in all regions unless you name one, cheapest first.

    Args:
        shape: a shape, a machine type with its GPUs built in, or GPUs as in ``"H100:8"`` on any machine.
        service: ``"compute"`` or ``"vertex"``.
        spot: True for Spot alone, False for all but Spot.
        region: this region only.

    Raises:
        UnknownGpuError, NoFitError: as `shapes`; or the machine alone has no price.

    >>> prices("a3-megagpu-8g")[0].region
    'us-west4'
    """
    if not isinstance(shape, str) or any(one.machine_type == shape for one in machines()):
        wanted: tuple[Shape, ...] = (_shape(shape),)
    else:
        kind, _, count = shape.partition(":")
        wanted = shapes(kind, Fraction(count) if count else None)
    known = (
        price(one, place, model, service=service)
        for one in wanted
        for place in ([region] if region else _price_rows(_priced_as(one)))
        for model in load.FIGURES.values()
        if spot in (None, model is ProvisioningModel.SPOT)
    )
    return Prices(sorted((one for one in known if one), key=lambda one: (one.usd_h, one.region)))


def _listed(shape: Shape, region: str, model: ProvisioningModel) -> tuple[float, Source] | None:
    """The list price of a machine with its GPUs, or of the GPUs that are attached, and where it was read."""
    column = next((column for column, one in load.FIGURES.items() if one is model), "")
    rows = _price_rows(_priced_as(shape)).get(region, ())
    row = next((row for row in rows if row.get(column)), None)
    if row is None:
        return None
    usd_h = float(row[column]) * (float(shape.gpu_count) if shape.is_attached else 1)
    return usd_h, load.source_of(row["source"], row["dated"])


def _priced_as(shape: Shape) -> str:
    """What its price stands under: a machine type, or the kind of an attached GPU."""
    return shape.gpu.kind if shape.is_attached else shape.machine_type


def _shape(shape: Shape | str) -> Shape:
    if isinstance(shape, Shape):
        return shape
    found = _carrying(None, machine_type=shape)
    if len(found) == 1:
        return found[0]
    why = "GPUs are attached to it, and each kind and count costs something else"
    fix = f"pass a shape, such as shapes('T4', 1, machine_type={shape!r})[0]"
    raise NoFitError(f"{shape} alone has no price", why=why, fix=fix)


@cache
def _price_rows(what: str) -> Mapping[str, tuple[load.Row, ...]]:
    """By region; more than one where its figures were read in several documents."""
    found: dict[str, tuple[load.Row, ...]] = {}
    for row in load.rows("prices"):
        if row["what"] == what:
            found[row["region"]] = (*found.get(row["region"], ()), row)
    return found


def quota(
    gpu: Gpu | str,
    provisioning_model: ProvisioningModel | str = ProvisioningModel.STANDARD,
    *,
    service: Service | str = Service.COMPUTE,
) -> Quota | None:
    """The quota that GPUs of one kind count against, or None where none is known.

    Spot and Flex-start count against the preemptible quotas on both services. Compute Engine's quotas do not
    apply to Vertex AI. For ``reservation-bound`` none is known: the reservation was counted when it was made.

    Raises:
        UnknownGpuError: no GPU goes by that name.

    Source: google-cloud-compute 1.56.0 ``Quota.Metric`` and live reads, 2026-11-20.

    >>> quota("H100").name
    'GPUS-PER-GPU-FAMILY-per-project-region (NVIDIA_H100)'
    """
    kind = (find(gpu) if isinstance(gpu, str) else gpu).kind
    model = ProvisioningModel(provisioning_model)
    if model is ProvisioningModel.RESERVATION_BOUND:
        return None
    return _quotas().get((kind, Service(service), model is not ProvisioningModel.STANDARD))


@cache
def _quotas() -> Mapping[tuple[str, Service, bool], Quota]:
    return {
        (row["of"], Service(row["service"]), bool(row["preemptible"])): Quota(**load.cells(Quota, row))
        for row in load.rows("quotas")
    }


def other_quota(of: str, *, service: Service = Service.COMPUTE, preemptible: bool = False) -> Quota:
    """A quota that counts something else than one kind of GPU, by its name in ``quotas.csv``."""
    return _quotas()[of, service, preemptible]


def is_of_all_regions(metric: str) -> bool:
    """Whether a quota counts all regions together, as GPUS_ALL_REGIONS and CPUS_ALL_REGIONS do.

    Source: compute v1 Quota.Metric, read 2026-11-20.
    """
    return metric.lower().endswith("_all_regions")


@cache
def _fabrics() -> Mapping[str, tuple[Fabric, ...]]:
    """By the name of a family or machine type, the fastest first."""
    document = load.networks()
    found: dict[str, tuple[Fabric, ...]] = {}
    for row in document["network"]:
        fields = {name: value for name, value in row.items() if name not in ("of", "read_on")}
        fields["environment"] = document["environment"].get(row.get("environment"), {})
        for of in row["of"]:
            found[of] = (*found.get(of, ()), Fabric(**fields))
    return found


def fabrics(shape: Shape) -> tuple[Fabric, ...]:
    """The ways in which the GPUs of several such machines talk, the fastest first; empty: none is known."""
    return _fabrics().get(shape.machine_type) or _fabrics().get(shape.machine.family.name, ())


def nccl_defaults(shape: Shape) -> dict[str, str]:
    """NCCL variables for such a machine on any network; the user's own values win."""
    level = load.networks()["peer_to_peer"].get(shape.machine_type)
    return {"NCCL_P2P_LEVEL": level} if level else {}


def release(words: str) -> tuple[int, ...]:
    """A version as numbers, so that 12.10 comes after 12.9."""
    return tuple(int(part) for part in words.split("."))
