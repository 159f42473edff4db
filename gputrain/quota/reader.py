"""Reads the quotas of one project: three calls for Compute Engine, one for Vertex AI, for all regions.

`Quotas` is what they mean for jobs of some sizes, as a table that shows itself.
"""

from __future__ import annotations

from collections.abc import Callable, Iterator, Mapping, Sequence
from itertools import chain
from typing import Any

import attrs

from gputrain import catalog
from gputrain.catalog import ANY_RESERVATION, ProvisioningModel, Service, Shape
from gputrain.display.table import Table, TableDisplay, as_cell
from gputrain.fields import invalid
from gputrain.google import Api, GoogleClient
from gputrain.google.cache import Found
from gputrain.google.errors import UnclearError
from gputrain.google.forms import Json, mappings, number, texts
from gputrain.quota.model import (
    EVERYWHERE,
    Figures,
    LimitSource,
    QuotaReading,
    QuotaRow,
    QuotaStatus,
    Verdict,
    contradictions,
    counts,
    grouped,
    in_short,
    limit_at,
)
from gputrain.retry import SOON
from gputrain.spec import GpuRequest
from gputrain.times import picked

_HOSTS = {Service.COMPUTE: "compute.googleapis.com", Service.VERTEX: "aiplatform.googleapis.com"}
_QUOTA_FIELDS = "quotas(metric,limit,usage)"
_COLUMNS = (
    "backend", "GPU", "model", "region", "limit", "in use", "need", "verdict", "quota", "source", "note",
)  # fmt: skip


@attrs.frozen(kw_only=True, eq=False)
class QuotaReader:
    """Reads one service's quotas, at most once a minute, for all threads of one client.

    Nothing is raised for what cannot be read: it is unknown in the snapshot, which says why.
    """

    client: GoogleClient
    service: Service
    regions: Sequence[str] = ()
    disk_gib: int = 0
    """Of each machine's boot disk."""
    disk_type: str | None = None
    counted_before: str = ""
    """Why jobs of this backend count against nothing; empty: they do."""

    def read(self) -> QuotaSnapshot:
        """Everything, read now or within the last minute."""
        return self.snapshot(self.client.looks.ask(self.questions()))

    def quotas(
        self,
        gpus: Sequence[GpuRequest] = (),
        *,
        num_nodes: int = 1,
        models: Sequence[ProvisioningModel] = (),
        regions: Sequence[str] = (),
    ) -> Quotas:
        """Whether the quotas of some regions are enough, in this order; by default in the reader's.

        Args:
            gpus: kinds, each with its count a node; empty: the smallest machine of every kind.
            models: empty: all that count against a quota.
        """
        check_regions(regions)
        snapshot = self.read()
        found = tuple(
            snapshot.status(shape, num_nodes, model, region)
            for shape, model in sizes(self.service, gpus)
            if not models or model in models
            for region in regions or self.regions
            if region in catalog.regions(shape, self.service)
        )
        return Quotas(statuses=found, unread=snapshot.fixes)

    def questions(self) -> dict[str, Callable[[], Any]]:
        """The calls by their keys, to be made side by side with others of the same plan."""
        calls: dict[str, Callable[[], Any]] = {}
        if self.client.url(Api.CLOUDQUOTAS):
            calls[self._key(LimitSource.CLOUD_QUOTAS)] = self._infos
        if self.service is Service.COMPUTE:
            calls[self._key(LimitSource.REGIONS)] = self._regions
            calls[self._key(LimitSource.PROJECT)] = self._project
        return calls

    def snapshot(self, found: Mapping[str, Found]) -> QuotaSnapshot:
        """What those calls found."""
        keys = {source: self._key(source) for source in LimitSource}
        return QuotaSnapshot(
            reader=self, found={source: found[key] for source, key in keys.items() if key in found}
        )

    def _key(self, source: LimitSource) -> str:
        return f"quota {self.service.value} {source.value}"

    def _regions(self) -> dict[tuple[str, str], Figures]:
        fields = f"items(name,{_QUOTA_FIELDS}),nextPageToken,warning"
        listed = self._pages(Api.COMPUTE, "regions", "items", fields, {"maxResults": "500"})
        return {
            (metric, str(region.get("name", ""))): figures
            for region in listed
            for metric, figures in _figures(region).items()
        }

    def _project(self) -> dict[tuple[str, str], Figures]:
        url = f"{self.client.url(Api.COMPUTE)}/compute/v1/projects/{self.client.project}"
        params = {"fields": _QUOTA_FIELDS}
        read = _figures(self.client.get(url, action="read the quotas", params=params, policy=SOON))
        return {(metric, EVERYWHERE): figures for metric, figures in read.items()}

    def _infos(self) -> dict[str, tuple[QuotaRow, ...]]:
        """The rows of each quota, by its id and by its metric. Vertex AI has one quota a metric."""
        fields = "quotaInfos(quotaId,metric,dimensionsInfos,quotaIncreaseEligibility,isFixed),nextPageToken"
        path = f"locations/global/services/{_HOSTS[self.service]}/quotaInfos"
        # Google may cut a list into shorter pages than requested: one more call for each.
        listed = self._pages(Api.CLOUDQUOTAS, path, "quotaInfos", fields, {"pageSize": "1000"})
        found = {str(info["quotaId"]): rows(info) for info in listed if info.get("quotaId")}
        if self.service is Service.VERTEX:
            found |= {str(info["metric"]): rows(info) for info in listed if info.get("metric")}
        return found

    def _pages(
        self, api: Api, path: str, items: str, fields: str, size: Mapping[str, str]
    ) -> tuple[Json, ...]:
        version = "compute/v1" if api is Api.COMPUTE else "v1"
        url = f"{self.client.url(api)}/{version}/projects/{self.client.project}/{path}"
        params = {**size, "fields": fields}
        listing = self.client.list_all(url, action="read the quotas", items=items, params=params, policy=SOON)
        return listing.items  # what a partial list leaves out is unknown by itself


