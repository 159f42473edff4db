"""What a job counts against, what was read of it, and whether it fits. Pure."""

from __future__ import annotations

import enum
from collections.abc import Collection, Iterator, Mapping, Sequence
from datetime import datetime
from functools import cached_property
from typing import Any

import attrs

from gputrain import catalog
from gputrain.catalog import ProvisioningModel, Quota, Service, Shape
from gputrain.display.table import TableDisplay
from gputrain.errors import (
    ApiDisabledError,
    AuthError,
    GputrainError,
    PermissionDeniedError,
    QuotaExceededError,
)
from gputrain.google.errors import UnclearError

EVERYWHERE = "all regions"
"""Where a project-wide quota counts."""
CONSOLE = "https://console.cloud.google.com/iam-admin/quotas"

Figures = tuple["float | None", "float | None"]
"""Limit and usage."""


class Verdict(enum.Enum):
    """Whether the quota at a place is enough for the job. A quota that could not be read is UNKNOWN."""

    FITS = "fits"
    UNKNOWN = "unknown"
    SHORT = "short"


class LimitSource(enum.Enum):
    """Where a limit was read."""

    REGIONS = "regions.list"
    """Compute Engine's regions: limits and usage, of the metrics that they list."""
    PROJECT = "projects.get"
    """Compute Engine's project: limits and usage of what counts in all regions together."""
    CLOUD_QUOTAS = "Cloud Quotas"
    """Every limit of Compute Engine and Vertex AI, without usage."""


@attrs.frozen(kw_only=True)
class QuotaReading(TableDisplay):
    """What one API says of one quota at one place, and what the job needs of it."""

    metric: str
    """As errors and consoles call it: ``NVIDIA_L4_GPUS``."""
    where: str
    """A region, or `EVERYWHERE`."""
    need: float
    """What the whole job adds, in the quota's unit: GPUs, vCPUs or GB."""
    limit: float | None = None
    """``inf`` where there is none; None where it is unknown, which is not 0."""
    usage: float | None = None
    """What is in use already; None where it is unknown."""
    source: LimitSource | None = None
    read_at: datetime | None = None
    quota_id: str = ""
    """Its id in Cloud Quotas, by which an increase is requested; empty: none is known."""
    api: str = ""
    """The service it is filed under: ``compute.googleapis.com``."""
    project: str = ""
    dimensions: tuple[tuple[str, str], ...] = ()
    """What an increase of it names: ``(("region", "us-central1"),)``."""
    is_gate: bool = True
    """False for a quota that may or may not count: it is shown, and decides nothing."""
    is_optional: bool = False
    """True where a project may not have this quota: it counts only where a limit is read."""
    note: str = ""
    """Why it is unknown, or what else to know."""
    setting: str = ""
    """The setting of the backend that makes the need smaller: ``disk_gib=``."""

    def __str__(self) -> str:
        limit = "unknown" if self.limit is None else f"{self.limit:g}"
        used = "" if self.usage is None else f" with {self.usage:g} in use"
        read = [self.source.value] if self.source else []
        read += [f"{self.read_at:%H:%M} UTC"] if self.read_at else []
        by = f" ({', '.join(read)})" if read else ""
        metric = self.metric.rpartition("/")[2]
        return f"{metric} in {self.where} is {limit}{used}, the job needs {self.need:g}{by}"

    @property
    def verdict(self) -> Verdict:
        """Whether this quota alone is enough. Usage that is unknown counts as 0."""
        if self.limit is None:
            return Verdict.UNKNOWN
        return Verdict.SHORT if self.need > self.limit - (self.usage or 0) else Verdict.FITS

    @property
    def fix(self) -> str:
        """What makes room in this quota."""
        more = f"request more of {self.quota_id or self.metric} at {CONSOLE}"
        return f"a smaller {self.setting}, or {more}" if self.setting else more


