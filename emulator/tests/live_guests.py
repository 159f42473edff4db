"""What the tests of live mode share: waiting for the emulated world, and looking at real processes.

A script whose machine goes down ends in `exec sleep`: bash holds signals back while it forks, so a SIGTERM
to all may miss the child that it makes at that moment, and a system waits its whole grace for it.
"""

from __future__ import annotations

import os
import subprocess
from collections.abc import Callable

import pytest

from gputrain_emulator import Cloud
from gputrain_emulator.live import why_no_walls

PATIENCE_S = 60.0
REASON = why_no_walls()
needs_walls = pytest.mark.skipif(REASON is not None, reason=f"no live VMs here: {REASON}")


def until(cloud: Cloud, claim: Callable[[], bool]) -> bool:
    """Wait for something to happen in the emulated world."""
    return cloud.clock.wait_for(claim, PATIENCE_S)


def nap(seconds: int) -> str:
    """A command that sleeps, told from those of another run on this computer."""
    return f"sleep {seconds}.{os.getpid()}"


def running(command: str) -> list[str]:
    """Processes of this computer with this command line."""
    listed = subprocess.run(["ps", "-A", "-o", "args="], capture_output=True, text=True, check=True).stdout
    return [line for line in listed.splitlines() if line == command]
