"""Lists of Compute Engine over all zones, and the reservations among them."""

from __future__ import annotations

import re
from collections.abc import Mapping, Sequence
from typing import Any
from urllib.parse import quote

import attrs

from gputrain.google.client import GoogleClient
from gputrain.google.endpoints import Api
from gputrain.google.forms import (
    PARTIAL_WARNINGS,
    Json,
    Listing,
    mapping,
    mappings,
    missing_of,
    whole_number,
)
from gputrain.google.labels import filter_text
from gputrain.retry import SOON, Policy

NO_ITEMS = "the list has no items"
"""Missing from a list that names no zone at all: Compute Engine names every zone, also the empty ones."""
_EMPTY = "NO_RESULTS_ON_PAGE"

_NAME = re.compile(
    r"(?:projects/(?P<project>[^/]+)/(?:zones/(?P<zone>[^/]+)/)?reservations/)?(?P<short>[^/]+)"
    r"(?P<block>/reservationBlocks/[^/]+(?:/reservationSubBlocks/[^/]+)?)?"
)
"""A reservation as people name it: by its name, or in full; of A4 and A3 Ultra a block of it too."""

_RESERVATION = (
    "name,status,specificReservationRequired,"
    "specificReservation(count,inUseCount,instanceProperties(machineType,guestAccelerators))"
)


@attrs.frozen(kw_only=True, eq=False)
class ZonalList:
    by_zone: Mapping[str, tuple[Json, ...]]
    """What was read of each zone; of a zone in ``missing`` there may be more."""
    missing: tuple[str, ...]
    """Zones that could not be read, or a code where Google names none."""

    def names(self, zone: str) -> frozenset[str] | None:
        """The names of what a zone has; None: not known."""
        if zone not in self.by_zone or {zone, NO_ITEMS, *PARTIAL_WARNINGS} & {*self.missing}:
            return None
        return frozenset(str(one.get("name")) for one in self.by_zone[zone])

    @property
    def listing(self) -> Listing[Json]:
        return Listing(tuple(one for held in self.by_zone.values() for one in held), self.missing)


def list_all_zones(
    access: GoogleClient,
    collection: str,
    *,
    fields: str,
    wanted: str = "",
    project: str = "",
    policy: Policy = SOON,
) -> ZonalList:
    """All that a filter takes of a collection (``machineTypes``), by zone."""
    base = f"{access.url(Api.COMPUTE)}/compute/v1/projects/{quote(project or access.project, safe=':')}"
    params = {
        "filter": wanted,
        "maxResults": "500",
        "returnPartialSuccess": "true",  # one zone that is down must not hide the others
        "fields": f"items/*/{collection}({fields}),items/*/warning/code,"
        "nextPageToken,unreachables,warning/code",
    }
    listing = access.list_all(
        f"{base}/aggregated/{collection}", action=f"list the {collection}", params=params, policy=policy,
        read=lambda body: _zones(body, collection),
    )  # fmt: skip
    by_zone: dict[str, tuple[Json, ...]] = {}
    for zone, held in listing.items:
        by_zone[zone] = (*by_zone.get(zone, ()), *held)
    named = tuple(one for one in listing.missing if one != NO_ITEMS and one not in PARTIAL_WARNINGS)
    return ZonalList(by_zone=by_zone, missing=named or listing.missing)


def _zones(body: Json, collection: str) -> tuple[list[tuple[str, tuple[Json, ...]]], list[str]]:
    """What one page holds of each zone, and what it lacks."""
    found, missing = [], [*missing_of(body)]
    for scope, value in mapping(body.get("items")).items():
        zone, part = scope.removeprefix("zones/"), mapping(value)
        code = str(mapping(part.get("warning")).get("code"))
        if code in PARTIAL_WARNINGS or (collection not in part and code != _EMPTY):
            missing.append(zone)
        found.append((zone, mappings(part.get(collection))))
    if not found and not missing:
        missing.append(NO_ITEMS)
    return found, missing


