"""What jobs compete for: quota of their project and region, machines of their region, and who runs them."""

from __future__ import annotations

from collections.abc import Mapping, Sequence

from gputrain_emulator import facts
from gputrain_emulator.errors import ApiError
from gputrain_emulator.quotas import Key, Quotas
from gputrain_emulator.vertex.endings import OverQuota
from gputrain_emulator.vertex.job import Job
from gputrain_emulator.world import World

Needs = Sequence[tuple[Key, float]]


class Shares:
    """Quota by project, region and metric; stock by region and machine type, where somebody set one."""

    def __init__(self, quotas: Quotas) -> None:
        self.quotas = quotas
        self.stock: dict[tuple[str, str], int] = {}

    def check(self, needs: Needs, over_quota: OverQuota) -> None:
        """429 naming every metric whose limit, or by setting whose rest, is too small."""
        short = []
        for key, amount in needs:
            used = self.quotas.usage(key) if over_quota is OverQuota.REFUSE else 0
            if amount > self.quotas.limit(key) - used:
                short.append(key.metric)
        if short:
            names = ", ".join(short)
            raise ApiError(429, f"The following quota metrics exceed quota limits: {names}")


def needs_of(project: str, region: str, metrics: Mapping[str, int]) -> tuple[tuple[Key, float], ...]:
    """What a job charges, as the quota book counts it."""
    return tuple(
        (Key(project=project, metric=metric, region=region), float(amount))
        for metric, amount in metrics.items()
    )


class Link:
    """One job's side of quota, machines and guests: a `states.Capacity` and a `states.Runner`."""

    def __init__(self, shares: Shares, job: Job, world: World) -> None:
        self.shares = shares
        self.job = job
        self.world = world

    def take_quota(self) -> bool:
        if self.shares.quotas.exceeded(self.job.needs) is not None:
            return False
        self.shares.quotas.take(self.job.needs)
        return True

    def give_quota(self) -> None:
        self.shares.quotas.release(self.job.needs)

    def take_machines(self) -> bool:
        stock, region = self.shares.stock, self.job.region
        wanted = self.job.machines.items()
        if any(stock.get((region, kind), count) < count for kind, count in wanted):
            return False
        self._add_stock(-1)
        return True

    def give_machines(self) -> None:
        self._add_stock(1)
        self.world.ledger.stop_meter(self.job.name)

    def start(self, replicas: Sequence[str]) -> bool:
        # Machines cost from when code starts on them, which is before the state says RUNNING.
        self.world.ledger.start_meter(self.job.name, self._price_usd_h())
        self.job.starting = tuple(replicas)
        self.world.runtime.start_job(self.job)
        return self.world.runtime.is_real

    def stop(self) -> bool:
        self.world.runtime.stop_job(self.job)
        return self.world.runtime.is_real

    def _price_usd_h(self) -> float:
        """Compute Engine's price of the machines, and 15 % of their on-demand price as Vertex AI's fee.

        Source: SKUs of a billing report of 2025-08, us-central1; Spot and flex-start pay the same fee.
        """
        scheduling = self.job.document["jobSpec"].get("scheduling", {})
        model = scheduling.get("strategy", "STANDARD")
        region = self.job.region
        return sum(
            count
            * (facts.price_usd_h(kind, region, model) + 0.15 * facts.price_usd_h(kind, region, "STANDARD"))
            for kind, count in self.job.machines.items()
        )

    def _add_stock(self, sign: int) -> None:
        for kind, count in self.job.machines.items():
            key = (self.job.region, kind)
            if key in self.shares.stock:
                self.shares.stock[key] += sign * count
