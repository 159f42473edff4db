"""All that was read of one service's quotas in one minute, and what it means for any job. No calls."""

from __future__ import annotations

import math
from collections.abc import Callable, Iterator, Mapping, Sequence
from typing import Any

import attrs

from gputrain.catalog import ANY_RESERVATION, PREEMPTIBLE_CPUS, ProvisioningModel, Service, Shape
from gputrain.errors import ApiDisabledError, AuthError, GputrainError, PermissionDeniedError
from gputrain.gcp.errors import UnclearError
from gputrain.gcp.forms import mappings, texts
from gputrain.gcp.shared import Found
from gputrain.quota.targets import Count, counts
from gputrain.quota.values import EVERYWHERE, LimitSource, Reading, Standing, Verdict

UNLIMITED = -1


Figures = tuple["float | None", "float | None"]
"""Limit and usage."""
_COUNTED_BEFORE = "machines of a reservation were counted when it was made"


@attrs.frozen(kw_only=True)
class DimensionsRow:
    """One row of ``dimensionsInfos``: the places it speaks for, and their limit."""

    dimensions: Mapping[str, str]
    locations: frozenset[str]
    limit: float | None
    """None where the row has no value that can be read."""

    def speaks_for(self, wanted: Mapping[str, str]) -> bool:
        """Whether the row covers the place: its dimensions are the wanted ones, or some of them."""
        if any(wanted.get(name) != value for name, value in self.dimensions.items()):
            return False
        region = wanted.get("region")
        if region is None or "region" in self.dimensions or not self.locations:
            return True
        return bool(self.locations & {region, "global"})


def rows(info: Mapping[str, Any]) -> tuple[DimensionsRow, ...]:
    """The rows of a QuotaInfo as far as they can be read; what has another form than Google's is left out."""
    return tuple(_rows(info.get("dimensionsInfos")))


def limit_at(found: Sequence[DimensionsRow], wanted: Mapping[str, str]) -> float | None:
    """The limit in effect: every row is looked at, and the most specific that speaks for the place wins.

    None where no row does: unknown, not 0.

    >>> info = {"dimensionsInfos": [
    ...     {"details": {"value": "8"}, "applicableLocations": ["us-east1"]},
    ...     {"details": {}, "dimensions": {"region": "us-east1", "gpu_family": "NVIDIA_H100"}},
    ... ]}
    >>> limit_at(rows(info), {"region": "us-east1", "gpu_family": "NVIDIA_H100"})
    0.0
    """
    speaking = [row for row in found if row.speaks_for(wanted)]
    best = max(speaking, key=lambda row: len(row.dimensions), default=None)
    return None if best is None else best.limit


def number(value: Any) -> float | None:
    """A limit or usage as Google writes it, a number or its text; -1 is unlimited; None: not a number."""
    if isinstance(value, bool) or not isinstance(value, (int, float, str)):
        return None
    try:
        found = float(value)
    except (ValueError, OverflowError):
        return None
    if not math.isfinite(found) or found < UNLIMITED:  # NaN is no figure, nor is a debt
        return None
    return float("inf") if found == UNLIMITED else found


def _rows(listed: Any) -> Iterator[DimensionsRow]:
    for one in mappings(listed):
        dimensions = one.get("dimensions", {})
        if not isinstance(dimensions, dict):
            continue
        locations = frozenset(texts(one.get("applicableLocations")))
        yield DimensionsRow(dimensions=dimensions, locations=locations, limit=_limit(one.get("details")))


def _limit(details: Any) -> float | None:
    """The value of a row: a zero is not printed, as everywhere in proto3's JSON (inferred, 2026-11-20)."""
    return number(details.get("value", 0)) if isinstance(details, dict) else None


