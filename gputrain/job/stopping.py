"""What ends a waiting before its time: an event that another thread sets."""

from __future__ import annotations

import time
from collections.abc import Callable
from typing import Protocol

from gputrain.errors import StoppedError

STOP_WITHIN_S = 0.05
"""How soon a waiting ends that is told to stop."""


class StopEvent(Protocol):
    """What ends a waiting: a `threading.Event`."""

    def is_set(self) -> bool: ...


def is_stopped(stop: StopEvent, seconds: float) -> bool:
    """Wait so long, or until the event is set; whether it is. Its own ``wait`` does not outlive a Ctrl-C."""
    until = time.monotonic() + seconds
    while not stop.is_set():
        if (left := until - time.monotonic()) <= 0:
            return False
        time.sleep(min(left, STOP_WITHIN_S))
    return True


def pausing(stop: StopEvent) -> Callable[[float], None]:
    """A sleep that ends, with StoppedError, as soon as the event is set."""

    def pause(seconds: float) -> None:
        if is_stopped(stop, seconds):
            raise StoppedError("the waiting was stopped", fix="wait again whenever you like")

    return pause
