"""Whether the ranks of this node say anything: by lines, and by the mark that `ddp` leaves at every step."""

from __future__ import annotations

import contextlib
import os
import time

from . import contract

TYPE_CHECKING = False
if TYPE_CHECKING:
    from typing import Optional

    from .logs import Pump

_LOOKS = 40
"""How many looks there are in a timeout: a hang is found this much later at most."""


class Silence:
    """How long the node has been silent, and whether that is too long. Without a timeout, never."""

    def __init__(self, timeout: Optional[float], pump: Pump) -> None:
        self._timeout = timeout
        self._pump = pump
        self._is_quiet = False
        self._look_at = float("inf")

    def begin(self) -> None:
        """The ranks have been started."""
        self._pump.heard_at = time.monotonic()
        if self._timeout is not None:
            self._look_at = self._pump.heard_at + self._timeout

    def deadline(self) -> float:
        """When `look` should be called at the latest."""
        return self._look_at

    def look(self, folder: str) -> Optional[bool]:
        """Whether the node has become quiet, or has spoken again; None where nothing has changed."""
        now = time.monotonic()
        if self._timeout is None or now < self._look_at:
            return None
        silent_s = self.seconds(folder)
        was_quiet, self._is_quiet = self._is_quiet, silent_s >= self._timeout
        # Once quiet, the next word is waited for: other nodes may speak, and this one after them.
        self._look_at = now + (self._timeout / _LOOKS if self._is_quiet else self._timeout - silent_s)
        return None if was_quiet is self._is_quiet else self._is_quiet

    def seconds(self, folder: str) -> float:
        """For how long no rank has said, reported or stepped anything."""
        silent_s = time.monotonic() - self._pump.heard_at
        with contextlib.suppress(OSError):
            silent_s = min(silent_s, time.time() - os.stat(os.path.join(folder, contract.BEAT_FILE)).st_mtime)
        return max(0.0, silent_s)
