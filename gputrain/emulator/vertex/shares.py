"""What jobs compete for: quota of their project and region, machines of their region, and who runs them."""

from __future__ import annotations

from collections.abc import Mapping, Sequence

from gputrain.emulator.errors import ApiError
from gputrain.emulator.runtime import NoRuntime
from gputrain.emulator.vertex.endings import OverQuota
from gputrain.emulator.vertex.job import Job
from gputrain.emulator.world import Project, World

DEFAULT_LIMIT = 16  # GPUs of each kind and region; a new real project has fewer, often none
DEFAULT_CPU_LIMIT = 2200


class Shares:
    """Limits by (project, region, metric), stock by (region, machine type); usage is counted from the jobs."""

    def __init__(self, jobs: Mapping[str, Job]) -> None:
        self.jobs = jobs
        self.limits: dict[tuple[str, str, str], int] = {}
        self.stock: dict[tuple[str, str], int] = {}

    def limit(self, project: str, region: str, metric: str) -> int:
        default = DEFAULT_CPU_LIMIT if metric.endswith("_cpus") else DEFAULT_LIMIT
        return self.limits.get((project, region, metric), default)

    def usage(self, project: str, region: str, metric: str) -> int:
        return sum(
            job.needs.get(metric, 0)
            for job in self.jobs.values()
            if job.life.has_quota and (job.project.id, job.region) == (project, region)
        )

    def check(self, project: Project, region: str, needs: Mapping[str, int], over_quota: OverQuota) -> None:
        """429 naming every metric whose limit, or by setting whose rest, is too small."""
        short = []
        for metric, amount in needs.items():
            limit = self.limit(project.id, region, metric)
            counts = over_quota is OverQuota.REFUSE
            used = self.usage(project.id, region, metric) if counts else 0
            if amount > limit - used:
                short.append(metric)
        if short:
            names = ", ".join(short)
            raise ApiError(429, f"The following quota metrics exceed quota limits: {names}")


class Link:
    """One job's side of quota, machines and guests: a `states.Capacity` and a `states.Runner`."""

    def __init__(self, shares: Shares, job: Job, world: World) -> None:
        self.shares = shares
        self.job = job
        self.world = world

    def take_quota(self) -> bool:
        place = (self.job.project.id, self.job.region)
        return all(
            amount <= self.shares.limit(*place, metric) - self.shares.usage(*place, metric)
            for metric, amount in self.job.needs.items()
        )

    def give_quota(self) -> None:
        """Usage is counted from the lives, so there is nothing to keep."""

    def take_machines(self) -> bool:
        stock, region = self.shares.stock, self.job.region
        wanted = self.job.machines.items()
        if any(stock.get((region, kind), count) < count for kind, count in wanted):
            return False
        self._add_stock(-1)
        return True

    def give_machines(self) -> None:
        self._add_stock(1)

    def start(self, replicas: Sequence[str]) -> bool:
        self.job.starting = tuple(replicas)
        self.world.runtime.start_job(self.job)
        return self._real

    def stop(self) -> bool:
        self.world.runtime.stop_job(self.job)
        return self._real

    @property
    def _real(self) -> bool:
        return not isinstance(self.world.runtime, NoRuntime)

    def _add_stock(self, sign: int) -> None:
        for kind, count in self.job.machines.items():
            key = (self.job.region, kind)
            if key in self.shares.stock:
                self.shares.stock[key] += sign * count
