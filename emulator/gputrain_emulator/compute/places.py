"""Projects, regions, zones, and what they sell."""

from __future__ import annotations

import threading
import zlib
from collections.abc import Callable, Hashable, Sequence
from typing import Any

from gputrain_emulator import facts, partial
from gputrain_emulator.call import Call, Reply
from gputrain_emulator.compute import filters, refusals
from gputrain_emulator.compute.links import link
from gputrain_emulator.compute.state import COMPUTE, Compute
from gputrain_emulator.quotas import GLOBAL, GLOBAL_METRICS, REGIONAL_METRICS, Key

_MOST_BYTES = 24 << 20
"""What is kept of them; an aggregated page takes a third of a megabyte."""
_lock = threading.Lock()
_kept: dict[Hashable, Reply] = {}
"""By project, path, query and the cloud's own offers; the oldest are forgotten for the newest."""


def page(call: Call, make: Callable[[], dict[str, Any]]) -> Reply:
    """The answer to a call; ``make`` is asked for the document where it is not kept."""
    here = call.world.part(Compute)
    query = sorted((name, *values) for name, values in call.query_all.items())
    key = (call.owner.id, call.path, *query, frozenset(here.offers.items()), *here.new_machines.values())
    if (reply := _kept.get(key)) is None:
        with _lock:
            _kept[key] = reply = partial.render(Reply(body=make()), call.query_all)
            while sum(len(one.body) for one in _kept.values()) > _MOST_BYTES:
                del _kept[next(iter(_kept))]
    return reply


Json = dict[str, Any]
Place = Callable[[Call, str], Json]

_CREATED = "1969-12-31T16:00:00.000-08:00"
"""What Google prints for places, which nobody created."""


def _document(kind: str, path: str, **more: Any) -> Json:
    return {
        "kind": f"compute#{kind}",
        "id": str(zlib.crc32(path.partition("/")[2].partition("/")[2].encode()) + 1000),
        "creationTimestamp": _CREATED,
        "name": path.rpartition("/")[2],
        "selfLink": link(path),
        **more,
    }


def _quota(compute: Compute, project: str, metric: str, region: str) -> Json:
    key = Key(project=project, metric=metric, region=region)
    return {"metric": metric, "limit": compute.quotas.limit(key), "usage": compute.quotas.usage(key)}


def _regional_metrics() -> list[str]:
    metrics = list(REGIONAL_METRICS)
    for names in facts.gpu_quotas().values():
        if names.regional_metric:
            metrics.append(names.regional_metric)
        if names.preemptible_in_regions_get:
            metrics.append(names.preemptible_metric)
    return metrics


@COMPUTE.method("compute.projects.get", pool="compute.reads")
def get_project(call: Call) -> Json:
    """The project with its global quotas."""
    project = call.owner
    quotas = [_quota(call.world.part(Compute), project.id, metric, GLOBAL) for metric in GLOBAL_METRICS]
    return {
        "kind": "compute#project",
        "id": project.number,
        "creationTimestamp": _CREATED,
        "name": project.id,
        "commonInstanceMetadata": {"kind": "compute#metadata", "fingerprint": "AAAAAAAAAAA="},
        "quotas": quotas,
        "selfLink": link(f"projects/{project.id}"),
        "xpnProjectStatus": "UNSPECIFIED_XPN_PROJECT_STATUS",
        "defaultServiceAccount": f"{project.number}-compute@developer.gserviceaccount.com",
    }


def _region(call: Call, region: str) -> Json:
    compute, project = call.world.part(Compute), call.owner.id
    zones = [
        link(f"projects/{project}/zones/{zone}") for zone in facts.zones() if facts.region_of(zone) == region
    ]
    quotas = [_quota(compute, project, metric, region) for metric in _regional_metrics()]
    return _document(
        "region",
        f"projects/{project}/regions/{region}",
        description=region,
        status="UP",
        zones=zones,
        quotas=quotas,
    )


def _zone(call: Call, zone: str) -> Json:
    region = link(f"projects/{call.owner.id}/regions/{facts.region_of(zone)}")
    return _document(
        "zone", f"projects/{call.owner.id}/zones/{zone}", description=zone, status="UP", region=region
    )


