"""What Google tells of candidates before anything is made: quotas, machines in zones, reservations, advice.

All questions of a plan are asked side by side, once a minute at most, and none is waited for longer than a
few seconds. What is not answered is unknown, and the catalog's dated table stands in for it.
"""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from typing import Any

import attrs

from gputrain import catalog
from gputrain.backends.compute import advice
from gputrain.backends.google import in_reservation, reservation_questions, shape_of
from gputrain.catalog import ProvisioningModel, Service, Shape, region_of
from gputrain.catalog.places import listed_in
from gputrain.gcp import Access
from gputrain.gcp.places import InZones, aggregated
from gputrain.gcp.shared import Found
from gputrain.planning import Candidate, Fact
from gputrain.quota import Standing
from gputrain.quota.book import Book, grouped, in_short
from gputrain.quota.reader import Reader

_MACHINES, _ACCELERATORS = "machineTypes", "acceleratorTypes"


class ZoneAvailability:
    """Answers for the candidates of one `Access`, for all its threads."""

    def __init__(self, access: Access, regions: Sequence[str], *, capacity_advice: bool) -> None:
        self._access = access
        self._has_advice = capacity_advice
        self._reader = Reader(access, Service.COMPUTE, regions)
        self.corrected, self.quotas = self._reader.corrected, self._reader.quotas

    def facts(self, wanted: Sequence[Candidate]) -> dict[Candidate, Fact]:
        """A fact for every candidate."""
        if not wanted:
            return {}
        found = self._access.looks.ask({**self._reader.questions(), **self._questions(wanted)})
        book = self._reader.book(found)
        return {one: self._fact(one, book, found) for one in wanted}

    def _questions(self, wanted: Sequence[Candidate]) -> dict[str, Callable[[], Any]]:
        access = self._access
        asked = reservation_questions(access, wanted)
        for one in wanted:
            if shape_of(one, Service.COMPUTE).is_attached:
                asked[_ACCELERATORS] = lambda: _accelerators(access)
            else:
                asked[_MACHINES] = lambda: _machines(access)
        if self._has_advice:
            asked |= self._advice(wanted)
        return asked

    def _advice(self, wanted: Sequence[Candidate]) -> dict[str, Callable[[], Any]]:
        asked: dict[str, Callable[[], Any]] = {}
        for one in wanted:
            if one.provisioning_model in advice.MODELS and len(asked) < advice.MOST:
                asked[advice.key(one)] = lambda one=one: advice.ask(  # type: ignore[misc]
                    self._access, one, shape_of(one, Service.COMPUTE)
                )
        return asked

    def _fact(self, one: Candidate, book: Book, found: Mapping[str, Found]) -> Fact:
        shape = shape_of(one, Service.COMPUTE)
        model = one.provisioning_model or ProvisioningModel.STANDARD
        standing = book.standing(
            shape, one.num_nodes, model, region_of(one.place), is_reserved=bool(one.reservation)
        )
        machine = _look(shape, one.place, found)
        held_why, held_note = in_reservation(one, shape, one.place, found)
        advised = found.get(advice.key(one)) if one.provisioning_model in advice.MODELS else None
        return Fact(
            verdict=standing.verdict,
            readings=standing.readings,
            obtainability=advised.value if advised else None,
            absent_why=machine.absent_why or held_why,
            availability=machine.told_by,
            note="; ".join(filter(None, [_note(standing, book, machine), held_note])),
        )


def _note(standing: Standing, book: Book, machine: _Look) -> str:
    """What could not be read; in a reservation, why no quota counts."""
    if machine.unread and standing.note == book.note:
        return grouped({**book.unread, **machine.unread})
    return "; ".join(filter(None, [standing.note, grouped(machine.unread)]))


@attrs.frozen(kw_only=True)
class _Look:
    """Whether a zone has a machine: who says so, and why not."""

    told_by: str
    absent_why: str = ""
    unread: Mapping[str, str] = {}


def _look(shape: Shape, zone: str, found: Mapping[str, Found]) -> _Look:
    key, name = (
        (_ACCELERATORS, shape.gpu.accelerator_type) if shape.is_attached else (_MACHINES, shape.machine_type)
    )
    told = found[key]
    names = told.value.names(zone) if isinstance(told.value, InZones) else None
    if names is None:
        why = in_short(told.error) if told.error else f"{zone} is left out"
        dated = listed_in(shape)
        table = f"the catalog's table of zones ({dated.key}, {dated.dated})"
        return _Look(told_by=table, unread={f"{key}.aggregatedList": why})
    by = f"{key}.aggregatedList, {told.read_at:%Y-%m-%d %H:%M} UTC"
    return _Look(told_by=by, absent_why="" if name in names else f"{zone} has no {name} ({by})")


def _machines(access: Access) -> InZones:
    """Every machine type with GPUs built in, by zone.

    That a zone lists a GPU does not say that it has the machine: a3-megagpu-8g exists in 13 regions, its GPU
    is listed in 20 (catalog sources machine-regions and accelerator-regions).
    """
    series = sorted({one.machine_type.partition("-")[0] for one in catalog.machines() if one.gpu})
    return aggregated(access, _MACHINES, fields="name", wanted=f'name eq "({"|".join(series)})-.*"')


def _accelerators(access: Access) -> InZones:
    """Every NVIDIA GPU, by zone: what can be attached to N1 machines there."""
    return aggregated(access, _ACCELERATORS, fields="name", wanted='name eq "nvidia-.*"')
