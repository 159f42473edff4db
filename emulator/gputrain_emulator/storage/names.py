"""What buckets and objects may be called.

Sources: cloud.google.com/storage/docs/buckets#naming and /objects#naming, read 2026-11-22.
"""

from __future__ import annotations

import re

from gputrain_emulator.storage.refusals import invalid, required

MAX_OBJECT_BYTES = 1024

_BUCKET = re.compile(r"[a-z0-9]([a-z0-9._-]{1,220})[a-z0-9]")
_ADDRESS = re.compile(r"[0-9]{1,3}(\.[0-9]{1,3}){3}")


def check_bucket(name: str) -> None:
    """400 for a name that no bucket may have."""
    parts = name.split(".")
    longest = 63 if len(parts) == 1 else 222
    fine = _BUCKET.fullmatch(name) and len(name) <= longest and all(0 < len(part) <= 63 for part in parts)
    misread = name.replace("0", "o").replace("1", "l").replace("3", "e")
    if not fine or _ADDRESS.fullmatch(name) or name.startswith("goog") or "google" in misread:
        raise invalid(f"Invalid bucket name: '{name}'")


def check_object(name: str) -> None:
    """400 for a name that no object may have."""
    if not name:
        raise required("Required object name is missing.")
    if len(name.encode("utf-8", "surrogatepass")) > MAX_OBJECT_BYTES:
        raise invalid("The maximum object name length is 1024 characters, but got a longer name.")
    if name in (".", "..") or "\n" in name or "\r" in name or name.startswith(".well-known/acme-challenge/"):
        raise invalid("Invalid object name.")
