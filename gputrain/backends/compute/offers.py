"""What Compute Engine sells to a project by the catalog, what it cannot honour, and what it tells beforehand.

All questions of a plan are asked side by side, once a minute at most, and none is waited for longer than a
few seconds. What is not answered is unknown, and the catalog's dated table stands in for it.

Google's capacity advice tells how likely machines are to be had in a zone now. Which machines and models the
server answers for is not written down (read 2026-11-20), so what it refuses is unknown, and
`ComputeEngine(capacity_advice=False)` never asks.
"""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from datetime import timedelta
from functools import partial
from typing import Any

import attrs

from gputrain import catalog
from gputrain.backends.compute import images, networking
from gputrain.backends.compute.request import MODELS
from gputrain.backends.compute.settings import NAME, ComputeSettings
from gputrain.backends.google import in_reservation, shape_of
from gputrain.backends.limits import LIMITS, SAID, folders, words
from gputrain.catalog import FLEX_START_LONGEST_RUN_S, Price, ProvisioningModel, Service, Shape, region_of
from gputrain.google import Api, GoogleClient
from gputrain.google.cache import Found
from gputrain.google.compute_lists import ZonalList, list_all_zones, zone_of
from gputrain.google.forms import mapping, mappings
from gputrain.planning import Candidate, Fact, Offer, Supply
from gputrain.quota import QuotaStatus
from gputrain.quota.model import QuotaSnapshot, grouped, in_short
from gputrain.retry import GLANCE
from gputrain.spec import TrainingSpec

LONGEST_FLEX_START = timedelta(seconds=FLEX_START_LONGEST_RUN_S)
MOST_NODES = 1000
"""VMs in one bulkInsert. Source: compute v1 documentation, read 2026-11-20."""

MOST_METADATA = 262_144
"""Bytes of one value; the job is one, its keeper another, and all together are less than 512 KB.

Source: compute v1, ``Metadata``, read 2026-11-23.
"""
_OURS, _A_NAME = 32_768, 70
"""Bytes that are left to what else stands there, and to each VM's name."""
_HOLDER = "VMs read their job from their metadata, where 256 KiB are allowed"

_MACHINES, _ACCELERATORS = "machineTypes", "acceleratorTypes"
REFRESH = "python -m gputrain.catalog.refresh"
MOST_ADVICE = 6
"""Zones that are asked about for one plan, the first in its order: a call each."""
ADVISED = (ProvisioningModel.SPOT, ProvisioningModel.FLEX_START)


def supply(settings: ComputeSettings) -> Supply:
    """Every shape with GPUs in the zones of the allowed regions, in the order of the regions."""
    shapes = catalog.shapes(service=Service.COMPUTE)
    offers = tuple(_offer(shape, settings) for shape in shapes)
    return Supply(
        backend=NAME,
        offers=offers,
        limits=(
            *LIMITS,
            *words(_HOLDER, _room, {**SAID, "env": lambda spec: dict(spec.env)}),
            *folders(settings.bucket, "a folder of a VM is gone when the VM is", "gs://"),
        ),
        find_gpu=catalog.find,
        regions=settings.named_regions,
    )


def _room(spec: TrainingSpec) -> int:
    return MOST_METADATA - _OURS - _A_NAME * spec.num_nodes


def _offer(shape: Shape, settings: ComputeSettings) -> Offer:
    regions = settings.all_regions(Service.COMPUTE)
    places = [zone for region in regions for zone in catalog.possible_zones(shape, region)]

    def reserved_in(spec: TrainingSpec) -> str:
        zone = zone_of(spec.reservation or "")
        return zone if region_of(zone) in regions else ""

    def price_of(place: str, model: ProvisioningModel | None) -> Price | None:
        return None if model is None else catalog.price(shape, catalog.region_of(place), model)

    return Offer(
        gpu=shape.gpu.kind,
        gpu_count=shape.gpu_count,
        machine_type=shape.machine_type,
        provisioning_models=shape.sold_as(Service.COMPUTE),
        places=tuple(places),
        places_fix=_places_fix(shape),
        reserved_in=reserved_in,
        price_of=price_of,
        region_of=catalog.region_of,
        max_nodes=MOST_NODES,
        network_of=lambda spec: networking.network(shape, settings, spec.num_nodes, spec.image_name),
        refuses=partial(_refuses, shape, settings),
    )


