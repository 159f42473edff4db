"""The GPUs of this machine, as its driver counts them."""

from __future__ import annotations

import subprocess


def visible() -> int | None:
    """How many GPUs the driver sees; None where it does not answer."""
    try:
        command = ["nvidia-smi", "-L"]
        done = subprocess.run(
            command, stdout=subprocess.PIPE, stderr=subprocess.DEVNULL, timeout=120, check=False
        )
    except (OSError, subprocess.TimeoutExpired):
        return None
    return (
        sum(line.startswith(b"GPU ") for line in done.stdout.splitlines()) if done.returncode == 0 else None
    )
