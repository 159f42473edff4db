"""Live mode: a VM or a Vertex AI replica of the emulator is a real process on this computer."""

from __future__ import annotations

from gputrain_emulator.live.guest_process import why_no_walls
from gputrain_emulator.live.mode import ClusterNames, LiveMode

__all__ = ["ClusterNames", "LiveMode", "why_no_walls"]
