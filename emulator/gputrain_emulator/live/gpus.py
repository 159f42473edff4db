"""What nvidia-smi calls the GPUs of Google's machine types.

Names and memory as NVIDIA's driver prints them; from memory of such printouts, none was taken on Google
Cloud.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from typing import Any

FABRIC = "Completed"
"""The state of NVSwitch on machines that have it: ``Not Started``, ``In Progress``, ``Completed``."""

# Google's accelerator type -> (nvidia-smi's name, MiB).
NAMES: Mapping[str, tuple[str, int]] = {
    "nvidia-tesla-k80": ("Tesla K80", 11441),
    "nvidia-tesla-p4": ("Tesla P4", 7680),
    "nvidia-tesla-p100": ("Tesla P100-PCIE-16GB", 16384),
    "nvidia-tesla-v100": ("Tesla V100-SXM2-16GB", 16384),
    "nvidia-tesla-t4": ("Tesla T4", 15360),
    "nvidia-l4": ("NVIDIA L4", 23034),
    "nvidia-tesla-a100": ("NVIDIA A100-SXM4-40GB", 40960),
    "nvidia-a100-80gb": ("NVIDIA A100-SXM4-80GB", 81920),
    "nvidia-h100-80gb": ("NVIDIA H100 80GB HBM3", 81559),
    "nvidia-h100-mega-80gb": ("NVIDIA H100 80GB HBM3", 81559),
    "nvidia-h200-141gb": ("NVIDIA H200", 143771),
    "nvidia-b200": ("NVIDIA B200", 183359),
    "nvidia-gb200": ("NVIDIA GB200", 189471),
    "nvidia-rtx-pro-6000": ("NVIDIA RTX PRO 6000 Blackwell Server Edition", 97887),
}


# Those of a whole machine talk through NVSwitch, which a daemon sets up after the driver came up.
SWITCHED = ("nvidia-tesla-a100", "nvidia-a100-80gb", "nvidia-h100-80gb", "nvidia-h100-mega-80gb",
            "nvidia-h200-141gb", "nvidia-b200")  # fmt: skip


def gpus(accelerator: str, count: int) -> Sequence[Mapping[str, Any]]:
    """One row a GPU, for nvidia-smi; a kind that is not in the table goes by Google's name."""
    name, memory_mib = NAMES.get(accelerator, (accelerator, 16384))
    fabric = {"fabric": FABRIC} if accelerator in SWITCHED and count >= 8 else {}
    return [{"name": name, "memory_mib": memory_mib, **fabric}] * count
