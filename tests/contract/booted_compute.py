"""Compute Engine for the contract suite, on VMs that boot: systemd, Google's agent and script runner."""

from contextlib import contextmanager

import pytest

from gputrain_emulator.live import USERLAND, why_no_userland
from tests.contract.clouds import live_cloud
from tests.contract.emulated_compute import ComputeRoad


@contextmanager
def world(_name, _folder):
    """The road in a cloud of its own; skipped, with the reason, where no VM can boot."""
    reason = why_no_userland(USERLAND)
    if reason is not None:
        pytest.skip(f"no machine to boot: {reason}")
    with live_cloud(USERLAND) as cloud:
        yield ComputeRoad(cloud)