def _register_places(collection: str, kind: str, names: Callable[[], Sequence[str]], make: Place) -> None:
    """get and list of regions or zones."""

    @COMPUTE.method(f"compute.{collection}.get", pool="compute.reads")
    def get(call: Call) -> Json:
        if call.params[kind] not in names():
            raise refusals.not_found(f"projects/{call.owner.id}/{collection}/{call.params[kind]}")
        return make(call, call.params[kind])

    @COMPUTE.method(f"compute.{collection}.list", pool="compute.reads")
    def list_(call: Call) -> Json:
        items = [make(call, name) for name in names()]
        name = f"projects/{call.owner.id}/{collection}"
        return filters.listing(call, kind, name, items)


_register_places("regions", "region", facts.regions, _region)
_register_places("zones", "zone", facts.zones, _zone)


def _machine(project: str, zone: str, machine: facts.Machine) -> Json:
    path = f"projects/{project}/zones/{zone}/machineTypes/{machine.name}"
    document = _document(
        "machineType",
        path,
        guestCpus=machine.vcpus,
        memoryMb=machine.memory_mib,
        zone=zone,
        isSharedCpu=False,
        architecture=machine.arch,
        description=f"{machine.vcpus} vCPUs, {machine.memory_mib // 1024} GB RAM",
        imageSpaceGb=0,
        maximumPersistentDisks=128,
        maximumPersistentDisksSizeGb="263168",
    )
    if machine.accelerator:
        kind = {"guestAcceleratorType": machine.accelerator, "guestAcceleratorCount": machine.gpus}
        document["accelerators"] = [kind]
    return document


def _accelerator(project: str, zone: str, kind: str) -> Json:
    path = f"projects/{project}/zones/{zone}/acceleratorTypes/{kind}"
    most = max(
        [m.gpus for m in facts.machines().values() if m.accelerator == kind]
        + [count for name, count in facts.attach_limits() if name == kind],
        default=8,
    )
    zone_link = link(f"projects/{project}/zones/{zone}")
    return _document("acceleratorType", path, description=kind, zone=zone_link, maximumCardsPerInstance=most)


def _machines_in(compute: Compute, project: str, zone: str) -> list[Json]:
    return [_machine(project, zone, machine) for machine in compute.listed_machines(zone)]


def _accelerators_in(compute: Compute, project: str, zone: str) -> list[Json]:
    new = (machine.accelerator for machine in compute.new_machines.values())
    kinds = dict.fromkeys((*facts.accelerator_zones(), *new))
    return [_accelerator(project, zone, kind) for kind in kinds if compute.has_accelerator(kind, zone)]


_SOLD = {
    "machineTypes": ("machineType", "machine_type", _machines_in),
    "acceleratorTypes": ("acceleratorType", "accelerator_type", _accelerators_in),
}


def _register(collection: str) -> None:
    kind, parameter, sold_in = _SOLD[collection]

    @COMPUTE.method(f"compute.{collection}.get", pool="compute.reads")
    def get(call: Call) -> Reply:
        compute, name, zone = call.world.part(Compute), call.params[parameter], call.params["zone"]

        def make() -> Json:
            for one in sold_in(compute, call.owner.id, zone):
                if one["name"] == name:
                    return one
            raise refusals.not_found(f"projects/{call.owner.id}/zones/{zone}/{collection}/{name}")

        return page(call, make)

    @COMPUTE.method(f"compute.{collection}.list", pool="compute.reads")
    def list_(call: Call) -> Reply:
        zone, compute = call.params["zone"], call.world.part(Compute)
        if zone not in facts.zones():
            raise refusals.invalid("zone", zone, f"Unknown zone '{zone}'.")

        def make() -> Json:
            name = f"projects/{call.owner.id}/zones/{zone}/{collection}"
            items = sold_in(compute, call.owner.id, zone)
            return filters.listing(call, kind, name, items)

        return page(call, make)

    @COMPUTE.method(f"compute.{collection}.aggregatedList", permission=f"compute.{collection}.list", pool="compute.heavy_reads")  # fmt: skip  # noqa: E501
    def aggregated(call: Call) -> Reply:
        project, compute = call.owner.id, call.world.part(Compute)

        def make() -> Json:
            items = [one for zone in facts.zones() for one in sold_in(compute, project, zone)]
            return filters.aggregated(call, kind, items)

        return page(call, make)


for _collection in _SOLD:
    _register(_collection)
