"""Compute Engine v1."""

from __future__ import annotations

from gputrain.emulator.compute import places
from gputrain.emulator.compute.service import COMPUTE

__all__ = ["SERVICES", "places"]

SERVICES = (COMPUTE,)
