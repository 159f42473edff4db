"""The Cloud Billing catalog v1: the SKUs of Compute Engine, look-alikes included."""

from __future__ import annotations

from gputrain_emulator.cloudbilling.service import SERVICE
from gputrain_emulator.cloudbilling.skus import PriceList

SERVICES = (SERVICE,)

__all__ = ["SERVICES", "PriceList"]
