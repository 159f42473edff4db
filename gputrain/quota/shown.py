"""`Quotas`: how a project stands, as a table that shows itself."""

from __future__ import annotations

from collections.abc import Iterable, Iterator, Sequence
from itertools import chain
from typing import Any

import attrs

from gputrain import catalog
from gputrain.catalog import ProvisioningModel, Service, Shape
from gputrain.fields import refused
from gputrain.quota.book import Book
from gputrain.quota.values import Reading, Standing, Verdict, contradictions
from gputrain.spec import GpuRequest
from gputrain.tables import Shown, Table
from gputrain.times import picked

_COLUMNS = (
    "backend",
    "GPU",
    "model",
    "region",
    "limit",
    "in use",
    "need",
    "verdict",
    "quota",
    "told by",
    "note",
)


@attrs.frozen(kw_only=True, repr=False)
class Quotas(Shown):
    """How jobs of some sizes stand with the quotas of one project, one `Standing` each.

    It shows itself as a table: in a terminal, in a notebook, and by ``print``.
    """

    standings: tuple[Standing, ...]
    unread: tuple[str, ...] = ()
    """What could not be read, and why."""

    def __iter__(self) -> Iterator[Standing]:
        return iter(self.standings)

    def __len__(self) -> int:
        return len(self.standings)

    def __repr__(self) -> str:
        return f"<Quotas: {len(self)} rows, {len(self.unread)} not read>"

    def __add__(self, other: Quotas) -> Quotas:
        unread = tuple(dict.fromkeys([*self.unread, *other.unread]))
        return Quotas(standings=(*self.standings, *other.standings), unread=unread)

    @property
    def is_blind(self) -> bool:
        """True where there is something to tell and nothing of it could be read."""
        return len(self) > 0 and all(one.verdict is Verdict.UNKNOWN for one in self)

    @property
    def table(self) -> Table:
        """One row a standing: the figures that decided, who told them, and what the other API says."""
        rows = list(_rows(self.standings))
        times = [reading.read_at for one in self for reading in one.readings if reading.read_at]
        caption = [f"read at {min(times):%Y-%m-%d %H:%M:%S} UTC"] if times else []
        caption += [f"not read: {one}" for one in self.unread]
        right = ("limit", "in use", "need")
        return Table(title="Quotas", columns=_COLUMNS, rows=rows, right=right, caption="; ".join(caption))

    def to_dicts(self) -> list[dict[str, Any]]:
        """The standings in JSON types, with all their readings; a limit of -1 is none, as Google writes."""
        return [_as_json(one) for one in self.standings]


def quotas(
    book: Book,
    service: Service,
    *,
    gpus: Sequence[GpuRequest] = (),
    num_nodes: int = 1,
    models: Sequence[ProvisioningModel] = (),
    regions: Sequence[str],
) -> Quotas:
    """How jobs stand in some regions: of the GPUs asked for, or of the smallest machine of every kind.

    Args:
        book: what was read.
        service: whose machines.
        gpus: kinds, each with its count a node; empty: all.
        num_nodes: machines a job.
        models: provisioning models; empty: all that count against a quota.
        regions: where, in this order; those that the catalog lists for a GPU.
    """
    found = tuple(
        book.standing(shape, num_nodes, model, region)
        for shape, model in _sizes(service, gpus)
        if not models or model in models
        for region in regions
        if region in catalog.regions(shape, service)
    )
    return Quotas(standings=found, unread=book.remedies)


def check_regions(regions: Sequence[str]) -> None:
    """Raise SpecError for what is no region of Google Cloud: a zone, most often."""
    wrong = tuple(one for one in regions if not one[-1:].isdigit())
    if wrong:
        fix = f"region={catalog.region_of(wrong[0])!r}; a zone has a letter more"
        raise refused("region", wrong[0], "a region of Google Cloud", fix)


def _sizes(service: Service, gpus: Sequence[GpuRequest]) -> Iterator[tuple[Shape, ProvisioningModel]]:
    """What to ask for: the first machine of each request or kind that is sold under each model."""
    asked = [catalog.shapes(one.kind, one.count, service=service) for one in gpus]
    listed = asked if gpus else [catalog.shapes(service=service)]  # smallest counts first
    seen: set[object] = set()
    for shape in chain.from_iterable(listed):
        for model in shape.sold_as(service):
            key = (shape.gpu.kind, shape.gpu_count if gpus else None, model)
            if key not in seen and model is not ProvisioningModel.RESERVATION_BOUND:
                seen.add(key)
                yield shape, model


def _rows(standings: Iterable[Standing]) -> Iterator[tuple[str, ...]]:
    """One row for all provisioning models that count against the same quotas."""
    merged: dict[object, list[Standing]] = {}
    for one in standings:
        key = (one.service, one.gpu, one.gpus, one.region, one.readings)
        merged.setdefault(key, []).append(one)
    for same in merged.values():
        yield _row(same[0], ", ".join(one.provisioning_model.value for one in same))


def _row(one: Standing, models: str) -> tuple[str, ...]:
    decided = one.deciding
    head = (one.service.value, f"{one.gpus} x {one.gpu}", models, one.region)
    if decided is None:
        return (*head, "", "", "", one.verdict.value, "", "", one.note)
    source = decided.source.value if decided.source else ""
    metric = decided.metric.rpartition("/")[2] + (f", {decided.where}" if decided.where != one.region else "")
    figures = (figure(decided.limit), figure(decided.usage), figure(decided.need))
    note = "; ".join(filter(None, [decided.note, *_disagreements(one.readings)]))
    return (*head, *figures, one.verdict.value, metric, source, note)


def _disagreements(readings: Iterable[Reading]) -> Iterator[str]:
    """What each API says where two contradict each other: both are shown."""
    for group in contradictions(tuple(readings)):
        words = (f"{one.source.value if one.source else '?'} says {figure(one.limit)}" for one in group)
        yield f"{group[0].metric}: {', '.join(words)}"


def figure(value: float | None) -> str:
    """A limit or usage for people: nothing where nobody told it."""
    if value is None:
        return "?"
    return "no limit" if value == float("inf") else f"{value:.15g}"


def _as_json(one: Standing) -> dict[str, Any]:
    decided = one.deciding
    return {
        **picked(one, "service gpu gpus provisioning_model region verdict note"),
        **dict.fromkeys(("metric", "limit", "usage", "need")),
        **({} if decided is None else {**picked(decided, "metric need"), **_figures(decided)}),
        "readings": [
            {**picked(one, "metric where need verdict source read_at quota_id note"), **_figures(one),
             "counts": one.is_gate}
            for one in one.readings
        ],
    }  # fmt: skip


def _figures(one: Reading) -> dict[str, float | None]:
    return {"limit": _number(one.limit), "usage": _number(one.usage)}


def _number(value: float | None) -> float | None:
    return -1 if value == float("inf") else value
