"""What Compute Engine sells to a project by the catalog, what it cannot honour, and what it tells beforehand.

All questions of a plan are asked side by side, once a minute at most, and none is waited for longer than a
few seconds. What is not answered is unknown, and the catalog's dated table stands in for it.

Google's capacity advice says how likely machines are available in a zone now. Which machines and models the
server answers for is not written down (read 2026-11-20), so what it refuses is unknown, and
`ComputeEngine(capacity_advice=False)` never asks.
"""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from datetime import timedelta
from functools import partial
from typing import Any

from gputrain import catalog
from gputrain.backends.compute import images, networking
from gputrain.backends.compute.settings import NAME, ComputeSettings
from gputrain.backends.google import in_reservation, shape_of
from gputrain.backends.limits import LIMITS, folders, words
from gputrain.catalog import FLEX_START_LONGEST_RUN_S, Price, ProvisioningModel, Service, Shape, region_of
from gputrain.google import Api, GoogleClient
from gputrain.google.cache import Found
from gputrain.google.compute_lists import ZonalList, list_all_zones, zone_of
from gputrain.google.forms import mapping, mappings
from gputrain.planning import Candidate, Fact, Offer, Supply
from gputrain.quota.model import grouped, in_short
from gputrain.quota.reader import QuotaSnapshot
from gputrain.retry import GLANCE
from gputrain.spec import TrainingSpec

LONGEST_FLEX_START = timedelta(seconds=FLEX_START_LONGEST_RUN_S)
MOST_NODES = 1000
"""VMs in one bulkInsert. Source: compute v1 documentation, read 2026-11-20."""

MOST_METADATA = 262_144
"""Bytes of one value; the job is one, its supervisor another, and all together are less than 512 KB.

Source: compute v1, ``Metadata``, read 2026-11-23.
"""
_OURS, _A_NAME = 32_768, 70
"""Bytes that are left to what else stands there, and to each VM's name."""

_MACHINES, _ACCELERATORS = "machineTypes", "acceleratorTypes"
REFRESH = "python -m gputrain.catalog.refresh"
MOST_ADVICE = 6
"""Zones that are asked about for one plan, the first in its order: a call each."""
ADVISED = (ProvisioningModel.SPOT, ProvisioningModel.FLEX_START)


def supply(settings: ComputeSettings) -> Supply:
    """Every shape with GPUs in the zones of the allowed regions, in the order of the regions."""
    return Supply(
        backend=NAME,
        offers=tuple(_offer(shape, settings) for shape in catalog.shapes(service=Service.COMPUTE)),
        limits=(
            *LIMITS,
            *words(
                "VMs read their job from their metadata, where 256 KiB are allowed",
                lambda spec: MOST_METADATA - _OURS - _A_NAME * spec.num_nodes,
            ),
            *folders(settings.bucket, "a folder of a VM is gone when the VM is", "gs://"),
        ),
        find_gpu=catalog.find,
        regions=settings.named_regions,
    )


def _offer(shape: Shape, settings: ComputeSettings) -> Offer:
    regions = settings.all_regions(Service.COMPUTE)
    sold = [region for region in catalog.regions(shape) if catalog.possible_zones(shape, region)]
    such_as = f" such as {', '.join(sold[:3])}" if sold else ""

    def reserved_in(spec: TrainingSpec) -> str:
        zone = zone_of(spec.reservation or "")
        return zone if region_of(zone) in regions else ""

    def price_of(place: str, model: ProvisioningModel | None) -> Price | None:
        return None if model is None else catalog.price(shape, region_of(place), model)

    return Offer(
        gpu=shape.gpu.kind,
        gpu_count=shape.gpu_count,
        machine_type=shape.machine_type,
        provisioning_models=shape.sold_as(Service.COMPUTE),
        places=tuple(zone for region in regions for zone in catalog.possible_zones(shape, region)),
        places_fix=f"allow more regions{such_as}, or read today's zones with {REFRESH}",
        reserved_in=reserved_in,
        price_of=price_of,
        region_of=region_of,
        max_nodes=MOST_NODES,
        network_of=lambda spec: networking.network(shape, settings, spec.num_nodes, spec.image_name),
        refuses=partial(_refuses, shape, settings),
    )


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
    access: GoogleClient, settings: ComputeSettings, wanted: Sequence[Candidate]
) -> dict[str, Callable[[], Any]]:
    """What to ask about candidates beside their quotas: machines in zones, and advice where it is wanted."""
    asked: dict[str, Callable[[], Any]] = {}
    for one in wanted:
        kind = _ACCELERATORS if shape_of(one, Service.COMPUTE).is_attached else _MACHINES
        asked[kind] = partial(_listed, access, kind)
    advised = [one for one in wanted if settings.capacity_advice and one.provisioning_model in ADVISED]
    for key, one in list({_advice_key(one): one for one in advised}.items())[:MOST_ADVICE]:
        asked[key] = partial(_ask_advice, access, one, shape_of(one, Service.COMPUTE))
    return asked