@attrs.frozen(kw_only=True, slots=False)
class QuotaStatus(TableDisplay):
    """Whether the quotas of one place are enough for a job of one size, and every reading behind that."""

    service: Service
    gpu: str
    gpus: int
    """GPUs of the whole job: those of a node times the nodes."""
    provisioning_model: ProvisioningModel
    region: str
    readings: tuple[QuotaReading, ...] = attrs.field(default=(), hash=False)
    note: str = ""

    @cached_property
    def verdict(self) -> Verdict:
        """SHORT where any gate is, else UNKNOWN where any is; else, or without a gate, FITS."""
        decided = self.deciding
        return decided.verdict if decided else Verdict.FITS

    @property
    def deciding(self) -> QuotaReading | None:
        """The figures that decided; the stricter ones where two APIs differ. None: nothing counts."""
        return deciding(self.readings)


def deciding(readings: Sequence[QuotaReading]) -> QuotaReading | None:
    """The reading that decided, with the strictest limit and usage of it; None: nothing counts."""
    strictest = []
    for group in _by_quota([one for one in readings if one.is_gate]):
        known = [one for one in group if one.limit is not None]
        lowest = min(known, key=lambda one: one.limit or 0.0, default=group[0])
        usage = max((one.usage for one in group if one.usage is not None), default=None)
        strictest.append(attrs.evolve(lowest, usage=usage))
    order = (Verdict.SHORT, Verdict.UNKNOWN, Verdict.FITS)
    return min(strictest, key=lambda one: order.index(one.verdict), default=None)


def contradictions(readings: Sequence[QuotaReading]) -> tuple[tuple[QuotaReading, ...], ...]:
    """The readings of each quota for which two APIs give different limits."""
    groups = [tuple(one for one in group if one.limit is not None) for group in _by_quota(readings)]
    return tuple(group for group in groups if len({one.limit for one in group}) > 1)


def _by_quota(readings: Sequence[QuotaReading]) -> Collection[list[QuotaReading]]:
    groups: dict[tuple[str, str], list[QuotaReading]] = {}
    for one in readings:
        groups.setdefault((one.metric, one.where), []).append(one)
    return groups.values()


# What a job counts against


def counts(
    shape: Shape,
    num_nodes: int,
    model: ProvisioningModel,
    service: Service,
    region: str,
    *,
    disk_gib: int = 0,
    disk_type: str | None = None,
) -> tuple[QuotaReading, ...]:
    """The quotas that a job counts against, without limits, the GPU's own first; empty where none is known.

    Args:
        disk_gib, disk_type: of each machine's boot disk; the type that the machine boots from by default.

    Source: live-quotas and Google's text on CPU quotas, read 2026-11-20.
    """
    own = catalog.quota(shape.gpu, model, service=service)
    if own is None:
        return ()
    gpus, vcpus = shape.api_gpu_count * num_nodes, shape.machine.vcpus * num_nodes
    found = [_need(own, gpus, region)]
    if service is Service.VERTEX:
        return (*found, *_vertex_cpus(shape, vcpus, model, region))
    found.append(_need(catalog.other_quota("GPUs of all regions"), gpus, EVERYWHERE))
    if shape.machine.family.needs_cpu_quota:
        cpus = catalog.other_quota("N1 CPUs", preemptible=model is not ProvisioningModel.STANDARD)
        found.append(_need(cpus, vcpus, region))
        found.append(_need(catalog.other_quota("CPUs of all regions"), vcpus, EVERYWHERE))
    elif shape.machine_type.startswith("a2-") and model is ProvisioningModel.STANDARD:
        found.append(_need(catalog.other_quota("A2 CPUs"), vcpus, region, is_gate=False))
    if disk_gib:
        disk = catalog.other_quota(disk_type or shape.machine.boot_disk_types[0])
        found.append(_need(disk, disk_gib * num_nodes, region, setting="disk_gib="))
    return tuple(found)


def _need(quota: Quota, need: float, where: str, **more: Any) -> QuotaReading:
    region = () if where == EVERYWHERE else (("region", where),)
    family = (("gpu_family", quota.gpu_family),) if quota.gpu_family else ()
    return QuotaReading(
        metric=quota.name, where=where, need=need, quota_id=quota.quota_id or "", api=quota.api,
        dimensions=(*region, *family), **more,
    )  # fmt: skip