class Book:
    """What was told, by source; a lookup is a few dictionary reads, and each standing is worked out once.

    Args:
        project, service: whose quotas.
        told: by source, what its question found.
    """

    def __init__(self, project: str, service: Service, told: Mapping[LimitSource, Found]) -> None:
        self.project = project
        self.service = service
        self._told = told
        self.unread: Mapping[str, str] = {
            source.value: in_short(found.error) for source, found in told.items() if found.error
        }
        """The sources that could not be read, and why."""
        self.note = grouped(self.unread)
        """The same in a line; empty: all were read."""
        self._rows: dict[str, tuple[DimensionsRow, ...]] = {}
        self._standings: dict[Any, Standing] = {}
        self._readers: dict[LimitSource, Callable[[Count], Figures | None]] = {
            LimitSource.REGIONS: self._in_a_region,
            LimitSource.PROJECT: self._in_the_project,
            LimitSource.CLOUD_QUOTAS: self._in_cloud_quotas,
        }

    def standing(
        self,
        shape: Shape,
        num_nodes: int,
        model: ProvisioningModel,
        region: str,
        *,
        reservation: str | None = None,
    ) -> Standing:
        """How a job of ``num_nodes`` such machines stands with the quotas of a region."""
        key = (shape.gpu.kind, shape.gpu_count, shape.machine_type, num_nodes, model, region, reservation)
        if key not in self._standings:
            self._standings[key] = self._standing(shape, num_nodes, model, region, reservation)
        return self._standings[key]

    @property
    def remedies(self) -> tuple[str, ...]:
        """What could not be read, why, and what mends it: a line for each cause."""
        found: dict[tuple[str, str], list[str]] = {}
        for source, one in self._told.items():
            if one.error:
                fix = "" if isinstance(one.error, UnclearError) else one.error.fix  # its fix is for writes
                found.setdefault((in_short(one.error), fix), []).append(source.value)
        return tuple(
            f"{', '.join(names)}: {why}" + (f" ({fix})" if fix else "") for (why, fix), names in found.items()
        )

    def _standing(
        self, shape: Shape, num_nodes: int, model: ProvisioningModel, region: str, reservation: str | None
    ) -> Standing:
        is_bound = model is ProvisioningModel.RESERVATION_BOUND
        is_reserved = is_bound or reservation not in (None, ANY_RESERVATION)
        found = () if is_reserved else counts(shape, num_nodes, model, self.service, region)
        readings = tuple(reading for count in found for reading in self._readings(count))
        gpus = shape.api_gpu_count * num_nodes
        if not found and not is_reserved:
            readings = (self._unnamed(shape.gpu.kind, gpus, region),)
        if reservation == ANY_RESERVATION:  # which may have room, or not
            readings = tuple(map(_doubted, readings))
        return Standing(
            service=self.service,
            gpu=shape.gpu.kind,
            gpus=gpus,
            provisioning_model=model,
            region=region,
            readings=readings,
            note=_COUNTED_BEFORE if is_reserved else self.note,
        )

    def _readings(self, count: Count) -> Iterator[Reading]:
        """What each source told of it; one that says unknown, and why, where none told anything."""
        told = [
            self._reading(count, source, figures)
            for source, read in self._readers.items()
            if (figures := read(count)) is not None
        ]
        yield from told
        if count.is_gate and not told:
            yield attrs.evolve(self._blank(count), note=self._why_unknown(count))

    def _reading(self, count: Count, source: LimitSource, figures: Figures) -> Reading:
        limit, usage = figures
        found = attrs.evolve(
            self._blank(count), limit=limit, usage=usage, source=source, read_at=self._told[source].read_at
        )
        if count.quota is PREEMPTIBLE_CPUS and limit == 0:
            # A project that never asked for any may count Spot VMs against CPUS: unverified, so no block.
            return attrs.evolve(found, limit=None, note="0 may mean that they count against CPUS instead")
        return found

    def _blank(self, count: Count) -> Reading:
        return Reading(
            metric=count.quota.name,
            where=count.where,
            need=count.need,
            quota_id=count.quota.quota_id or "",
            api=count.quota.api,
            dimensions=tuple(count.dimensions.items()),
            project=self.project,
            is_gate=count.is_gate,
        )

    def _unnamed(self, kind: str, gpus: int, region: str) -> Reading:
        note = "no quota is known by name"
        return Reading(metric=f"GPUs: {kind}", where=region, need=gpus, project=self.project, note=note)

    def _why_unknown(self, count: Count) -> str:
        asked = [LimitSource.CLOUD_QUOTAS] if count.quota.quota_id else []
        if count.quota.metric and self.service is Service.COMPUTE:
            asked.insert(0, LimitSource.PROJECT if count.where == EVERYWHERE else LimitSource.REGIONS)
        untold = "does not tell it"
        return grouped({source.value: self.unread.get(source.value, untold) for source in asked})

    def _in_a_region(self, count: Count) -> Figures | None:
        found: Figures | None = self._value(LimitSource.REGIONS).get((count.quota.metric, count.where))
        return found

    def _in_the_project(self, count: Count) -> Figures | None:
        if count.where != EVERYWHERE:
            return None
        found: Figures | None = self._value(LimitSource.PROJECT).get(count.quota.metric)
        return found

    def _in_cloud_quotas(self, count: Count) -> Figures | None:
        ident = count.quota.quota_id or ""
        if ident not in self._rows:
            self._rows[ident] = rows(self._value(LimitSource.CLOUD_QUOTAS).get(ident, {}))
        limit = limit_at(self._rows[ident], count.dimensions)
        return None if limit is None else (limit, None)

    def _value(self, source: LimitSource) -> Mapping[Any, Any]:
        found = self._told.get(source)
        return found.value if found and found.value is not None else {}


def _doubted(reading: Reading) -> Reading:
    """What is short does not count where a reservation has room."""
    if reading.verdict is not Verdict.SHORT:
        return reading
    figures = f"{reading.limit:g}, of which {reading.usage or 0:g} are used"
    return attrs.evolve(reading, limit=None, note=f"{figures}: enough where a reservation has room")


def grouped(reasons: Mapping[str, str]) -> str:
    """Names and their reasons in a line, those of one reason together.

    >>> grouped({"regions.list": "no answer", "projects.get": "no answer", "Cloud Quotas": "switched off"})
    'regions.list, projects.get: no answer; Cloud Quotas: switched off'
    """
    names: dict[str, list[str]] = {}
    for name, why in reasons.items():
        names.setdefault(why, []).append(name)
    return "; ".join(f"{', '.join(listed)}: {why}" for why, listed in names.items())


def in_short(error: GputrainError) -> str:
    """Why something could not be read, in a few words for a cell of a table."""
    if isinstance(error, ApiDisabledError):
        return "the API is switched off"
    if isinstance(error, PermissionDeniedError):
        return f"no permission {error.permission}".rstrip()
    if isinstance(error, AuthError):
        return "no usable credentials"
    if isinstance(error, UnclearError):
        return f"nobody answers at {error.unreached}" if error.unreached else "no usable answer"
    return error.what.partition(": ")[2] or error.what
