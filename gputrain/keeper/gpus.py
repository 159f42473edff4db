"""When the GPUs of a machine can be used: the driver answers, sees all of them, and NVSwitch has joined them.

The driver lists GPUs before the fabric manager is done with them, and CUDA then fails with error 802.
"""

from __future__ import annotations

import time

from .keeper import Failed

TYPE_CHECKING = False
if TYPE_CHECKING:
    from .keeper import Keeper

ANSWER_S = 120.0
"""How long nvidia-smi may take: the driver may hang while it comes up, and what asks it cannot be killed."""

DRIVER = ("nvidia-smi", "-L")
FABRIC = ("nvidia-smi", "--query-gpu=fabric.state,fabric.status", "--format=csv,noheader")
JOINED = ("completed, success", "n/a, n/a", "not supported, not supported")
"""What stands in a line of a GPU that can be used, without brackets: the last two where there is no NVSwitch.
Source: NVIDIA's gpu-driver-container, its readiness probe, read 2026-11-22."""

EVERY_S = 2.0


def wait(keeper: Keeper, wanted: int, wait_s: float) -> None:
    """Wait until they are ready.

    Args:
        wanted: how many there should be.
        wait_s: how long all of it may take.

    Raises:
        Failed: they are not, or are others.
    """
    deadline = time.monotonic() + wait_s
    while True:
        lack = _lack(keeper, wanted)
        if not lack:
            return
        if time.monotonic() > deadline:
            raise Failed(lack.format(wait_s))
        keeper.sleep(min(EVERY_S, max(0.1, deadline - time.monotonic())))


def _lack(keeper: Keeper, wanted: int) -> str:
    """What is still missing; empty: nothing. Raises Failed where waiting mends nothing."""
    code, said = keeper.call(DRIVER, within_s=ANSWER_S)
    if code:
        return (
            "nvidia-smi is missing or does not answer after {} s:"
            " take a boot image with the NVIDIA driver (image_family=), or leave secure_boot off"
        )
    seen = sum(line.startswith("GPU ") for line in said.splitlines())
    if seen != wanted:
        raise Failed(f"nvidia-smi sees {seen} GPUs, and this machine should have {wanted}")
    code, said = keeper.call(FABRIC, within_s=ANSWER_S)
    if code:  # a driver that does not know the question is of a time before such machines
        return ""
    states = [line.strip() for line in said.splitlines()]
    apart = [state for state in states if state.lower().replace("[", "").replace("]", "") not in JOINED]
    if not apart:
        return ""
    told = apart[0].replace("{", "").replace("}", "")
    return (
        f"NVSwitch has not joined {len(apart)} of {len(states)} GPUs after {{}} s ({told}), and CUDA would"
        " fail with error 802: take a boot image whose nvidia-fabricmanager is of its driver's version"
    )
