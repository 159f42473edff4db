"""This computer's Podman, which holds virtual machines that boot.

What works (Debian 12: podman 4.3.1, runc 1.1.5, 2026-11-21): runc, as crun refuses computers with both
kinds of control groups, and control groups by hand, as there is no systemd.
"""

from __future__ import annotations

import os
import shutil
from functools import cache

from gputrain_emulator.live.guest_process import PATH, why_no_walls

NEEDED = ("podman", "runc", "conmon", "catatonit", "netavark")
PLACES = f"{PATH}:/usr/libexec/podman:/usr/lib/podman"


@cache
def why_no_engine() -> str | None:
    """Why nothing can run in Podman here; None where it can."""
    refusal = why_no_walls()
    if refusal is not None:
        return refusal
    if os.geteuid() != 0:
        return "machines that boot need root's rights"
    missing = [name for name in NEEDED if program(name) is None]
    if missing:
        return f"not installed: {', '.join(missing)} (`make engine` installs them on Debian)"
    return None


def program(name: str) -> str | None:
    """Where a program of the engine lies; some are on nobody's PATH."""
    return shutil.which(name, path=PLACES)