def _vertex_cpus(shape: Shape, vcpus: int, model: ProvisioningModel, region: str) -> Iterator[QuotaReading]:
    """The vCPUs of a custom job: Spot jobs of every machine in one metric, the others in one of the series.

    Source of Spot: a live refusal of 2026-09-05; a new project has 1 preemptible vCPU in each region. Whether
    flex-start counts there has not been seen, so it blocks nothing.
    """
    series = shape.machine_type.partition("-")[0].upper()
    if model is not ProvisioningModel.STANDARD:
        spot = catalog.other_quota("CPUs of Spot jobs", service=Service.VERTEX, preemptible=True)
        yield _need(spot, vcpus, region, is_gate=model is ProvisioningModel.SPOT)
    elif series in ("N1", "A2", "A3", "G2"):
        own = catalog.other_quota(f"{series} CPUs", service=Service.VERTEX)
        yield _need(own, vcpus, region, is_optional=series != "N1")


# What was read


@attrs.frozen(kw_only=True)
class QuotaRow:
    """One row of ``dimensionsInfos``: the places it covers, and their limit."""

    dimensions: Mapping[str, str]
    locations: frozenset[str] = frozenset()
    limit: float | None

    def covers(self, wanted: Mapping[str, str]) -> bool:
        """Whether its dimensions are the wanted ones, or some of them."""
        if any(wanted.get(name) != value for name, value in self.dimensions.items()):
            return False
        region = wanted.get("region")
        if region is None or "region" in self.dimensions or not self.locations:
            return True
        return bool(self.locations & {region, "global"})


def limit_at(found: Sequence[QuotaRow], wanted: Mapping[str, str]) -> float | None:
    """The limit of the most specific row that covers the place; None: no row does, which is not 0."""
    covering = [row for row in found if row.covers(wanted)]
    best = max(covering, key=lambda row: len(row.dimensions), default=None)
    return None if best is None else best.limit


def grouped(reasons: Mapping[str, str]) -> tuple[str, ...]:
    """Names and their reasons, those of one reason together."""
    names: dict[str, list[str]] = {}
    for name, why in reasons.items():
        names.setdefault(why, []).append(name)
    return tuple(f"{', '.join(listed)}: {why}" for why, listed in names.items())


def in_short(error: GputrainError) -> str:
    """Why something could not be read, in a few words for a cell of a table."""
    match error:
        case ApiDisabledError():
            return "the API is switched off"
        case PermissionDeniedError():
            return f"no permission {error.permission}".rstrip()
        case AuthError():
            return "no usable credentials"
        case UnclearError():
            return f"no answer from {error.unreached}" if error.unreached else "no usable answer"
    return error.what.partition(": ")[2] or error.what


def explained(error: GputrainError, readings: Sequence[QuotaReading]) -> GputrainError:
    """A quota's error with what was read of the same quota: need, usage, limit, place, the setting to change.

    What the provider said itself stays; other errors stay as they are.
    """
    if not isinstance(error, QuotaExceededError):
        return error
    words = {stem(one) for one in (error.metric, error.limit_name, *error.metrics) if one}
    same = [one for one in readings if {stem(one.metric), stem(one.quota_id)} & words]
    if not same:
        return error
    known = {
        "need": same[0].need,
        "usage": max((one.usage for one in same if one.usage is not None), default=None),
        "limit": min((one.limit for one in same if one.limit is not None), default=None),
        "where": same[0].where,
    }
    known = {name: value for name, value in known.items() if getattr(error, name) in (None, "")}
    same_again, _ = error.__reduce__()  # as it would pickle: all that it was made of
    found: GputrainError = same_again(fix=same[0].fix if same[0].setting else error.fix, **known)
    found.__cause__, found.__traceback__ = error.__cause__, error.__traceback__
    return found


def stem(name: str) -> str:
    """A quota's name without what its metric, its id and the words of an error write differently."""
    word = name.rpartition("/")[2].partition(" ")[0].lower().replace("-", "_")
    return word.removesuffix("_region").removesuffix("_per_project")
