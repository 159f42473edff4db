"""Reservations of machines: which there are, and whether a job fits into one."""

from __future__ import annotations

import re
from collections.abc import Mapping, Sequence
from typing import Any

import attrs

from gputrain.gcp.api import Access
from gputrain.gcp.forms import mapping, mappings, whole_number
from gputrain.gcp.labels import filter_text
from gputrain.gcp.places import aggregated

_NAME = re.compile(
    r"(?:projects/(?P<project>[^/]+)/(?:zones/(?P<zone>[^/]+)/)?reservations/)?(?P<short>[^/]+)"
    r"(?P<block>/reservationBlocks/[^/]+(?:/reservationSubBlocks/[^/]+)?)?"
)
"""A reservation as people name it: by its name, or in full; of A4 and A3 Ultra a block of it too."""

_FIELDS = (
    "name,status,specificReservationRequired,"
    "specificReservation(count,inUseCount,instanceProperties(machineType,guestAccelerators))"
)


@attrs.frozen(kw_only=True)
class Reservation:
    """A reservation as its project sees it; None: not told, or of a kind that is told in another way."""

    zone: str
    status: str = ""
    machine_type: str | None = None
    accelerator: tuple[str, int] | None = None
    """What is attached to each machine."""
    free: int | None = None
    """Machines that nobody uses."""
    is_specific: bool = True
    """False: any VM of that shape may take its machines, whoever names it or not."""

    def why_not(self, machine_type: str, accelerator: tuple[str, int] | None, machines: int) -> str:
        """Why a job cannot run in it; empty: nothing says so."""
        if self.machine_type not in (None, machine_type):
            return f"it holds {self.machine_type}"
        if self.machine_type and self.accelerator != accelerator:
            held = f"{self.accelerator[1]} x {self.accelerator[0]}" if self.accelerator else "no GPUs"
            return f"its machines have {held} attached"
        if self.status not in ("", "READY"):
            return f"it is {self.status}"
        if self.free is not None and self.free < machines:
            return f"{self.free} of the {machines} machines needed are free"
        return ""


def judged(
    listed: Sequence[Reservation],
    name: str,
    zone: str,
    machine_type: str,
    accelerator: tuple[str, int] | None,
    machines: int,
) -> tuple[str, str]:
    """Why a job cannot run in the reservation of a name (empty: it can), and what else to know. Pure.

    Args:
        listed: what `read` found.
        accelerator: what must be attached to each machine, and how many; None: nothing.
    """
    here = next((one for one in listed if one.zone == zone), None)
    if here is None:
        zones = ", ".join(sorted(one.zone for one in listed))
        return f"reservation {name} " + (f"is in {zones}" if zones else "does not exist"), ""
    why = here.why_not(machine_type, accelerator, machines)
    if why:
        return f"reservation {name}: {why}", ""
    if not here.is_specific:  # Google: "can not be targeted as specificReservationRequired is not set"
        return f"reservation {name} is open to any VM: it cannot be named, reservation='any' takes it", ""
    return "", ""


def project_of(name: str, default: str) -> str:
    """The project in a reservation's full name; ``default`` where the name is short.

    >>> project_of("projects/p/zones/z/reservations/r", "mine"), project_of("r", "mine")
    ('p', 'mine')
    """
    found = _NAME.fullmatch(name)
    return (found["project"] if found else None) or default


def zone_of(name: str) -> str:
    """The zone in a reservation's full name; empty where it names none, as ``any`` does.

    >>> zone_of("projects/p/zones/z/reservations/r"), zone_of("any")
    ('z', '')
    """
    found = _NAME.fullmatch(name)
    return (found["zone"] if found else None) or ""


def in_a_vm(name: str) -> str:
    """A reservation as Compute Engine's ``reservationAffinity`` takes it, which has no zone in it.

    >>> in_a_vm("projects/p/zones/z/reservations/r/reservationBlocks/b"), in_a_vm("r")
    ('projects/p/reservations/r/reservationBlocks/b', 'r')

    Source: compute v1, ReservationAffinity.values, and "Consume a reserved instance", read 2026-11-22.
    """
    found = _NAME.fullmatch(name)
    if found is None or not found["project"]:
        return name
    return f"projects/{found['project']}/reservations/{found['short']}{found['block'] or ''}"


def read(access: Access, name: str) -> tuple[Reservation, ...] | None:
    """The reservations of a name, one a zone at most; None where the list is not whole.

    Raises:
        AccessError, TransientError, ...: as Compute Engine answers.
    """
    parts = _NAME.fullmatch(name)
    short, project = parts["short"] if parts else name, project_of(name, access.project)
    found = aggregated(
        access, "reservations", fields=_FIELDS, wanted=f"name = {filter_text(short)}", project=project
    )
    zone = zone_of(name)
    listed = tuple(
        _reservation(place, one)
        for place, many in found.items.items()
        for one in many
        if one.get("name") == short and zone in ("", place)
    )
    return listed if listed or found.listing.is_whole else None


def _reservation(zone: str, body: Mapping[str, Any]) -> Reservation:
    held = mapping(body.get("specificReservation"))
    properties = mapping(held.get("instanceProperties"))
    attached = mappings(properties.get("guestAccelerators"))
    machine_type = properties.get("machineType")
    count, used = whole_number(held.get("count")), whole_number(held.get("inUseCount", 0))
    return Reservation(
        zone=zone,
        status=str(body.get("status", "")),
        machine_type=str(machine_type).rpartition("/")[2] if machine_type else None,
        accelerator=_attached(attached[0]) if attached else None,
        free=None if count is None or used is None else count - used,
        is_specific=bool(body.get("specificReservationRequired", False)),
    )


def _attached(one: Mapping[str, Any]) -> tuple[str, int]:
    kind = str(one.get("acceleratorType", "")).rpartition("/")[2]
    return kind, whole_number(one.get("acceleratorCount")) or 0
