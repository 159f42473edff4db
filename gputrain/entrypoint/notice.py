"""Compute Engine's word that this machine will go: preempted, or ended for host maintenance.

The metadata server answers a long poll when a value changes; the ETag survives its restarts. It is asked
directly, never through a proxy. Source: Compute Engine's metadata server documentation, read 2026-11-20.
"""

from __future__ import annotations

import os
import threading
import time

TYPE_CHECKING = False
if TYPE_CHECKING:
    from typing import Callable, Tuple

POLL_S = 300
"""How long one question stays open at the metadata server."""

RETRY_S = 5.0
"""Pause after a question that failed."""

_WORDS = {
    "preempted": {"TRUE": "preempted"},
    "maintenance-event": {"TERMINATE_ON_HOST_MAINTENANCE": "maintenance"},
}
"""Key under instance/ -> value that announces the end -> reason of the stop."""


def watch(tell: Callable[[str], None]) -> None:
    """Have `tell` called with the reason, from another thread, when this machine's end is announced."""
    for key in _WORDS:
        threading.Thread(target=_watch, args=(key, tell), name=f"gputrain-{key}", daemon=True).start()


def _watch(key: str, tell: Callable[[str], None]) -> None:
    etag, last = "0", ""
    while True:
        try:
            status, value, etag = _ask(key, etag)
        except (OSError, ValueError):
            status, value, etag = 0, "", "0"
        if status == 404:  # a metadata server that knows no such key, as inside GKE
            return
        reason = _WORDS[key].get(value)
        if status == 200 and reason:
            tell(reason)
            return
        if (
            status != 200 or value == last
        ):  # the latter also tames a server that does not hold the question open
            time.sleep(RETRY_S if status != 200 else 1.0)
        last = value


def _ask(key: str, etag: str) -> Tuple[int, str, str]:
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
