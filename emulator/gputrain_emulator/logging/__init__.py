"""Cloud Logging v2: entries written, found again by filter and order, some of them late."""

from __future__ import annotations

from gputrain_emulator.logging.service import SERVICE, Logs

__all__ = ["SERVICES", "Logs"]

SERVICES = (SERVICE,)
