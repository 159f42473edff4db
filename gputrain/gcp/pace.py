"""Many streams, few calls a minute: each has its turn."""

from __future__ import annotations

import time
from collections.abc import Callable

from gputrain.gcp.shared import Kept
from gputrain.threads import new_lock

AT_ONCE = 10
"""Calls that may come at the same moment, however many streams wait for their turn."""


class Pace:
    """Whose turn it is to make a call, so that all streams together stay within calls a minute.

    Args:
        each_s: seconds of one call; with n streams each has its turn every n times that.
        few: up to so many streams each have a turn whenever they ask.
        idle_s: a stream that has not asked for so long counts no more.
    """

    def __init__(
        self, *, each_s: float, few: int = 0, idle_s: float = 120.0, now: Callable[[], float] = time.monotonic
    ) -> None:
        self._each_s = each_s
        self._few = few
        self._now = now
        self._lock = new_lock()
        self._free_at = float("-inf")
        self._taken_at: Kept[str, float] = Kept(idle_s=idle_s, now=now)

    def take(self, stream: str, *, is_continued: bool = False) -> bool:
        """Whether a stream may make a call now; one that goes on with the last may always."""
        with self._lock:
            now, taken_at = self._now(), self._taken_at.get(stream)  # who asks counts, also in vain
            streams = len(self._taken_at)
            pause_s = 0.0 if streams <= self._few else self._each_s * streams
            if not is_continued and taken_at is not None and 0 <= now - taken_at < pause_s:
                return False
            if pause_s and not is_continued and not self._is_free(now):
                return False
            self._taken_at.put(stream, now)
            return True

    def _is_free(self, now: float) -> bool:
        """Whether one more call is within the pace: many streams may be due at the same moment."""
        was_set_back = self._free_at - self._each_s > now
        free_at = max(now - AT_ONCE * self._each_s, now if was_set_back else self._free_at)
        if free_at > now:
            return False
        self._free_at = free_at + self._each_s
        return True

    def note(self, stream: str) -> None:
        """A stream has made a call, by turn or not."""
        self._taken_at.put(stream, self._now())
