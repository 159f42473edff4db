"""`Quotas`: whether a project's quotas are enough, as a table that shows itself."""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from itertools import chain
from typing import Any

import attrs

from gputrain import catalog
from gputrain.catalog import ProvisioningModel, Service, Shape
from gputrain.display.table import Table, TableDisplay, as_cell
from gputrain.fields import invalid
from gputrain.quota.model import QuotaReading, QuotaStatus, Verdict, contradictions
from gputrain.spec import GpuRequest
from gputrain.times import picked

_COLUMNS = (
    "backend", "GPU", "model", "region", "limit", "in use", "need", "verdict", "quota", "source", "note",
)  # fmt: skip


@attrs.frozen(kw_only=True, repr=False)
class Quotas(TableDisplay):
    """Whether the quotas of one project are enough for jobs of some sizes, one `QuotaStatus` each.

    It shows itself as a table: in a terminal, in a notebook, and by ``print``.
    """

    statuses: tuple[QuotaStatus, ...]
    unread: tuple[str, ...] = ()
    """What could not be read, and why."""

    def __iter__(self) -> Iterator[QuotaStatus]:
        return iter(self.statuses)

    def __len__(self) -> int:
        return len(self.statuses)

    def __repr__(self) -> str:
        return f"<Quotas: {len(self)} rows, {len(self.unread)} not read>"

    def __add__(self, other: Quotas) -> Quotas:
        unread = tuple(dict.fromkeys([*self.unread, *other.unread]))
        return Quotas(statuses=(*self.statuses, *other.statuses), unread=unread)

    @property
    def is_blind(self) -> bool:
        """True where there are rows and all of them are unknown."""
        return len(self) > 0 and all(one.verdict is Verdict.UNKNOWN for one in self)

    @property
    def table(self) -> Table:
        """A row shows the figures that decided; models that count against the same quotas share one."""
        models: dict[tuple[str, ...], list[str]] = {}
        for one in self:
            models.setdefault(_row(one), []).append(one.provisioning_model.value)
        times = [reading.read_at for one in self for reading in one.readings if reading.read_at]
        caption = [f"read at {min(times):%Y-%m-%d %H:%M:%S} UTC"] if times else []
        return Table(
            title="Quotas",
            columns=_COLUMNS,
            rows=[(*row[:2], ", ".join(sold), *row[2:]) for row, sold in models.items()],
            right=("limit", "in use", "need"),
            caption="; ".join([*caption, *(f"not read: {one}" for one in self.unread)]),
        )

    def to_dicts(self) -> list[dict[str, Any]]:
        """The rows in JSON types, with all their readings; a limit of -1 is none, as Google writes."""
        return [_as_json(one) for one in self]


def check_regions(regions: Sequence[str]) -> None:
    """Raise SpecError for what is no region of Google Cloud: a zone, most often."""
    wrong = tuple(one for one in regions if not one[-1:].isdigit())
    if wrong:
        fix = f"region={catalog.region_of(wrong[0])!r}; a zone has a letter more"
        raise invalid("region", wrong[0], "a region of Google Cloud", fix)


def sizes(service: Service, gpus: Sequence[GpuRequest]) -> Iterator[tuple[Shape, ProvisioningModel]]:
    """The first machine of each request or kind that is sold under each model."""
    asked = [catalog.shapes(one.kind, one.count, service=service) for one in gpus]
    listed = asked if gpus else [catalog.shapes(service=service)]  # smallest counts first
    seen: set[object] = set()
    for shape in chain.from_iterable(listed):
        for model in shape.sold_as(service):
            key = (shape.gpu.kind, shape.gpu_count if gpus else None, model)
            if key not in seen and model is not ProvisioningModel.RESERVATION_BOUND:
                seen.add(key)
                yield shape, model


def _row(one: QuotaStatus) -> tuple[str, ...]:
    """All cells but the provisioning model's."""
    decided, head = one.deciding, (one.service.value, f"{one.gpus} x {one.gpu}", one.region)
    if decided is None:
        return (*head, "", "", "", one.verdict.value, "", "", one.note)
    metric = decided.metric.rpartition("/")[2] + (f", {decided.where}" if decided.where != one.region else "")
    figures = (figure(decided.limit), figure(decided.usage), figure(decided.need))
    notes = [decided.note]
    for group in contradictions(one.readings):
        said = ", ".join(f"{as_cell(each.source)} says {figure(each.limit)}" for each in group)
        notes.append(f"{group[0].metric}: {said}")
    note = "; ".join(filter(None, notes))
    return (*head, *figures, one.verdict.value, metric, as_cell(decided.source), note)


def figure(value: float | None) -> str:
    """A limit or usage for people: ``?`` where it is unknown."""
    return "?" if value is None else "no limit" if value == float("inf") else f"{value:.15g}"


def _as_json(one: QuotaStatus) -> dict[str, Any]:
    readings = [
        {**picked(each, "metric where need verdict source read_at quota_id note"), **_figures(each),
         "counts": each.is_gate}
        for each in one.readings
    ]  # fmt: skip
    decided = one.deciding
    return {
        **picked(one, "service gpu gpus provisioning_model region verdict note"),
        **dict.fromkeys(("metric", "limit", "usage", "need")),
        **({} if decided is None else {**picked(decided, "metric need"), **_figures(decided)}),
        "readings": readings,
    }


def _figures(one: QuotaReading) -> dict[str, float | None]:
    pairs = {"limit": one.limit, "usage": one.usage}
    return {name: -1 if value == float("inf") else value for name, value in pairs.items()}
