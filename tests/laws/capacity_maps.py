"""Random clouds in which some places have room and some quotas do not, and an oracle that walks them by hand.

The oracle shares nothing with the failover but the errors it is told: it strikes every candidate off a list
that an answer forbids, and takes the first that is left, those that Google named before the others.
"""

import random
from datetime import timedelta

import attrs

from gputrain import CapacityError, PermissionDeniedError, QuotaExceededError
from gputrain.catalog import ProvisioningModel
from gputrain.errors import Scope
from gputrain.planning import Candidate, Fact
from gputrain.quota import EVERYWHERE, QuotaReading, Verdict

MODELS = list(ProvisioningModel)[:3]
KINDS = [("H100", 8, "a3-highgpu-8g"), ("A100-80GB", 4, "a2-ultragpu-4g"), ("L4", 2, "g2-standard-24")]
REGIONS = ["us-central1", "us-east4", "europe-west4", "asia-southeast1"]
UNREAD = Fact()


def candidate(backend, place, gpu, count, machine, model, *, num_nodes=1, fact=UNREAD, **more):
    return Candidate(
        backend=backend, gpu=gpu, gpu_count=count, machine_type=machine, place=place,
        provisioning_model=model, num_nodes=num_nodes, nproc_per_node=count, price=None,
        max_run_duration=timedelta(hours=1), fact=fact, **{"region": region(place), **more},
    )  # fmt: skip


def region(place):
    return place if place[-1].isdigit() else place[:-2]


def pool(one):
    kind = "ondemand" if one.provisioning_model is ProvisioningModel.STANDARD else "preemptible"
    return one.backend, region(one.place), one.gpu, kind


def stall(one):
    """Names a candidate of one plan."""
    return one.backend, one.place, one.machine_type, one.provisioning_model


def gpus(one):
    return one.gpu_count * one.num_nodes


@attrs.frozen
class Cloud:
    """What is true: where there is room, the limits of quotas, and what is shut."""

    candidates: tuple
    room: frozenset
    """The stalls that have machines."""
    limits: dict
    """Of regional pools; what is not there is without end."""
    project_limits: dict
    shut: frozenset
    stock_first: bool
    hints: bool

    def takes(self, one):
        return self.refusal(one) is None

    def refusal(self, one):
        """What Google would answer to a create; None: it takes the job."""
        if one.backend in self.shut:
            return PermissionDeniedError("no", permission="compute.instances.create")
        checks = [self._stock, self._quota] if self.stock_first else [self._quota, self._stock]
        return next((refused for check in checks if (refused := check(one)) is not None), None)

    def _stock(self, one):
        if stall(one) in self.room:
            return None
        alike = [
            other.place
            for other in self.candidates
            if stall(other) in self.room
            and _sold_alike(other, one)
            and region(other.place) == region(one.place)
        ]
        return CapacityError("full", place=one.place, zones_available=tuple(alike) if self.hints else ())

    def _quota(self, one):
        everywhere = self.project_limits.get(one.backend, float("inf"))
        if gpus(one) > everywhere:
            return QuotaExceededError("q", metric="GPUS_ALL_REGIONS", limit=everywhere, scope=Scope.PROJECT)
        limit = self.limits.get(pool(one), float("inf"))
        if gpus(one) > limit:
            return QuotaExceededError("q", metric=f"{one.gpu}", limit=limit, where=region(one.place))
        return None


def draw(seed):
    """A cloud and its candidates, in the plan's order."""
    dice = random.Random(seed)
    backends = dice.choice([["compute"], ["vertex", "compute"], ["compute", "vertex"]])
    kinds = dice.sample(KINDS, dice.randint(1, 3))
    models = dice.sample(MODELS, dice.randint(1, 3))
    regions = dice.sample(REGIONS, dice.randint(1, 4))
    nodes = dice.choice([1, 2])
    listed = [
        candidate(backend, place, *kind, model, num_nodes=nodes)
        for kind in kinds
        for model in models
        for backend in backends
        for area in regions
        for place in ([area] if backend == "vertex" else [f"{area}-{zone}" for zone in "abc"])
    ]
    chance = dice.choice([0.0, 0.05, 0.2, 0.7])
    room = frozenset(stall(one) for one in listed if dice.random() < chance)
    pools = sorted({pool(one) for one in listed})
    limits = {one: dice.choice([0, 0, 2, 4, 8]) for one in pools if dice.random() < 0.3}
    project = {name: dice.choice([0, 2, 4, 8]) for name in backends if dice.random() < 0.2}
    shut = frozenset(name for name in backends if dice.random() < 0.1)
    cloud = Cloud(
        tuple(listed), room, limits, project, shut, stock_first=dice.random() < 0.5, hints=dice.random() < 0.7
    )
    told = dice.random() < 0.3
    return cloud, [attrs.evolve(one, fact=_fact(cloud, one)) if told else one for one in listed]


def _fact(cloud, one):
    """What the quota checker would have read, truthfully."""
    readings = [
        QuotaReading(metric="m", where=where, need=gpus(one), limit=limit)
        for where, limit in (
            (region(one.place), cloud.limits.get(pool(one), float("inf"))),
            (EVERYWHERE, cloud.project_limits.get(one.backend, float("inf"))),
        )
    ]
    short = any(reading.verdict is Verdict.SHORT for reading in readings)
    return Fact(verdict=Verdict.SHORT if short else Verdict.FITS, readings=tuple(readings))


def oracle(cloud, plan):
    """The candidates that somebody tries who goes by hand, and whether one of them took the job."""
    left = [one for one in plan if one.fact.verdict is not Verdict.SHORT]
    tried, named = [], []
    while left:
        hinted = [
            one for zone, asked in named for one in left if one.place == zone and _sold_alike(one, asked)
        ]
        one = (hinted or left)[0]
        tried.append(one)
        error = cloud.refusal(_bare(one))
        if error is None:
            return tried, True
        named = [(zone, one) for zone in getattr(error, "zones_available", ())] + named
        left = [other for other in left if not _forbids(one, error, other)]
    return tried, False


def _bare(one):
    return attrs.evolve(one, fact=Fact())


def _sold_alike(one, other):
    return (one.backend, one.machine_type, one.provisioning_model) == (
        other.backend, other.machine_type, other.provisioning_model,
    )  # fmt: skip


def _forbids(asked, error, one):
    if isinstance(error, CapacityError):
        return stall(asked) == stall(one)
    if asked.backend != one.backend:
        return False
    if isinstance(error, QuotaExceededError):
        concerned = error.metric == "GPUS_ALL_REGIONS" or pool(asked) == pool(one)
        return concerned and gpus(one) >= (gpus(asked) if error.limit else 0)
    return True
