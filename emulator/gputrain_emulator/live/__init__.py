"""Live mode: a VM or a Vertex AI replica of the emulator is a real process on this computer."""

from __future__ import annotations

from gputrain_emulator.live.guest_process import why_no_walls
from gputrain_emulator.live.mode import LiveMode
from gputrain_emulator.live.userland import USERLAND, why_no_userland

__all__ = ["USERLAND", "LiveMode", "why_no_userland", "why_no_walls"]
