"""Quotas: how much a project may hold at once, by metric and place."""

from __future__ import annotations

from collections.abc import Callable, Iterable
from dataclasses import dataclass

from gputrain_emulator import facts, tables
from gputrain_emulator.world import World

GLOBAL = "global"
FAMILY_METRIC = "GPUS_PER_GPU_FAMILY"

DEFAULT_GPUS = 64.0
"""Limit of every GPU metric in every region, until a test says otherwise."""

DEFAULTS = {row["metric"]: float(row["limit"]) for row in tables.records("quota_defaults.csv")}
GLOBAL_METRICS = ("GPUS_ALL_REGIONS", "CPUS_ALL_REGIONS")
REGIONAL_METRICS = tuple(name for name in DEFAULTS if name not in GLOBAL_METRICS and "/" not in name)
"""Compute Engine's, but for those of GPUs."""


@dataclass(frozen=True, kw_only=True)
class Key:
    """One limit; ``region`` is "global" for project-wide ones, ``family`` is GPUS_PER_GPU_FAMILY's."""

    project: str
    metric: str
    region: str
    family: str = ""


@dataclass(frozen=True, kw_only=True)
class Exceeded:
    """A quota that a request would break."""

    key: Key
    limit: float
    usage: float
    need: float


class Quotas:
    """Limits and usage of every project; Compute's and Vertex AI's metrics alike."""

    def __init__(self, _world: World) -> None:
        self._limits: dict[Key, float] = {}
        self._usage: dict[Key, float] = {}
        self.at_grant: list[Callable[[], None]] = []
        """What lets those look again who wait for quota."""

    def set_limit(self, key: Key, limit: float) -> None:
        """Grant ``limit``; ``region`` "*" grants it everywhere that has no limit of its own."""
        self._limits[key] = float(limit)
        for look_again in self.at_grant:
            look_again()

    def limit(self, key: Key) -> float:
        """The limit in effect: of all grants that cover the place, the one that names most of it."""
        if not self._limits:  # as in most clouds, of which a list of regions shows a thousand
            return DEFAULTS.get(key.metric, DEFAULT_GPUS)
        covers = (
            key,
            Key(project=key.project, metric=key.metric, region=key.region),
            Key(project=key.project, metric=key.metric, region="*", family=key.family),
            Key(project=key.project, metric=key.metric, region="*"),
        )
        granted = next((self._limits[one] for one in covers if one in self._limits), None)
        return DEFAULTS.get(key.metric, DEFAULT_GPUS) if granted is None else granted

    def granted(self, project: str, metric: str) -> dict[Key, float]:
        """Every limit of a project's metric that somebody has set, as opposed to the defaults."""
        return {k: v for k, v in self._limits.items() if (k.project, k.metric) == (project, metric)}

    def usage(self, key: Key) -> float:
        return self._usage.get(key, 0.0)

    def exceeded(self, needs: Iterable[tuple[Key, float]]) -> Exceeded | None:
        """The first quota that ``needs`` would break, all of them together."""
        total: dict[Key, float] = {}
        for key, need in needs:
            total[key] = total.get(key, 0.0) + need
        for key, need in total.items():
            if self.usage(key) + need > self.limit(key):
                return Exceeded(key=key, limit=self.limit(key), usage=self.usage(key), need=need)
        return None

    def take(self, needs: Iterable[tuple[Key, float]]) -> None:
        for key, need in needs:
            self._usage[key] = self.usage(key) + need

    def release(self, needs: Iterable[tuple[Key, float]]) -> None:
        for key, need in needs:
            self._usage[key] = max(0.0, self.usage(key) - need)


def vm_needs(
    project: str, region: str, machine: facts.Machine, accelerator: str, gpus: int, provisioning_model: str
) -> tuple[tuple[Key, float], ...]:
    """What one VM counts against, in the order Google checks it: the region's metrics, then the project's.

    Spot and flex-start count against the preemptible metrics. Accelerator-optimized machines need no CPU
    quota, N1 and E2 do (Google's text at second hand, read 2026-11-20); A2 on demand counts in A2_CPUS, as
    projects with a small one have met.
    """
    preemptible = provisioning_model in ("SPOT", "FLEX_START")
    needs: list[tuple[Key, float]] = []
    if accelerator:
        names = facts.gpu_quotas()[accelerator]
        if preemptible:
            metric, family = names.preemptible_metric, ""
        else:
            metric = names.regional_metric or FAMILY_METRIC
            family = "" if names.regional_metric else names.gpu_family
        if metric:
            needs.append((Key(project=project, metric=metric, region=region, family=family), gpus))
    if machine.family in ("n1", "e2"):
        metric = "PREEMPTIBLE_CPUS" if preemptible else "CPUS"
        needs.append((Key(project=project, metric=metric, region=region), machine.vcpus))
        needs.append((Key(project=project, metric="CPUS_ALL_REGIONS", region=GLOBAL), machine.vcpus))
    if machine.family == "a2" and not preemptible:
        needs.append((Key(project=project, metric="A2_CPUS", region=region), machine.vcpus))
    needs.append((Key(project=project, metric="INSTANCES", region=region), 1))
    if accelerator:
        needs.append((Key(project=project, metric="GPUS_ALL_REGIONS", region=GLOBAL), gpus))
    return tuple(needs)
