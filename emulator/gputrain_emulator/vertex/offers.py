"""What custom training sells: machines, accelerators, counts, regions and quota metrics.

Sources, all read 2026-11-20:
 S1 docs.cloud.google.com/gemini-enterprise-agent-platform/machine-learning/training/configure-compute
 S2 .../machine-learning/general/locations#accelerators (the daggered regions, not for training, left out)
 S3 .../machine-learning/training/schedule-jobs-dws
 S4 the quota metrics named by Google's vertex-ai-samples and by live reads; B200, GB200 and
    RTX PRO 6000 follow the same pattern but no live row of them was found
The sizes of machines without accelerators are general knowledge and were not checked against a page.
"""

from __future__ import annotations

from dataclasses import dataclass
from types import MappingProxyType


@dataclass(frozen=True, kw_only=True, slots=True)
class Accelerator:
    """One `AcceleratorType` that custom training takes."""

    name: str
    metric: str  # the part of the quota metric after `custom_model_training_`
    flex_start: bool  # S3: L4, A100, H100, H200 and B200 only
    regions: frozenset[str]
    needs_reservation: bool = False
    needs_hyperdisk: bool = False  # S1: the disk default is hyperdisk-balanced and pd-* does not boot


def _accelerator(
    name: str,
    metric: str,
    regions: str,
    *,
    flex: bool = False,
    reserved: bool = False,
    hyperdisk: bool = False,
) -> Accelerator:
    return Accelerator(
        name=name,
        metric=metric,
        flex_start=flex,
        regions=frozenset(regions.split()),
        needs_reservation=reserved,
        needs_hyperdisk=hyperdisk,
    )


_ACCELERATORS = (
    _accelerator(
        "NVIDIA_TESLA_T4",
        "nvidia_t4_gpus",
        "asia-east1 asia-east2 asia-northeast1 asia-northeast3 asia-south1 asia-southeast1 asia-southeast2"
        " australia-southeast1 europe-central2 europe-west1 europe-west2 europe-west3 europe-west4"
        " northamerica-northeast1 southamerica-east1 us-central1 us-east1 us-east4 us-west1 us-west2"
        " us-west4",
    ),
    _accelerator(
        "NVIDIA_TESLA_V100", "nvidia_v100_gpus", "asia-east1 europe-west4 us-central1 us-east1 us-west1"
    ),
    _accelerator(
        "NVIDIA_TESLA_P4",
        "nvidia_p4_gpus",
        "asia-southeast1 australia-southeast1 europe-west4 northamerica-northeast1 us-central1 us-east4"
        " us-west2",
    ),
    _accelerator(
        "NVIDIA_L4",
        "nvidia_l4_gpus",
        "asia-northeast3 asia-south1 asia-southeast1 europe-west2 europe-west4 me-central2"
        " northamerica-northeast2 us-central1 us-east1 us-east4 us-west1",
        flex=True,
    ),
    _accelerator(
        "NVIDIA_TESLA_A100",
        "nvidia_a100_gpus",
        "asia-northeast3 asia-southeast1 europe-west4 me-west1 us-central1 us-east1 us-west3 us-west4",
        flex=True,
    ),
    _accelerator(
        "NVIDIA_A100_80GB",
        "nvidia_a100_80gb_gpus",
        "asia-southeast1 europe-west4 us-central1 us-east4 us-east5",
        flex=True,
    ),
    _accelerator(
        "NVIDIA_H100_80GB",
        "nvidia_h100_gpus",
        "asia-northeast1 asia-northeast3 asia-south1 asia-southeast1 europe-west1 europe-west2 europe-west3"
        " europe-west4 northamerica-northeast2 us-central1 us-east4 us-east5 us-west1 us-west4",
        flex=True,
    ),
    _accelerator(
        "NVIDIA_H100_MEGA_80GB",
        "nvidia_h100_mega_gpus",
        "asia-east1 asia-northeast1 asia-southeast1 australia-southeast1 europe-north1 europe-west1"
        " europe-west3 europe-west4 us-central1 us-east4 us-east5 us-west1 us-west4",
    ),
    _accelerator(
        "NVIDIA_H200_141GB",
        "nvidia_h200_gpus",
        "asia-south1 asia-south2 europe-west1 europe-west4 us-central1 us-east4 us-east5 us-south1 us-west1",
        flex=True,
        hyperdisk=True,
    ),
    _accelerator(
        "NVIDIA_B200",
        "nvidia_b200_gpus",
        "asia-northeast1 asia-southeast1 europe-west4 us-central1 us-east1 us-east4 us-south1 us-west2"
        " us-west3",
        flex=True,
        hyperdisk=True,
    ),
    _accelerator("NVIDIA_GB200", "nvidia_gb200_gpus", "us-central1 us-east4", reserved=True, hyperdisk=True),
    _accelerator(
        "NVIDIA_RTX_PRO_6000",
        "nvidia_rtx_pro_6000_gpus",
        "asia-south2 asia-southeast1 europe-west4 us-central1 us-east1 us-east4",
    ),
)

ACCELERATORS = MappingProxyType({row.name: row for row in _ACCELERATORS})

