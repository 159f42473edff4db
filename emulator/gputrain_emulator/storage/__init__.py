"""Cloud Storage JSON v1: rules kept as Google keeps them, bytes in a folder of the emulator's own."""

from __future__ import annotations

from gputrain_emulator.storage import upload_service
from gputrain_emulator.storage.buckets import too_fast
from gputrain_emulator.storage.service import SERVICE
from gputrain_emulator.storage.uploads import Storage

__all__ = ["SERVICES", "Storage", "too_fast", "upload_service"]

SERVICES = (SERVICE,)
