"""Cloud Quotas v1: the limits in effect, and wishes for other ones."""

from __future__ import annotations

from gputrain_emulator.cloudquotas.preferences import Preferences
from gputrain_emulator.cloudquotas.service import SERVICE

__all__ = ["SERVICES", "Preferences"]

SERVICES = (SERVICE,)
