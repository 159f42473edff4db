"""Quotas: requests for all GPUs in all regions, their wall time, and what facts cost a warm plan."""

from __future__ import annotations

import tempfile
from collections.abc import Iterator, Sequence
from pathlib import Path

from measure import Measure, Spread, alternated, timed_s

import gputrain_emulator
from gputrain import ComputeEngine, Trainer, TrainingSpec, VertexAI
from gputrain.catalog import Service, regions, shapes
from gputrain.planning import candidates
from gputrain.retry import ONCE
from gputrain_emulator.faults import Delay

READS = ("compute.regions.list", "compute.projects.get", "cloudquotas.quotaInfos.list")
EVERYWHERE = sorted({one for shape in shapes(service=Service.COMPUTE) for one in regions(shape)})
SLOWEST_S = 0.4


def measure() -> Iterator[Measure]:
    """The figures, one by one."""
    with gputrain_emulator.start() as cloud, tempfile.TemporaryDirectory() as folder:
        script = Path(folder, "train.py")
        script.write_text("pass\n")
        yield from reading(cloud)
        yield from planning(cloud, str(script))


def trainer_of(cloud: gputrain_emulator.Cloud, where: Sequence[str]) -> Trainer:
    reach = {"endpoints": cloud.endpoints, "credentials": cloud.credentials, "now": cloud.clock.now}
    vertex = VertexAI(cloud.project, regions=where, **reach)
    return Trainer([vertex, ComputeEngine(cloud.project, regions=where, bucket="gs://my-bucket", **reach)])


def reading(cloud: gputrain_emulator.Cloud) -> Iterator[Measure]:
    """Everything once, as a new client sees it; then with answers that each take their time."""
    before = len(cloud.requests)
    found = trainer_of(cloud, EVERYWHERE).quotas()
    note = f"{len(found)} rows, {len({one.region for one in found})} regions"
    calls = len(cloud.requests) - before
    yield Measure(
        what="calls for the quotas of all GPUs in all regions", value=calls, target=6, unit="", note=note
    )
    for at, method in enumerate(READS):
        cloud.fail(method, Delay(seconds=SLOWEST_S - 0.1 * at), times=None)

    def ours() -> float:
        trainer = trainer_of(cloud, EVERYWHERE)
        return timed_s(trainer.quotas)

    def slowest() -> float:
        access = trainer_of(cloud, EVERYWHERE)._backends["compute"]._access
        url = f"{cloud.endpoints.compute}/compute/v1/projects/{cloud.project}/regions"
        return timed_s(lambda: access.get(url, action="list regions", policy=ONCE))

    took = alternated({"ours": ours, "slowest": slowest})
    cloud.world.faults.clear()
    what = "their wall time, to that of the slowest"
    yield took.ratio("ours", "slowest").measure(what, target=1.5, note=took.note)


def planning(cloud: gputrain_emulator.Cloud, script: str) -> Iterator[Measure]:
    """3 GPU kinds x 4 provisioning models x all regions, from facts read within the minute."""
    backends = trainer_of(cloud, EVERYWHERE)._backends
    spec = TrainingSpec(
        script=script, gpu=["H100:8", "A100-80GB:8", "L4:1"], reservation="mine",
        provisioning_model=["standard", "spot", "flex-start", "reservation-bound"],
    )  # fmt: skip
    compute = backends["compute"]
    wanted = candidates(spec, [compute.supply]).candidates
    compute.availability(wanted)
    calls = len(cloud.requests)
    took = Spread.of_times([timed_s(lambda: compute.availability(wanted)) for _ in range(9)], per=1e-3)
    note = f"{len(wanted)} candidates, {len(cloud.requests) - calls} calls"
    yield took.measure("facts of a warm plan, all regions", target=25, unit="ms", note=note)
