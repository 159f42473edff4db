"""The emulated cloud's clock: it stands still until told to move, or runs with the wall when asked to."""

from __future__ import annotations

import functools
import heapq
import itertools
import re
import threading
import time
from collections.abc import Callable
from datetime import datetime, timedelta, timezone

EPOCH = datetime(2026, 11, 20, 12, 0, tzinfo=timezone.utc).timestamp()
"""Where a standing clock starts, so that two runs of a test read the same."""

_PACIFIC = timezone(timedelta(hours=-8))


def compute_time(when: float) -> str:
    """``when`` as Compute Engine prints it: Pacific offset, milliseconds."""
    return datetime.fromtimestamp(when, _PACIFIC).isoformat(timespec="milliseconds")


def zulu_time(when: float) -> str:
    """``when`` as the other Google APIs print it: UTC with a Z, microseconds."""
    return datetime.fromtimestamp(when, timezone.utc).isoformat(timespec="microseconds")[:-6] + "Z"


_DAY, _HOUR = "[0-9]{4}-[0-9]{2}-[0-9]{2}", "[0-9]{2}:[0-9]{2}"
_TIME = re.compile(rf"({_DAY})[Tt ]({_HOUR}:[0-9]{{2}})(?:\.([0-9]{{1,9}}))?([Zz]|[+-]{_HOUR})")


@functools.lru_cache(maxsize=1 << 16)
def parse_ns(text: str) -> int:
    """Nanoseconds since 1970 of an RFC 3339 time, or of a date alone; raises ValueError."""
    found = _TIME.fullmatch(f"{text}T00:00:00Z" if re.fullmatch(_DAY, text) else text)
    if found is None:
        raise ValueError(f"{text!r} is not an RFC 3339 time")
    date, clock, fraction, zone = found.groups()
    offset = "+00:00" if zone in "Zz" else zone
    seconds = int(datetime.fromisoformat(f"{date}T{clock}{offset}").timestamp())
    return seconds * 10**9 + int((fraction or "").ljust(9, "0"))


def parse_time(text: str) -> float:
    """Seconds since 1970 of what `parse_ns` reads."""
    return parse_ns(text) / 1e9


class Event:
    """Something the clock will do; ``cancel()`` is safe at any time, also afterwards."""

    def __init__(self, when: float, action: Callable[[], None]) -> None:
        self.when = when
        self.action: Callable[[], None] | None = action

    def cancel(self) -> None:
        self.action = None


class Clock:
    """Time and its events. Every event runs under ``lock``, in order of time, with ``now()`` at its time.

    Args:
        wall: run with real time from now on; ``advance`` then jumps ahead of it.
        start: where a standing clock begins (seconds since 1970).
    """

    def __init__(self, *, wall: bool = False, start: float = EPOCH) -> None:
        self.lock = threading.RLock()
        self.wall = wall
        self._wake = threading.Condition(self.lock)
        self._base = time.time() if wall else start
        self._real_start = time.monotonic()
        self._replaying: float | None = None
        self._queue: list[tuple[float, int, Event]] = []
        self._serial = itertools.count()
        self._closed = False
        self.failed: Callable[[Exception], None] = lambda _: None
        """Hears of an event that failed while the wall's clock ran; those after it happen all the same."""
        if wall:
            threading.Thread(target=self._run, name="emulator-clock", daemon=True).start()

    def now(self) -> float:
        """Seconds since 1970, in the emulated world."""
        replaying = self._replaying
        if replaying is not None:
            return replaying
        return self._base + (time.monotonic() - self._real_start if self.wall else 0.0)

    def ticking(self) -> float:
        """Like ``now()`` but moving with real time too: what rate-limit minutes are counted by."""
        return self._base + time.monotonic() - self._real_start

    def at(self, when: float, action: Callable[[], None]) -> Event:
        """Do ``action`` at ``when`` (at once on the next step when that is past)."""
        event = Event(when, action)
        with self.lock:
            heapq.heappush(self._queue, (when, next(self._serial), event))
            self._wake.notify_all()
        return event

    def after(self, seconds: float, action: Callable[[], None]) -> Event:
        """Do ``action`` in ``seconds`` from now."""
        return self.at(self.now() + seconds, action)

    def advance(self, seconds: float) -> None:
        """Move ``seconds`` ahead, doing everything that falls due on the way in its order."""
        if seconds < 0:
            raise ValueError(f"a clock does not go back: {seconds}")
        with self.lock:
            target = self.now() + seconds
            self._run_until(target)
            self._base += max(0.0, target - self.now())

    def advance_to(self, when: float) -> None:
        """Move to ``when`` if it lies ahead."""
        self.advance(max(0.0, when - self.now()))

    def next_event(self) -> float | None:
        """When the next event is due, or None."""
        with self.lock:
            while self._queue and self._queue[0][2].action is None:
                heapq.heappop(self._queue)
            return self._queue[0][0] if self._queue else None

    def wait_for(self, condition: Callable[[], bool], timeout_s: float) -> bool:
        """Let time pass until ``condition()`` holds, ``timeout_s`` at most; returns whether it does.

        A standing clock jumps from event to event; a running one waits, with ``lock`` released meanwhile.
        """
        with self.lock:
            deadline = self.now() + timeout_s
            while not condition() and not self._closed:
                due = self.next_event()
                if self.wall:
                    if not self._wake.wait(max(0.0, deadline - self.now())) and self.now() >= deadline:
                        break
                elif due is None or due > deadline:
                    self.advance_to(deadline)
                    break
                else:
                    self.advance_to(due)
            return condition()

    def changed(self) -> None:
        """Wake those in ``wait_for``: something other than time has changed the world."""
        with self.lock:
            self._wake.notify_all()

    def close(self) -> None:
        """Stop the wall clock's thread; later events never happen."""
        with self.lock:
            self._closed = True
            self._queue.clear()
            self._wake.notify_all()

    def _run_until(self, target: float) -> None:
        outer = self._replaying
        floor = self.now()
        try:
            while self._queue and self._queue[0][0] <= target:
                when, _, event = heapq.heappop(self._queue)
                action, event.action = event.action, None
                if action is not None:
                    self._replaying = floor = max(floor, when)
                    action()
                    self._wake.notify_all()
        finally:
            self._replaying = outer

    def _run(self) -> None:
        with self.lock:
            while not self._closed:
                due = self.next_event()
                if due is None or due > self.now():
                    self._wake.wait(None if due is None else due - self.now())
                else:
                    try:
                        self._run_until(self.now())
                    except Exception as error:  # noqa: BLE001 - the top of a thread that everybody waits for
                        self.failed(error)
