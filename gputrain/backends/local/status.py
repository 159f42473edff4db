"""The document that says how far a job has come: written by its supervisor, read by anybody.

Standard library only. What is read was perhaps damaged or written by another version: a field that is not
what it should be is as good as not there, and a state of an unknown word is none.
"""

from __future__ import annotations

import math
import os

from gputrain.backends.local import folder

TYPE_CHECKING = False
if TYPE_CHECKING:
    from collections.abc import Mapping
    from typing import Any

SCHEMA = 1

# The words of gputrain.lifecycle.State, which cannot be imported without attrs; a test compares them.
QUEUED, PROVISIONING, RUNNING, INTERRUPTED = "queued", "provisioning", "running", "interrupted"
STOPPING, SUCCEEDED, FAILED, CANCELLED, EXPIRED = "stopping", "succeeded", "failed", "cancelled", "expired"
STATES = (
    QUEUED, PROVISIONING, RUNNING, INTERRUPTED, STOPPING, SUCCEEDED, FAILED, CANCELLED, EXPIRED
)  # fmt: skip


class Status:
    """How far a job has come, as its document says."""

    def __init__(self, told: Mapping[str, Any]) -> None:
        self.raw = dict(told)
        is_known = told.get("schema") == SCHEMA and told.get("state") in STATES
        self.state: str | None = told["state"] if is_known else None
        self.attempt = _whole(told.get("attempt")) or 0
        self.detail = _text(told.get("detail"))
        self.started_at = _moment(told.get("started_at"))
        self.ended_at = _moment(told.get("ended_at"))
        self.exit_code = _whole(told.get("exit_code"))
        self.disk_was_full = told.get("disk_was_full") is True
        lost = told.get("lost")
        pairs = lost.items() if isinstance(lost, dict) else ()
        self.lost = {int(node): _whole(number) or 0 for node, number in pairs if str(node).isdigit()}
        """The nodes whose agent a signal ended, and the signal."""


def read(path: str) -> Status | None:
    """The status of the job in a folder; None where none was written yet."""
    name = os.path.join(path, folder.STATE)
    told = folder.read_json(name)
    if told is None and os.path.lexists(name):
        return Status({})
    return None if told is None else Status(told)


def write(path: str, told: Mapping[str, Any]) -> None:
    """Write the status whole. Raises OSError where that cannot be done; the folder is never made anew."""
    folder.write_json(os.path.join(path, folder.STATE), {"schema": SCHEMA, **told})


def _whole(value: Any) -> int | None:
    is_one = isinstance(value, int) and not isinstance(value, bool) and abs(value) < 1 << 31
    return value if is_one else None


def _text(value: Any) -> str:
    return value.encode("utf-8", "backslashreplace").decode() if isinstance(value, str) else ""


def _moment(value: Any) -> float | None:
    is_one = isinstance(value, (int, float)) and not isinstance(value, bool)
    return float(value) if is_one and math.isfinite(value) and 0 <= value < 4e9 else None
