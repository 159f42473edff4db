"""A plan from facts that are at hand, and the failover over it."""

from collections.abc import Iterator
from datetime import datetime, timezone

from measure import Measure, Spread, timed_s

import gputrain_emulator
from gputrain import CapacityError, ComputeEngine, ProvisioningModel, Trainer, TrainingSpec, VertexAI, catalog
from gputrain.catalog import Price, Service
from gputrain.planning import Candidate, Fact, Failover, Offer, Supply, Verdict, Wanted, candidates, weigh
from gputrain.planning.attempts import refused

KINDS = {"H100:8": "a3-highgpu-8g", "A100-80GB:8": "a2-ultragpu-8g", "L4:8": "g2-standard-96"}
MODELS = tuple(ProvisioningModel)
SPEC = TrainingSpec(
    script="train.py", gpu=list(KINDS), provisioning_model=list(MODELS), max_run_duration="2h",
    reservation="projects/my-project/zones/us-central1-a/reservations/mine",
)  # fmt: skip
NOW = datetime(2026, 11, 21, tzinfo=timezone.utc)
ROUNDS = 15


def market(regions: int) -> Supply:
    """Every kind under every model in three zones of each region, which is more than Google has."""
    zones = tuple(f"region{number}-{zone}" for number in range(regions) for zone in "abc")
    price = Price(usd_h=10.0, date="2026-07-30", source="as a price table says")
    offers = [
        Offer(
            gpu=gpu.partition(":")[0], gpu_count=8, machine_type=machine, provisioning_models=MODELS,
            places=zones, price_of=lambda _place, _model: price,
        )
        for gpu, machine in KINDS.items()
    ]  # fmt: skip
    return Supply(
        backend="compute", offers=tuple(offers), regions=tuple(f"region{n}" for n in range(regions))
    )


def planned(supply: Supply) -> tuple[object, ...]:
    """Lines 2 and 4 of the road, with a fact for each candidate."""
    wanted = candidates(SPEC, [supply])
    fits = Fact(verdict=Verdict.FITS)
    found: Wanted = weigh(wanted, dict.fromkeys(wanted.candidates, fits))
    return found.candidates


def tried(failover: Failover, steps: int) -> None:
    """So many places that have no room, one after the other."""
    for _ in range(steps):
        step = failover.step(NOW)
        assert isinstance(step, Candidate)
        failover = failover.after(refused(step, CapacityError("full"), NOW))


def of_a_trainer() -> tuple[Spread, int]:
    """Seconds that ``trainer.plan`` takes once its facts are cached, on both backends and everywhere."""
    shapes = catalog.shapes(service=Service.COMPUTE)
    regions = sorted({catalog.region_of(zone) for shape in shapes for zone in catalog.zones(shape)})
    with gputrain_emulator.start() as cloud:
        cloud.add_bucket("my-bucket", location=regions[0])
        reach = {"endpoints": cloud.endpoints, "credentials": cloud.credentials, "bucket": "gs://my-bucket"}
        kinds = (VertexAI, ComputeEngine)
        trainer = Trainer([kind(project="my-project", regions=regions, **reach) for kind in kinds])
        trainer.plan(SPEC)
        asked = len(cloud.requests)
        took = Spread.of_times([timed_s(lambda: trainer.plan(SPEC)) for _ in range(ROUNDS)], per=1e-3)
        assert len(cloud.requests) == asked, "the facts were not warm"
        return took, len(regions)


def measure() -> Iterator[Measure]:
    """Milliseconds, the median of a few rounds."""
    supply = market(40)
    found = planned(supply)
    pure = Spread.of_times([timed_s(lambda: planned(supply)) for _ in range(ROUNDS)], per=1e-3)
    what = f"plan over 3 GPU kinds x 4 models x 40 regions ({len(found):,} candidates), facts at hand"
    yield pure.measure(what, target=50, unit="ms")

    cached, regions = of_a_trainer()
    what = f"trainer.plan() on both backends, the {regions} regions that sell GPUs, facts cached"
    yield cached.measure(what, target=50, unit="ms")

    failover = Failover(candidates=found)
    step = Spread.of_times([timed_s(lambda: tried(failover, 20)) / 20 for _ in range(5)], per=1e-3)
    yield step.measure(f"one step of a failover of {len(found):,} candidates", target=50, unit="ms")
