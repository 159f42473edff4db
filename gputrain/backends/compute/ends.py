"""What follows when VMs end: a cancel that all see, another start, and the sweeping of what nobody needs."""

from __future__ import annotations

import logging
from collections.abc import Callable, Mapping, Sequence
from typing import Any

import attrs

from gputrain import catalog
from gputrain.backends.base import Orphan
from gputrain.backends.compute.calls import Calls, ours
from gputrain.backends.compute.gang import Gangs
from gputrain.backends.compute.look import SHORTEST_RESTART_S, Looks
from gputrain.backends.compute.official import Json
from gputrain.backends.compute.record import Record, Records
from gputrain.catalog import Price, ProvisioningModel
from gputrain.errors import CapacityError, GputrainError, QuotaExceededError, TransientError
from gputrain.gcp import LABEL_JOB, Access, Api, PreconditionError
from gputrain.gcp.ways_out import NoWayOutError
from gputrain.planning import Supply
from gputrain.retry import WRITE, retried

log = logging.getLogger("gputrain")

AGAIN_S = 60.0
"""Between two tries to find room for an interrupted job; meanwhile another process may be at it."""

_MODELS = {
    "STANDARD": ProvisioningModel.STANDARD,
    "SPOT": ProvisioningModel.SPOT,
    "FLEX_START": ProvisioningModel.FLEX_START,
    "RESERVATION_BOUND": ProvisioningModel.RESERVATION_BOUND,
}


def mark_cancelled(access: Access, records: Records, job_id: str) -> None:
    """Leave the word that the guests and every watcher look for; twice is once."""
    url = f"{access.url(Api.STORAGE)}/upload/storage/v1/b/{records.bucket.name}/o"
    name = records.objects(job_id).cancel
    params = {"uploadType": "media", "name": name, "ifGenerationMatch": "0"}
    try:
        retried(
            lambda: access.rest("POST", url, action=f"cancel {job_id}", params=params, data=b"cancelled"),
            policy=WRITE,
            sleep=access.sleep,
        )
    except PreconditionError:
        log.debug("%s was cancelled before", job_id)


def zones(record: Record, supply: Supply) -> tuple[str, ...]:
    """Where an interrupted job may start again: where it was, then wherever its machine is.

    A reservation is of one zone, a placement policy of one region.
    """
    asked = record.order["properties"]
    if asked["reservationAffinity"]["consumeReservationType"] == "SPECIFIC_RESERVATION":
        return (record.zone,)
    offers = (one for one in supply.offers if one.machine_type == asked["machineType"])
    places = dict.fromkeys([record.zone, *(place for one in offers for place in one.places)])
    home = catalog.region_of(record.zone)
    is_bound = bool(asked.get("resourcePolicies"))
    return tuple(place for place in places if not is_bound or catalog.region_of(place) == home)


def resume(
    gangs: Gangs,
    looks: Looks,
    record: Record,
    places: Sequence[str],
    check: Callable[[Mapping[str, Any]], None],
) -> bool:
    """Make the next attempt of an interrupted job, in the first zone with room; whether this call did.

    Whoever writes the record goes first; others see it and do nothing.

    Args:
        places: the zones where it may go, in order.
        check: raises AccessError for an order whose VMs would reach nothing.
    """
    if not record.ids and gangs.calls.access.now() < record.asked_at + AGAIN_S:
        return False
    if record.ids:
        record = _next(gangs, looks, record)
    queue = list(places)
    while queue:
        zone = queue.pop(0)
        wanted = attrs.evolve(record, order=_in_zone(record.order, zone), asked_at=gangs.calls.access.now())
        if not _is_affordable(wanted):
            continue
        try:
            check(wanted.order)
            record = gangs.records.write(wanted)
            gangs.make(record)
            return True
        except PreconditionError:
            return False
        except CapacityError as full:
            hinted = [one for one in full.zones_available if one in queue]
            queue = [*hinted, *(one for one in queue if one not in hinted)]
            log.info("no room to restart %s in %s: %s", record.job_id, zone, full.what)
        except (NoWayOutError, QuotaExceededError) as refused:
            region = catalog.region_of(zone)
            queue = [one for one in queue if catalog.region_of(one) != region]
            log.info("%s cannot start again in %s: %s", record.job_id, region, refused.what)
    return False