def fact(one: Candidate, snapshot: QuotaSnapshot, found: Mapping[str, Found]) -> Fact:
    """What was answered about a candidate."""
    shape = shape_of(one, Service.COMPUTE)
    model = one.provisioning_model or ProvisioningModel.STANDARD
    status = snapshot.status(shape, one.num_nodes, model, region_of(one.place), reservation=one.reservation)
    availability, absent_why, unread = _machine_in(one, shape, found)
    held_why, held_note = in_reservation(one, shape, one.place, found)
    advised = found.get(_advice_key(one)) if one.provisioning_model in ADVISED else None
    note = "; ".join(filter(None, [status.note, *grouped(unread)]))  # in a reservation, why no quota counts
    if unread and status.note == snapshot.note:
        note = "; ".join(grouped({**snapshot.unread, **unread}))
    return Fact(
        verdict=status.verdict,
        readings=status.readings,
        obtainability=advised.value if advised else None,
        absent_why=absent_why or held_why,
        availability=availability,
        note="; ".join(filter(None, [note, held_note])),
    )


def _machine_in(
    one: Candidate, shape: Shape, found: Mapping[str, Found]
) -> tuple[str, str, Mapping[str, str]]:
    """Who says whether the zone has the machine, why it has none, and what could not be read."""
    is_attached, zone = shape.is_attached, one.place
    key = _ACCELERATORS if is_attached else _MACHINES
    name = shape.gpu.accelerator_type if is_attached else shape.machine_type
    answer = found[key]
    names = answer.value.names(zone) if isinstance(answer.value, ZonalList) else None
    if names is not None:
        by = f"{key}.aggregatedList, {answer.read_at:%Y-%m-%d %H:%M} UTC"
        return by, "" if name in names else f"{zone} has no {name} ({by})", {}
    why = in_short(answer.error) if answer.error else f"{zone} is left out"
    unread, dated = {f"{key}.aggregatedList": why}, catalog.listed_in(shape)
    if zone not in catalog.zones(shape) and zone_of(one.reservation or "") != zone:
        absent = f"no table says which zones of {region_of(zone)} have {name}; {REFRESH} reads them"
        return "", absent, unread
    return f"the catalog's table of zones ({dated.key}, {dated.dated})", "", unread


def _listed(access: GoogleClient, kind: str) -> ZonalList:
    """Every machine type with GPUs built in, by zone; or every NVIDIA GPU, which can be attached to N1.

    That a zone lists a GPU does not say that it has the machine: a3-megagpu-8g exists in 13 regions, its GPU
    is listed in 20 (catalog sources machine-regions and accelerator-regions).
    """
    series = sorted({one.machine_type.partition("-")[0] for one in catalog.machines() if one.gpu})
    names = f"({'|'.join(series)})-.*" if kind == _MACHINES else "nvidia-.*"
    return list_all_zones(access, kind, fields="name", wanted=f'name eq "{names}"')


def _advice_key(one: Candidate) -> str:
    """What tells one piece of advice from another."""
    return f"advice {one.place} {one.machine_type} {one.gpu_count} {one.num_nodes} {one.provisioning_model}"


def _ask_advice(access: GoogleClient, one: Candidate, shape: Shape) -> float | None:
    """The chance from 0 to 1 that all the machines of a candidate can be had now; None: no such answer.

    Raises:
        AccessError, RequestError, TransientError, ...: as Compute Engine answers.
    """
    assert one.provisioning_model is not None, "advice is on what is sold"
    zone, selection = f"zones/{one.place}", dict[str, Any](machineTypes=[one.machine_type])
    if shape.is_attached:
        kind, count = f"{zone}/acceleratorTypes/{shape.gpu.accelerator_type}", shape.api_gpu_count
        selection["guestAccelerators"] = [{"acceleratorType": kind, "acceleratorCount": count}]
    base = f"{access.url(Api.COMPUTE)}/compute/v1/projects/{access.project}"
    body = access.post(
        f"{base}/regions/{region_of(one.place)}/advice/capacity",
        action=f"ask for advice on {one.place}",
        json={
            "size": one.num_nodes,
            "instanceProperties": {"scheduling": {"provisioningModel": one.provisioning_model.name}},
            "instanceFlexibilityPolicy": {"instanceSelections": {"wanted": selection}},
            "distributionPolicy": {"targetShape": "ANY_SINGLE_ZONE", "zones": [{"zone": zone}]},
        },
        policy=GLANCE,
    )
    scores = [
        mapping(one.get("scores")).get("obtainability") for one in mappings(body.get("recommendations"))
    ]
    chances = [float(chance) for chance in scores if isinstance(chance, (int, float)) and 0 <= chance <= 1]
    return max(chances, default=None)
