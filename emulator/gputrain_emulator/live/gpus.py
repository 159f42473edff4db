"""What nvidia-smi calls the GPUs of Google's machine types."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from typing import Any

from gputrain_emulator import facts

FABRIC = "Completed"
"""The state of NVSwitch on machines that have it: ``Not Started``, ``In Progress``, ``Completed``."""


def gpus(accelerator: str, count: int) -> Sequence[Mapping[str, Any]]:
    """One row a GPU, for nvidia-smi; a kind that is not in the table goes by Google's name."""
    row = facts.gpus().get(accelerator, {"name": accelerator, "memory_mib": "16384", "nvswitch": "no"})
    fabric = {"fabric": FABRIC} if row["nvswitch"] == "yes" and count >= 8 else {}
    return [{"name": row["name"], "memory_mib": int(row["memory_mib"]), **fabric}] * count