def _next(gangs: Gangs, looks: Looks, record: Record) -> Record:
    """The record of the attempt after this one, of which nothing is left."""
    nodes = looks.joined(record, looks.nodes(record, {}))
    spent = record.spent(looks.ran_s(record, nodes))
    gangs.clear(record)
    return attrs.evolve(spent, attempt=record.attempt + 1, ids={})


def _is_affordable(record: Record) -> bool:
    """Whether what is left of its budget buys a minute in its zone."""
    if record.order["max_cost"] is not None and record.order["price_usd_h"] is None:
        log.info("%s does not go to %s: what that costs is unknown", record.job_id, record.zone)
        return False
    return record.left_s >= SHORTEST_RESTART_S


def orphans(calls: Calls, records: Records, looks: Looks) -> tuple[Orphan, ...]:
    """Our VMs of all zones whose job has ended, is at another attempt, or has no record.

    Raises:
        TransientError: some zones could not be listed.
    """
    listing = calls.all_instances(ours())
    if not listing.is_whole:
        raise TransientError(
            "not every zone could be listed",
            why=", ".join(listing.left_out),
            fix="sweep again in a minute: what was not seen is left alone",
            kind="incomplete_list",
        )
    by_job: dict[str, list[Json]] = {}
    for vm in listing.items:
        by_job.setdefault(vm["labels"][LABEL_JOB], []).append(vm)
    found: list[Orphan] = []
    for job_id, vms in by_job.items():
        needed = _needed(records, looks, job_id)
        found += [_orphan(job_id, vm) for vm in vms if not _is(needed, vm)]
    return tuple(found)


def _needed(records: Records, looks: Looks, job_id: str) -> Record | None:
    """The record of a job whose present VMs must stay; None: none of its VMs must."""
    record = records.read(job_id)
    if record is None:
        return None
    try:
        seen = looks.observe(record)
    except GputrainError as error:  # what cannot be judged is not swept
        log.warning("%s could not be looked at: %s", job_id, error.what)
        return record
    return None if seen.state is not None and seen.state.is_terminal else record


def _is(record: Record | None, vm: Json) -> bool:
    """Whether a VM is one of the present attempt: by its zone, name and number, for names come again."""
    if record is None or vm["name"] not in record.names:
        return False
    is_there = _zone(vm) == record.zone
    return is_there and record.ids.get(vm["name"], vm["id"]) == vm["id"]


def _orphan(job_id: str, vm: Json) -> Orphan:
    zone = _zone(vm)
    return Orphan(name=vm["name"], place=zone, job_id=job_id, status=vm["status"], price=_price(vm, zone))


def _zone(vm: Json) -> str:
    return str(vm["zone"]).rpartition("/")[2]


def _price(vm: Mapping[str, Any], zone: str) -> Price | None:
    """Of one VM for an hour; takes Google's VMs and what they are made from."""
    machine = str(vm.get("machineType", "")).rpartition("/")[2]
    model = _MODELS.get(vm.get("scheduling", {}).get("provisioningModel", ""))
    shapes = catalog.shapes(machine_type=machine) if machine else ()
    if model is None or len(shapes) != 1:
        return None
    return catalog.price(shapes[0], catalog.region_of(zone), model)


def _in_zone(order: Mapping[str, Any], zone: str) -> dict[str, Any]:
    """The order as it is sent to another zone, at that zone's price."""
    if zone == order["zone"]:
        return dict(order)
    price = _price(order["properties"], zone)
    usd_h = price.usd_h * int(order["count"]) if price is not None and price.is_whole else None
    here, there = (f"regions/{catalog.region_of(one)}/" for one in (order["zone"], zone))
    nics = [
        {
            field: value.replace(here, there) if field == "subnetwork" else value
            for field, value in nic.items()
        }
        for nic in order["properties"]["networkInterfaces"]
    ]
    properties = {**order["properties"], "networkInterfaces": nics}
    job = {**order["job"], "zone": zone}
    return {**order, "zone": zone, "price_usd_h": usd_h, "properties": properties, "job": job}
