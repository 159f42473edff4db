"""Times as the JSON API writes them."""

from __future__ import annotations

import functools
from datetime import datetime, timezone
from email.utils import formatdate


@functools.lru_cache(maxsize=4096)  # an object tells the same moment three times
def milliseconds(when: float) -> str:
    """`2026-11-20T12:00:00.000Z`."""
    text = datetime.fromtimestamp(when, timezone.utc).isoformat(timespec="milliseconds")
    return text.replace("+00:00", "Z")


@functools.lru_cache(maxsize=4096)
def http_date(when: float) -> str:
    """As the headers of HTTP have it."""
    return formatdate(when, usegmt=True)