def _places_fix(shape: Shape) -> str:
    regions = [region for region in catalog.regions(shape) if catalog.possible_zones(shape, region)]
    such_as = f" such as {', '.join(regions[:3])}" if regions else ""
    return f"allow more regions{such_as}, or read today's zones with {REFRESH}"


def _refuses(
    shape: Shape, settings: ComputeSettings, spec: TrainingSpec, model: ProvisioningModel | None
) -> tuple[str, str] | None:
    """What no boot image or flex-start can give."""
    unbootable = images.refusal(shape, settings, spec.image_name)
    if unbootable is not None:
        lacks, fix = unbootable
        return f"no boot image is known for it: it needs {lacks}", fix
    regions = settings.all_regions(Service.COMPUTE)
    zone = next((one for one in catalog.zones(shape) if region_of(one) in regions), "ZONE")
    choice = networking.choose(shape, settings, spec.num_nodes, spec.image_name, zone)
    if choice.lacks:
        return choice.lacks, choice.fix
    if model is not ProvisioningModel.FLEX_START:
        return None
    if spec.num_nodes > 1 and settings.placement_policy is not None:  # as cluster-toolkit refuses it, too
        why = "several nodes in Google's flex-start queue take no placement policy"
        return why, "leave placement_policy out, or take another provisioning_model"
    if spec.max_run_duration > LONGEST_FLEX_START:
        return (
            "flex-start VMs run for 7 days at most",
            "max_run_duration='7d', and resume from the checkpoint",
        )
    return None


def questions(
    access: GoogleClient, wanted: Sequence[Candidate], *, has_advice: bool
) -> dict[str, Callable[[], Any]]:
    """What to ask about candidates beside their quotas: machines in zones, and advice where it is wanted."""
    asked: dict[str, Callable[[], Any]] = {}
    for one in wanted:
        if shape_of(one, Service.COMPUTE).is_attached:
            asked[_ACCELERATORS] = lambda: _accelerators(access)
        else:
            asked[_MACHINES] = lambda: _machines(access)
    advised = [one for one in wanted if has_advice and one.provisioning_model in ADVISED]
    for key, one in list({_advice_key(one): one for one in advised}.items())[:MOST_ADVICE]:
        asked[key] = partial(_ask_advice, access, one, shape_of(one, Service.COMPUTE))
    return asked


def fact(one: Candidate, snapshot: QuotaSnapshot, found: Mapping[str, Found]) -> Fact:
    """What was told of a candidate."""
    shape = shape_of(one, Service.COMPUTE)
    model = one.provisioning_model or ProvisioningModel.STANDARD
    region = region_of(one.place)
    status = snapshot.status(shape, one.num_nodes, model, region, reservation=one.reservation)
    is_reserved = zone_of(one.reservation or "") == one.place
    machine = _look(shape, one.place, found, is_reserved=is_reserved)
    held_why, held_note = in_reservation(one, shape, one.place, found)
    advised = found.get(_advice_key(one)) if one.provisioning_model in ADVISED else None
    return Fact(
        verdict=status.verdict,
        readings=status.readings,
        obtainability=advised.value if advised else None,
        absent_why=machine.absent_why or held_why,
        availability=machine.told_by,
        note="; ".join(filter(None, [_note(status, snapshot, machine), held_note])),
    )


def _note(status: QuotaStatus, snapshot: QuotaSnapshot, machine: _Look) -> str:
    """What could not be read; in a reservation, why no quota counts."""
    if machine.unread and status.note == snapshot.note:
        return grouped({**snapshot.unread, **machine.unread})
    return "; ".join(filter(None, [status.note, grouped(machine.unread)]))


