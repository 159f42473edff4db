"""What Google tells of candidates before a job is made: Vertex AI's own quotas, and reservations.

Vertex AI publishes neither which regions train on which GPU nor what capacity there is: for the former the
catalog's dated table stands, the latter is met when the job is made. Compute Engine's quotas do not count.
"""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from functools import lru_cache
from typing import Any

from gputrain import catalog
from gputrain.catalog import ProvisioningModel, Service, Shape
from gputrain.catalog.places import listed_in
from gputrain.gcp import Access, reservations
from gputrain.gcp.shared import Found
from gputrain.planning import Candidate, Fact
from gputrain.quota.book import Book, in_short
from gputrain.quota.reader import Reader


class RegionAvailability:
    """Answers for the candidates of one `Access`, for all its threads."""

    def __init__(self, access: Access, regions: Sequence[str]) -> None:
        self._access = access
        self._reader = Reader(access, Service.VERTEX, regions)
        self.corrected, self.quotas = self._reader.corrected, self._reader.quotas

    def facts(self, wanted: Sequence[Candidate]) -> dict[Candidate, Fact]:
        """A fact for every candidate."""
        if not wanted:
            return {}
        found = self._access.looks.ask({**self._reader.questions(), **self._reservations(wanted)})
        book = self._reader.book(found)
        return {one: _fact(one, book, found) for one in wanted}

    def _reservations(self, wanted: Sequence[Candidate]) -> dict[str, Callable[[], Any]]:
        names = dict.fromkeys(one.reservation for one in wanted if one.reservation)
        return {
            _reserved(name): lambda name=name: reservations.read(self._access, name)  # type: ignore[misc]
            for name in names
        }


def _fact(one: Candidate, book: Book, found: Mapping[str, Found]) -> Fact:
    model = one.provisioning_model or ProvisioningModel.STANDARD
    shape, table = _known(one.gpu, one.gpu_count, one.machine_type)
    standing = book.standing(shape, one.num_nodes, model, one.place, is_reserved=bool(one.reservation))
    absent_why, held_note = _in_reservation(one, shape, found)
    return Fact(
        verdict=standing.verdict,
        readings=standing.readings,
        absent_why=absent_why,
        availability=table,
        note="; ".join(filter(None, [standing.note, held_note])),
    )


@lru_cache(maxsize=1024)
def _known(gpu: str | None, count: Any, machine_type: str) -> tuple[Shape, str]:
    """The catalog's row for a candidate, and where its places were read."""
    shape = catalog.shapes(gpu, count, machine_type=machine_type, service=Service.VERTEX)[0]
    dated = listed_in(shape, Service.VERTEX).dated
    return shape, f"the catalog's table of Vertex AI's regions ({dated})"


def _in_reservation(one: Candidate, shape: Shape, found: Mapping[str, Found]) -> tuple[str, str]:
    """Why the reservation named does not carry the job, and what is not known of it."""
    if not one.reservation:
        return "", ""
    told = found[_reserved(one.reservation)]
    if told.value is None:
        return "", f"reservation: {in_short(told.error) if told.error else 'the list is not whole'}"
    attached = (shape.gpu.accelerator_type, shape.api_gpu_count) if shape.is_attached else None
    zone = one.reservation.split("/")[3]
    if catalog.region_of(zone) != one.place:
        return f"reservation {one.reservation} is in {zone}", ""
    return reservations.judged(told.value, one.reservation, zone, one.machine_type, attached, one.num_nodes)


def _reserved(name: str) -> str:
    return f"reservation {name}"
