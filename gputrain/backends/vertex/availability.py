"""What Google tells of candidates before a job is made: Vertex AI's own quotas, and reservations.

Vertex AI publishes neither which regions train on which GPU nor what capacity there is: for the former the
catalog's dated table stands, the latter is met when the job is made. Compute Engine's quotas do not count.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence

from gputrain import catalog
from gputrain.backends.google import in_reservation, reservation_questions, shape_of
from gputrain.catalog import ProvisioningModel, Service
from gputrain.catalog.places import listed_in
from gputrain.gcp import Access
from gputrain.gcp.shared import Found
from gputrain.planning import Candidate, Fact
from gputrain.quota.book import Book
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
        found = self._access.looks.ask(
            {**self._reader.questions(), **reservation_questions(self._access, wanted)}
        )
        book = self._reader.book(found)
        return {one: _fact(one, book, found) for one in wanted}


def _fact(one: Candidate, book: Book, found: Mapping[str, Found]) -> Fact:
    model = one.provisioning_model or ProvisioningModel.STANDARD
    shape = shape_of(one, Service.VERTEX)
    standing = book.standing(shape, one.num_nodes, model, one.place, is_reserved=bool(one.reservation))
    zone = one.reservation.split("/")[3] if one.reservation else ""
    absent_why, held_note = in_reservation(one, shape, zone, found)
    if zone and catalog.region_of(zone) != one.place:
        absent_why, held_note = f"reservation {one.reservation} is in {zone}", ""
    return Fact(
        verdict=standing.verdict,
        readings=standing.readings,
        absent_why=absent_why,
        availability=f"the catalog's table of Vertex AI's regions ({listed_in(shape, Service.VERTEX).dated})",
        note="; ".join(filter(None, [standing.note, held_note])),
    )
