"""What was read about quotas, and what it means for one job. Pure."""

from __future__ import annotations

import enum
from collections.abc import Sequence
from datetime import datetime
from functools import cached_property
from typing import TYPE_CHECKING

import attrs

from gputrain.catalog import ProvisioningModel, Service
from gputrain.tables import Shown

if TYPE_CHECKING:
    from collections.abc import Iterator

EVERYWHERE = "all regions"
"""Where a project-wide quota counts."""


class Verdict(enum.Enum):
    """Whether the quota at a place carries the job. A quota nobody could read is UNKNOWN, never SHORT."""

    FITS = "fits"
    UNKNOWN = "unknown"
    SHORT = "short"


class LimitSource(enum.Enum):
    """Who told a limit."""

    REGIONS = "regions.list"
    """Compute Engine's regions: limits and usage, of the metrics that they show."""
    PROJECT = "projects.get"
    """Compute Engine's project: limits and usage of what counts in all regions together."""
    CLOUD_QUOTAS = "Cloud Quotas"
    """Every limit of Compute Engine and Vertex AI; it tells no usage."""


@attrs.frozen(kw_only=True)
class Reading(Shown):
    """What one API told of one quota at one place, and what the job needs of it.

    >>> Reading(metric="NVIDIA_L4_GPUS", where="us-central1", need=4, limit=8, usage=5).verdict.value
    'short'
    """

    metric: str
    """As errors and consoles call it: ``NVIDIA_L4_GPUS``."""
    where: str
    """A region, or `EVERYWHERE`."""
    need: float
    """What the whole job adds, in the quota's unit: GPUs, or vCPUs."""
    limit: float | None = None
    """``inf`` where there is none; None where nobody told: unknown, not 0."""
    usage: float | None = None
    """What is in use already; None where it is not told."""
    source: LimitSource | None = None
    """None: no API told it."""
    read_at: datetime | None = None
    quota_id: str = ""
    """Its id in Cloud Quotas, by which an increase is asked for; empty: none is known."""
    api: str = ""
    """The service it is filed under: ``compute.googleapis.com``."""
    project: str = ""
    """Whose it is."""
    dimensions: tuple[tuple[str, str], ...] = ()
    """What an increase of it names: ``(("region", "us-central1"),)``."""
    is_gate: bool = True
    """False for a quota that may or may not count: it is shown, and decides nothing."""
    note: str = ""
    """Why it is unknown, or what else to know."""

    def __str__(self) -> str:
        """Its limit, what is in use, what the job needs, and who told it when.

        >>> print(Reading(metric="NVIDIA_L4_GPUS", where="us-central1", need=4, limit=8, usage=5))
        NVIDIA_L4_GPUS in us-central1 is 8 with 5 in use, the job needs 4
        """
        limit = "unknown" if self.limit is None else f"{self.limit:g}"
        used = "" if self.usage is None else f" with {self.usage:g} in use"
        told = [self.source.value] if self.source else []
        told += [f"{self.read_at:%H:%M} UTC"] if self.read_at else []
        by = f" ({', '.join(told)})" if told else ""
        metric = self.metric.rpartition("/")[2]
        return f"{metric} in {self.where} is {limit}{used}, the job needs {self.need:g}{by}"

    @property
    def verdict(self) -> Verdict:
        """Whether this quota, by these figures alone, carries the job. Usage that is not told counts as 0."""
        if self.limit is None:
            return Verdict.UNKNOWN
        return Verdict.SHORT if self.need > self.limit - (self.usage or 0) else Verdict.FITS


@attrs.frozen(kw_only=True, slots=False)
class Standing(Shown):
    """How a job of one size stands with the quotas of one place: the verdict, and every reading behind it."""

    service: Service
    gpu: str
    gpus: int
    """GPUs of the whole job: those of a node times the nodes."""
    provisioning_model: ProvisioningModel
    region: str
    readings: tuple[Reading, ...] = attrs.field(default=(), hash=False)
    note: str = ""

    @cached_property
    def verdict(self) -> Verdict:
        """SHORT where any quota is, else UNKNOWN where any is, else FITS."""
        return verdict_of(self.readings)

    @property
    def deciding(self) -> Reading | None:
        """The figures that decided; the stricter ones where two APIs differ. None: nothing counts."""
        return deciding(self.readings)


def verdict_of(readings: Sequence[Reading]) -> Verdict:
    """The verdict of all gates together: one quota that is short is enough, one unknown leaves it open.

    No gate at all means that nothing counts: FITS.
    """
    verdicts = {one.verdict for one in _strictest(readings)}
    return next((one for one in (Verdict.SHORT, Verdict.UNKNOWN) if one in verdicts), Verdict.FITS)


def deciding(readings: Sequence[Reading]) -> Reading | None:
    """The reading that decided, its limit and usage the strictest that were told; None: nothing counts."""
    verdict = verdict_of(readings)
    return next((one for one in _strictest(readings) if one.verdict is verdict), None)


def contradictions(readings: Sequence[Reading]) -> tuple[tuple[Reading, ...], ...]:
    """The readings of each quota whose limit two APIs tell differently."""
    groups = [tuple(one for one in group if one.limit is not None) for group in _by_quota(readings)]
    return tuple(group for group in groups if len({one.limit for one in group}) > 1)


def _strictest(readings: Sequence[Reading]) -> Iterator[Reading]:
    """One reading a gate: of those who tell a limit the lowest, with the highest usage that anybody told."""
    for group in _by_quota([one for one in readings if one.is_gate]):
        known = [one for one in group if one.limit is not None]
        lowest = min(known, key=lambda one: one.limit or 0.0, default=group[0])
        used = [one.usage for one in group if one.usage is not None]
        yield attrs.evolve(lowest, usage=max(used)) if used and max(used) != lowest.usage else lowest


def _by_quota(readings: Sequence[Reading]) -> list[list[Reading]]:
    groups: dict[tuple[str, str], list[Reading]] = {}
    for one in readings:
        groups.setdefault((one.metric, one.where), []).append(one)
    return list(groups.values())