#: Machine type -> (the one accelerator it carries, how many): S1.
FIXED_SHAPES = MappingProxyType(
    {
        "a2-highgpu-1g": ("NVIDIA_TESLA_A100", 1),
        "a2-highgpu-2g": ("NVIDIA_TESLA_A100", 2),
        "a2-highgpu-4g": ("NVIDIA_TESLA_A100", 4),
        "a2-highgpu-8g": ("NVIDIA_TESLA_A100", 8),
        "a2-megagpu-16g": ("NVIDIA_TESLA_A100", 16),
        "a2-ultragpu-1g": ("NVIDIA_A100_80GB", 1),
        "a2-ultragpu-2g": ("NVIDIA_A100_80GB", 2),
        "a2-ultragpu-4g": ("NVIDIA_A100_80GB", 4),
        "a2-ultragpu-8g": ("NVIDIA_A100_80GB", 8),
        "a3-highgpu-1g": ("NVIDIA_H100_80GB", 1),
        "a3-highgpu-2g": ("NVIDIA_H100_80GB", 2),
        "a3-highgpu-4g": ("NVIDIA_H100_80GB", 4),
        "a3-highgpu-8g": ("NVIDIA_H100_80GB", 8),
        "a3-megagpu-8g": ("NVIDIA_H100_MEGA_80GB", 8),
        "a3-ultragpu-8g": ("NVIDIA_H200_141GB", 8),
        "a4-highgpu-8g": ("NVIDIA_B200", 8),
        "a4x-highgpu-4g": ("NVIDIA_GB200", 4),
        "g2-standard-4": ("NVIDIA_L4", 1),
        "g2-standard-8": ("NVIDIA_L4", 1),
        "g2-standard-12": ("NVIDIA_L4", 1),
        "g2-standard-16": ("NVIDIA_L4", 1),
        "g2-standard-24": ("NVIDIA_L4", 2),
        "g2-standard-32": ("NVIDIA_L4", 1),
        "g2-standard-48": ("NVIDIA_L4", 4),
        "g2-standard-96": ("NVIDIA_L4", 8),
        "g4-standard-48": ("NVIDIA_RTX_PRO_6000", 1),
        "g4-standard-96": ("NVIDIA_RTX_PRO_6000", 2),
        "g4-standard-192": ("NVIDIA_RTX_PRO_6000", 4),
        "g4-standard-384": ("NVIDIA_RTX_PRO_6000", 8),
    }
)

_UP_TO_4 = ((1, 2, 4), (1, 2, 4), (1, 2, 4), (2, 4), (4,), (4,))
_UP_TO_8 = ((1, 2, 4, 8), (1, 2, 4, 8), (2, 4, 8), (4, 8), (8,), (8,))
_N1_ROWS = MappingProxyType(
    {  # vCPUs -> the row of the tables above: stricter than Compute (S1)
        2: 0,
        4: 0,
        8: 1,
        16: 2,
        32: 3,
        64: 4,
        96: 5,
    }
)
_N1_COUNTS = MappingProxyType(
    {
        "NVIDIA_TESLA_T4": _UP_TO_4,
        "NVIDIA_TESLA_P4": _UP_TO_4,
        "NVIDIA_TESLA_V100": _UP_TO_8,
    }
)


def _sizes(family: str, vcpus: str) -> frozenset[str]:
    return frozenset(f"{family}-{size}" for size in vcpus.split())


N1_MACHINES = (
    _sizes("n1-standard", "4 8 16 32 64 96")
    | _sizes("n1-highmem", "2 4 8 16 32 64 96")
    | _sizes("n1-highcpu", "16 32 64 96")
)

CPU_MACHINES = (
    _sizes("e2-standard", "4 8 16 32")
    | _sizes("e2-highmem", "2 4 8 16")
    | _sizes("e2-highcpu", "16 32")
    | _sizes("n2-standard", "4 8 16 32 48 64 80")
    | _sizes("n2-highmem", "2 4 8 16 32 48 64 80")
    | _sizes("n2-highcpu", "16 32 48 64 80")
    | _sizes("n2d-standard", "4 8 16 32 48 64 80 96 128 224")
    | _sizes("c2-standard", "4 8 16 30 60")
    | _sizes("c3-highcpu", "4 8 22 44 88 176")
    | _sizes("m1-ultramem", "40 80 160")
    | _sizes("m1-megamem", "96")
)

#: Where custom training runs: S2, with the regions of its feature table.
REGIONS = frozenset().union(*(row.regions for row in _ACCELERATORS)) | {
    "africa-south1",
    "asia-northeast2",
    "asia-southeast2",
    "australia-southeast2",
    "europe-southwest1",
    "europe-west6",
    "europe-west8",
    "europe-west9",
    "europe-west12",
    "me-central1",
    "northamerica-northeast2",
    "southamerica-west1",
}


def allowed_counts(machine_type: str, accelerator: str) -> tuple[int, ...]:
    """How many of the accelerator the machine may carry; empty where the two do not go together."""
    fixed = FIXED_SHAPES.get(machine_type)
    if fixed is not None:
        return (fixed[1],) if fixed[0] == accelerator else ()
    if machine_type not in N1_MACHINES or accelerator not in _N1_COUNTS:
        return ()
    return _N1_COUNTS[accelerator][_N1_ROWS[vcpus(machine_type)]]


def offered(machine_type: str, region: str) -> bool:
    """Whether custom training has the machine in the region at all."""
    fixed = FIXED_SHAPES.get(machine_type)
    if fixed is not None:
        return region in ACCELERATORS[fixed[0]].regions
    return machine_type in N1_MACHINES or machine_type in CPU_MACHINES


def vcpus(machine_type: str) -> int:
    """The vCPUs of a machine whose name ends with them (N1 and the machines without accelerators)."""
    return int(machine_type.rpartition("-")[2])


def metric(accelerator: str | None, *, preemptible: bool) -> str:
    """The quota metric that a job charges: Spot and flex-start use the preemptible one (S3, S4)."""
    what = "cpus" if accelerator is None else ACCELERATORS[accelerator].metric
    return f"aiplatform.googleapis.com/custom_model_training_{'preemptible_' if preemptible else ''}{what}"
