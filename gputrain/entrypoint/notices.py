"""Google's notices that this machine will go: preempted, or for host maintenance.

The metadata server answers a long poll when a value changes. It is asked directly, never through a proxy.
Source: Compute Engine's documentation, read 2026-11-20.
"""

from __future__ import annotations

import os
import threading
import time
from collections.abc import Callable

POLL_S = 300
"""How long one question stays open."""

RETRY_S = 5.0
"""Pause after a question that failed."""

_NOTICES = (
    ("preempted", "TRUE", "preempted"),
    ("maintenance-event", "TERMINATE_ON_HOST_MAINTENANCE", "maintenance"),
)
"""Key under instance/, the value that announces the end, and the reason of the stop."""


def watch(tell: Callable[[str], None]) -> None:
    """Have `tell` called with the reason, from another thread, when this machine's end is near."""
    for notice in _NOTICES:
        threading.Thread(target=_watch, args=(*notice, tell), daemon=True).start()


def _watch(key: str, announces: str, reason: str, tell: Callable[[str], None]) -> None:
    etag, last = "0", ""
    while True:
        try:
            status, value, etag = _ask(key, etag)
        except (OSError, ValueError):
            status, value, etag = 0, "", "0"
        if status == 404:  # a metadata server that knows no such key, as inside GKE
            return
        if status == 200 and value == announces:
            tell(reason)
            return
        if status != 200 or value == last:  # which also tames a server that does not hold the question open
            time.sleep(RETRY_S if status != 200 else 1.0)
        last = value


def _ask(key: str, etag: str) -> tuple[int, str, str]:
    """Status, value and the ETag to ask with next time."""
    import http.client

    server = os.environ.get("GCE_METADATA_HOST") or "metadata.google.internal"
    path = f"/computeMetadata/v1/instance/{key}?timeout_sec={POLL_S}&last_etag={etag}&wait_for_change=true"
    connection = http.client.HTTPConnection(server, timeout=POLL_S + 30)
    try:
        connection.request("GET", path, headers={"Metadata-Flavor": "Google"})
        answer = connection.getresponse()
        value = answer.read(4096).decode("utf-8", "replace").strip()
        return answer.status, value, answer.getheader("ETag") or "0"
    except http.client.HTTPException as error:
        raise ValueError(str(error)) from error
    finally:
        connection.close()