@attrs.frozen(kw_only=True)
class _Look:
    """Whether a zone has a machine: who says so, and why not."""

    told_by: str
    absent_why: str = ""
    unread: Mapping[str, str] = {}


def _look(shape: Shape, zone: str, found: Mapping[str, Found], *, is_reserved: bool = False) -> _Look:
    key, name = (
        (_ACCELERATORS, shape.gpu.accelerator_type) if shape.is_attached else (_MACHINES, shape.machine_type)
    )
    told = found[key]
    names = told.value.names(zone) if isinstance(told.value, ZonalList) else None
    if names is None:
        why = in_short(told.error) if told.error else f"{zone} is left out"
        dated = catalog.listed_in(shape)
        if zone not in catalog.zones(shape) and not is_reserved:
            absent = f"no table says which zones of {region_of(zone)} have {name}; {REFRESH} reads them"
            return _Look(told_by="", absent_why=absent, unread={f"{key}.aggregatedList": why})
        table = f"the catalog's table of zones ({dated.key}, {dated.dated})"
        return _Look(told_by=table, unread={f"{key}.aggregatedList": why})
    by = f"{key}.aggregatedList, {told.read_at:%Y-%m-%d %H:%M} UTC"
    return _Look(told_by=by, absent_why="" if name in names else f"{zone} has no {name} ({by})")


def _machines(access: GoogleClient) -> ZonalList:
    """Every machine type with GPUs built in, by zone.

    That a zone lists a GPU does not say that it has the machine: a3-megagpu-8g exists in 13 regions, its GPU
    is listed in 20 (catalog sources machine-regions and accelerator-regions).
    """
    series = sorted({one.machine_type.partition("-")[0] for one in catalog.machines() if one.gpu})
    return list_all_zones(access, _MACHINES, fields="name", wanted=f'name eq "({"|".join(series)})-.*"')


def _accelerators(access: GoogleClient) -> ZonalList:
    """Every NVIDIA GPU, by zone: what can be attached to N1 machines there."""
    return list_all_zones(access, _ACCELERATORS, fields="name", wanted='name eq "nvidia-.*"')


def _advice_key(one: Candidate) -> str:
    """What tells one piece of advice from another."""
    return f"advice {one.place} {one.machine_type} {one.gpu_count} {one.num_nodes} {one.provisioning_model}"


def _ask_advice(access: GoogleClient, one: Candidate, shape: Shape) -> float | None:
    """The chance from 0 to 1 that all the machines of a candidate can be had now; None: no such answer.

    Raises:
        AccessError, RequestError, TransientError, ...: as Compute Engine answers.
    """
    base = f"{access.url(Api.COMPUTE)}/compute/v1/projects/{access.project}"
    body = access.post(
        f"{base}/regions/{region_of(one.place)}/advice/capacity",
        action=f"ask for advice on {one.place}",
        json=_question(one, shape),
        policy=GLANCE,
    )
    told = mappings(body.get("recommendations"))
    found = [mapping(one.get("scores")).get("obtainability") for one in told]
    chances = [float(chance) for chance in found if isinstance(chance, (int, float)) and 0 <= chance <= 1]
    return max(chances, default=None)


def _question(one: Candidate, shape: Shape) -> dict[str, Any]:
    assert one.provisioning_model is not None, "advice is on what is sold"
    selection: dict[str, Any] = {"machineTypes": [one.machine_type]}
    if shape.is_attached:
        kind = f"zones/{one.place}/acceleratorTypes/{shape.gpu.accelerator_type}"
        selection["guestAccelerators"] = [{"acceleratorType": kind, "acceleratorCount": shape.api_gpu_count}]
    return {
        "size": one.num_nodes,
        "instanceProperties": {"scheduling": {"provisioningModel": MODELS[one.provisioning_model]}},
        "instanceFlexibilityPolicy": {"instanceSelections": {"wanted": selection}},
        "distributionPolicy": {"targetShape": "ANY_SINGLE_ZONE", "zones": [{"zone": f"zones/{one.place}"}]},
    }
