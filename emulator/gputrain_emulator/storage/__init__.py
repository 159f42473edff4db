"""Cloud Storage JSON v1: generations and preconditions enforced, bytes in a folder of the emulator's own."""

from __future__ import annotations

from gputrain_emulator.storage import object_service, upload_service
from gputrain_emulator.storage.conditions import too_fast
from gputrain_emulator.storage.service import SERVICE
from gputrain_emulator.storage.state import Storage

__all__ = ["SERVICES", "Storage", "object_service", "too_fast", "upload_service"]

SERVICES = (SERVICE,)
