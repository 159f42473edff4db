"""Cloud Storage JSON v1: rules kept as Google keeps them, bytes in a folder of the emulator's own."""

from __future__ import annotations

from gputrain_emulator.storage import (
    bucket_service,
    copy_service,
    object_service,
    upload_service,
    xml_service,
)
from gputrain_emulator.storage.refusals import too_fast
from gputrain_emulator.storage.service import SERVICE
from gputrain_emulator.storage.state import Storage

__all__ = [
    "SERVICES",
    "Storage",
    "bucket_service",
    "copy_service",
    "object_service",
    "too_fast",
    "upload_service",
    "xml_service",
]

SERVICES = (SERVICE,)