def _figures(place: Json) -> dict[str, Figures]:
    """Limit and usage by metric, of a region or a project; what cannot be read is left out."""
    return {
        str(one.get("metric", "")): (limit_of(one["limit"]), limit_of(one.get("usage")))
        for one in mappings(place.get("quotas"))
        if limit_of(one.get("limit")) is not None
    }


def rows(info: Mapping[str, Any]) -> tuple[QuotaRow, ...]:
    """The rows of a QuotaInfo; what has another form than Google's is left out.

    A limit of 0 is not written, as everywhere in proto3's JSON (2026-11-20).
    """
    return tuple(
        QuotaRow(
            dimensions=dimensions,
            locations=frozenset(texts(one.get("applicableLocations"))),
            limit=limit_of(details.get("value", 0)) if isinstance(details, dict) else None,
        )
        for one in mappings(info.get("dimensionsInfos"))
        if isinstance(dimensions := one.get("dimensions", {}), dict)
        for details in (one.get("details"),)
    )


def limit_of(value: Any) -> float | None:
    """A limit or usage: infinite for Google's -1; None where it is no number."""
    found = number(value)
    if found is None or found < -1:
        return None
    return float("inf") if found == -1 else found


@attrs.frozen(kw_only=True, eq=False)
class QuotaSnapshot:
    """All that was read of one service's quotas in one minute, and what it means for any job."""

    reader: QuotaReader
    found: Mapping[LimitSource, Found]
    """By source: figures by (metric, place), or rows by quota id and by metric."""

    @property
    def unread(self) -> Mapping[str, str]:
        """The sources that could not be read, and why."""
        return {source.value: in_short(one.error) for source, one in self.found.items() if one.error}

    @property
    def note(self) -> str:
        """The same in a line; empty: all were read."""
        return "; ".join(grouped(self.unread))

    @property
    def fixes(self) -> tuple[str, ...]:
        """What could not be read, why, and how to fix it: a line for each cause."""
        whys = {}
        for source, one in self.found.items():
            if one.error:
                fix = "" if isinstance(one.error, UnclearError) else one.error.fix  # its fix is for writes
                whys[source.value] = in_short(one.error) + (f" ({fix})" if fix else "")
        return grouped(whys)

    def status(
        self,
        shape: Shape,
        num_nodes: int,
        model: ProvisioningModel,
        region: str,
        *,
        reservation: str | None = None,
    ) -> QuotaStatus:
        """Whether the quotas of a region are enough for a job of ``num_nodes`` such machines.

        A job in a reservation counts against nothing. With ``any`` reservation it may not either, so a quota
        that is too small is unknown.
        """
        owned = self.reader.counted_before
        if model is ProvisioningModel.RESERVATION_BOUND or reservation not in (None, ANY_RESERVATION):
            owned = owned or "machines of a reservation were counted when it was made"
        gpus = shape.api_gpu_count * num_nodes
        readings: tuple[QuotaReading, ...] = ()
        if not owned:
            against = counts(
                shape, num_nodes, model, self.reader.service, region, disk_gib=self.reader.disk_gib,
                disk_type=self.reader.disk_type,
            )  # fmt: skip
            unnamed = QuotaReading(
                metric=f"GPUs: {shape.gpu.kind}", where=region, need=gpus, project=self.reader.client.project,
                note="no quota is known by name",
            )  # fmt: skip
            readings = tuple(one for need in against for one in self._readings(need)) or (unnamed,)
        if reservation == ANY_RESERVATION:
            readings = tuple(map(_doubted, readings))
        return QuotaStatus(
            service=self.reader.service, gpu=shape.gpu.kind, gpus=gpus, provisioning_model=model,
            region=region, readings=readings, note=owned or self.note,
        )  # fmt: skip

    def _readings(self, need: QuotaReading) -> Iterator[QuotaReading]:
        """One for each source that has a limit; where none has, one that is unknown and says why."""
        blank = attrs.evolve(need, project=self.reader.client.project)
        figures = {source: pair for source in self.found if (pair := self._figures(source, need))}
        for source, (limit, usage) in figures.items():
            note = ""
            if need.metric == "PREEMPTIBLE_CPUS" and limit == 0:
                # A project that never asked for any may count Spot VMs against CPUS: unverified, so no block.
                limit, note = None, "0 may mean that they count against CPUS instead"
            yield attrs.evolve(
                blank, limit=limit, usage=usage, source=source, read_at=self.found[source].read_at, note=note
            )
        if not figures and need.is_gate and not need.is_optional:
            listed = LimitSource.PROJECT if need.where == EVERYWHERE else LimitSource.REGIONS
            asked = [listed] * (self.reader.service is Service.COMPUTE)
            asked += [LimitSource.CLOUD_QUOTAS] * bool(need.quota_id)
            whys = {one.value: self.unread.get(one.value, "does not tell it") for one in asked}
            yield attrs.evolve(blank, note="; ".join(grouped(whys)))

    def _figures(self, source: LimitSource, need: QuotaReading) -> Figures | None:
        read: Mapping[Any, Any] = self.found[source].value or {}
        if source is not LimitSource.CLOUD_QUOTAS:
            return read.get((need.metric, need.where))
        found = read.get(need.quota_id) or read.get(need.metric) or ()
        limit = limit_at(found, dict(need.dimensions))
        return None if limit is None else (limit, None)


def _doubted(reading: QuotaReading) -> QuotaReading:
    """What is short does not count where a reservation has room."""
    if reading.verdict is not Verdict.SHORT:
        return reading
    figures = f"{reading.limit:g}, of which {reading.usage or 0:g} are used"
    return attrs.evolve(reading, limit=None, note=f"{figures}: enough where a reservation has room")


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
        {**picked(each, "metric where need verdict source read_at quota_id note"), **_limits(each),
         "counts": each.is_gate}
        for each in one.readings
    ]  # fmt: skip
    decided = one.deciding
    return {
        **picked(one, "service gpu gpus provisioning_model region verdict note"),
        **dict.fromkeys(("metric", "limit", "usage", "need")),
        **({} if decided is None else {**picked(decided, "metric need"), **_limits(decided)}),
        "readings": readings,
    }


def _limits(one: QuotaReading) -> dict[str, float | None]:
    pairs = {"limit": one.limit, "usage": one.usage}
    return {name: -1 if value == float("inf") else value for name, value in pairs.items()}
