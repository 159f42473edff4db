"""Compute Engine v1: every handler of it, registered by importing this package."""

from __future__ import annotations

from gputrain_emulator.compute import (  # noqa: F401 - each registers its handlers
    advice,
    bulk,
    disks,
    groups,
    images,
    instances,
    networks,
    operations,
    places,
    templates,
)
from gputrain_emulator.compute.state import COMPUTE, Compute

SERVICES = (COMPUTE,)

__all__ = ["SERVICES", "Compute"]
