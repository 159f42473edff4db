"""Whether this machine belongs to its job's current attempt, by the metadata of the job's record.

docs/design/record.md has the table. A machine asks at boot, and every few seconds while it runs.
"""

from __future__ import annotations

import time
from collections.abc import Callable
from typing import Any

from .cloud import Bucket, CallFailed, is_no_answer
from .contract import CANCELLED, SUPERSEDED

MINE = "mine"

MISSING_TRIES, MISSING_EVERY_S = 3, 30.0
"""A record that is not there at boot is looked for so often; then it counts as deleted."""

DENIED_FOR_S = 300.0
"""A role that was granted a moment ago may take minutes to hold."""

SILENT_FOR_S = 600.0
"""How long a bucket that does not answer is waited for at boot."""

AGAIN_S = 10.0


class Fence:
    """The record of one job, by its name in a bucket, as the machine of one attempt reads it."""

    def __init__(self, bucket: Bucket, record: str, attempt: str) -> None:
        self._bucket, self._record, self._attempt = bucket, record, attempt

    def at_boot(
        self, sleep: Callable[[float], None] = time.sleep, now: Callable[[], float] = time.monotonic
    ) -> str:
        """MINE, CANCELLED or SUPERSEDED. Raises CallFailed where the record cannot be read in time."""
        missing, began = 0, now()
        while True:
            try:
                found = self._ask()
            except CallFailed as error:
                longest = SILENT_FOR_S if is_no_answer(error) else DENIED_FOR_S if error.code == 403 else 0
                if now() - began >= longest:
                    raise
                pause_s = AGAIN_S
            else:
                missing += found is None
                if found is not None or missing == MISSING_TRIES:
                    return found or SUPERSEDED
                pause_s = MISSING_EVERY_S
            sleep(pause_s)

    def while_running(self) -> str:
        """The same; MINE also where the record cannot be read, or was deleted: that stops no training."""
        try:
            return self._ask() or MINE
        except Exception:  # noqa: BLE001  # an answer that is no bucket's stops no training either
            return MINE

    def _ask(self) -> Any:
        """None where there is no record."""
        found = self._bucket.metadata_of(self._record)
        if found is None:
            return None
        if found.get("attempt") != self._attempt:
            return SUPERSEDED
        return CANCELLED if found.get("wanted") == "cancel" else MINE