@attrs.frozen(kw_only=True)
class Reservation:
    """A reservation as its project sees it. None: Google does not tell, or the kind has no such field."""

    zone: str
    status: str = ""
    machine_type: str | None = None
    accelerator: tuple[str, int] | None = None
    """What is attached to each machine."""
    free: int | None = None
    """Machines that are not in use."""
    is_specific: bool = True
    """False: any VM of that shape may take its machines."""


def check_fit(
    listed: Sequence[Reservation],
    name: str,
    zone: str,
    machine_type: str,
    accelerator: tuple[str, int] | None,
    machines: int,
) -> str:
    """Why a job cannot run in the reservation of a name, of which ``listed`` was found; empty: it can."""
    here = next((one for one in listed if one.zone == zone), None)
    if here is None:
        zones = ", ".join(sorted(one.zone for one in listed))
        return f"reservation {name} is in {zones}" if zones else f"reservation {name} does not exist"
    why = ""
    if here.machine_type not in (None, machine_type):
        why = f"it holds {here.machine_type}"
    elif here.machine_type and here.accelerator != accelerator:
        held = f"{here.accelerator[1]} x {here.accelerator[0]}" if here.accelerator else "no GPUs"
        why = f"its machines have {held} attached"
    elif here.status not in ("", "READY"):
        why = f"it is {here.status}"
    elif here.free is not None and here.free < machines:
        why = f"{here.free} of the {machines} machines needed are free"
    if why:
        return f"reservation {name}: {why}"
    if not here.is_specific:  # Google: "can not be targeted as specificReservationRequired is not set"
        return f"reservation {name} is open to any VM: it cannot be named, reservation='any' takes it"
    return ""


def _parts(name: str) -> dict[str, str]:
    found = _NAME.fullmatch(name)
    return {key: text or "" for key, text in found.groupdict().items()} if found else {"short": name}


def zone_of(name: str) -> str:
    """The zone in a reservation's full name; empty where it names none, as ``any`` does."""
    return _parts(name).get("zone", "")


def affinity_value(name: str) -> str:
    """A reservation as Compute Engine's ``reservationAffinity`` takes it, which has no zone in it.

    >>> affinity_value("projects/p/zones/z/reservations/r/reservationBlocks/b")
    'projects/p/reservations/r/reservationBlocks/b'

    Source: compute v1, ReservationAffinity.values, and "Consume a reserved instance", read 2026-11-22.
    """
    parts = _parts(name)
    if not parts.get("project"):
        return name
    return f"projects/{parts['project']}/reservations/{parts['short']}{parts['block']}"


def find_reservations(access: GoogleClient, name: str) -> tuple[Reservation, ...] | None:
    """The reservations of a name, one a zone at most; None where the list may lack one."""
    parts = _parts(name)
    found = list_all_zones(
        access, "reservations", fields=_RESERVATION, wanted=f"name = {filter_text(parts['short'])}",
        project=parts.get("project") or access.project,
    )  # fmt: skip
    listed = tuple(
        _reservation(zone, one)
        for zone, held in found.by_zone.items()
        for one in held
        if one.get("name") == parts["short"] and parts.get("zone", "") in ("", zone)
    )
    return None if found.missing and not listed else listed


def _reservation(zone: str, body: Mapping[str, Any]) -> Reservation:
    held = mapping(body.get("specificReservation"))
    properties = mapping(held.get("instanceProperties"))
    machine_type = str(properties.get("machineType") or "").rpartition("/")[2]
    attached = [
        (str(one.get("acceleratorType")).rpartition("/")[2], whole_number(one.get("acceleratorCount")) or 0)
        for one in mappings(properties.get("guestAccelerators"))
    ]
    count, used = whole_number(held.get("count")), whole_number(held.get("inUseCount", 0))
    return Reservation(
        zone=zone,
        status=str(body.get("status", "")),
        machine_type=machine_type or None,
        accelerator=attached[0] if attached else None,
        free=None if count is None or used is None else count - used,
        is_specific=bool(body.get("specificReservationRequired", False)),
    )
