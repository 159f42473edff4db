"""What custom training sells: machines, accelerators, counts, regions and quota metrics.

Sources, all read 2026-11-20:
 S1 docs.cloud.google.com/gemini-enterprise-agent-platform/machine-learning/training/configure-compute
 S2 .../machine-learning/general/locations#accelerators (the daggered regions, not for training, left out)
 S3 .../machine-learning/training/schedule-jobs-dws
 S4 the quota metrics named by Google's vertex-ai-samples and by live reads; B200, GB200 and
    RTX PRO 6000 follow the same pattern but no live row of them was found
 S5 users' 429s that name a GPU's and a CPU's metric together, lists of the CPU metrics, and a report of
    2026-09-05 that all Spot jobs of a new project meet custom_model_training_preemptible_cpus, which is 1
    there while the CPUs of A2 and G2 have no limit (read 2026-11-27)
"""

from __future__ import annotations

from dataclasses import dataclass

from gputrain_emulator import facts, tables


@dataclass(frozen=True, kw_only=True)
class Accelerator:
    """One `AcceleratorType` that custom training takes."""

    name: str
    compute: str
    """As Compute Engine calls it."""
    flex_start: bool
    regions: frozenset[str]
    needs_reservation: bool
    needs_hyperdisk: bool


ACCELERATORS = {row.name: row for row in tables.typed(Accelerator, "vertex_accelerators.csv")}
_NAMES = {row.compute: row.name for row in ACCELERATORS.values()}
FIXED_SHAPES = {
    one.name: (_NAMES[one.accelerator], one.gpus)
    for one in facts.machines().values()
    if one.accelerator and one.vertex
}
"""Machine type -> the one accelerator it carries, how many: S1."""

_N1_COUNTS = {
    (row["accelerator"], int(vcpus)): tuple(int(count) for count in row["gpus"].split())
    for row in tables.records("vertex_attachable.csv")
    for vcpus in row["vcpus"].split()
}
_CPU_MACHINES = frozenset(
    f"{row['kind']}-{vcpus}"
    for row in tables.records("vertex_cpu_machines.csv")
    for vcpus in row["vcpus"].split()
)

REGIONS = {region for region, row in facts.places().items() if row["vertex"]}.union(
    *(row.regions for row in ACCELERATORS.values())
)
"""Where custom training runs: S2, with the regions of its feature table."""


def allowed_counts(machine_type: str, accelerator: str) -> tuple[int, ...]:
    """How many of the accelerator the machine may carry; empty where the two do not go together."""
    fixed = FIXED_SHAPES.get(machine_type)
    if fixed is not None:
        return (fixed[1],) if fixed[0] == accelerator else ()
    if machine_type not in _CPU_MACHINES or not machine_type.startswith("n1-"):
        return ()
    return _N1_COUNTS.get((accelerator, vcpus(machine_type)), ())


def offered(machine_type: str, region: str) -> bool:
    """Whether custom training has the machine in the region at all."""
    fixed = FIXED_SHAPES.get(machine_type)
    if fixed is not None:
        return region in ACCELERATORS[fixed[0]].regions
    return machine_type in _CPU_MACHINES


def vcpus(machine_type: str) -> int:
    """The vCPUs of a machine: in its name where that ends with them, else as Compute Engine lists it."""
    last = machine_type.rpartition("-")[2]
    return int(last) if last.isdigit() else facts.machines()[machine_type].vcpus


_METRIC = "aiplatform.googleapis.com/custom_model_training_"


def metric(accelerator: str, *, preemptible: bool) -> str:
    """The metric that a job's GPUs charge: Spot and flex-start use the preemptible one (S3, S4)."""
    row = facts.gpu_quotas()[ACCELERATORS[accelerator].compute]
    return row.vertex_preemptible_metric if preemptible else row.vertex_metric


def cpu_metric(machine_type: str, strategy: str) -> str:
    """The metric that a job's vCPUs charge (S5); empty where no text names one.

    A Spot job of any machine charges the preemptible vCPUs. Nobody has reported it of flex-start.
    """
    if strategy == "FLEX_START":
        return ""
    if strategy == "SPOT":
        return f"{_METRIC}preemptible_cpus"
    what = _CPUS.get(machine_type.partition("-")[0])
    return f"{_METRIC}{what}" if what else ""


_CPUS = {
    "n1": "cpus", "e2": "cpus", "n2": "n2_cpus", "n4": "n4_cpus", "c2": "c2_cpus", "m1": "m1_cpus",
    "g2": "g2_cpus", "a2": "a2_cpus", "a3": "a3_cpus",
}  # fmt: skip
