"""Threads that wait in the emulator's time: it stands while one of them works, and jumps when all sleep."""

from __future__ import annotations

import heapq
import threading
from types import TracebackType

from gputrain_emulator.clock import Clock


class Sleepers:
    """A crew of threads whose `sleep` costs no real time, and waits side by side as it would.

    Args:
        clock: a standing clock.
        threads: how many there are; each works inside ``with sleepers:``.

    Example:
        >>> import threading
        >>> from gputrain_emulator.clock import Clock
        >>> clock = Clock()
        >>> crew, began = Sleepers(clock, threads=8), clock.now()
        >>> def work():
        ...     with crew:
        ...         crew.sleep(60)
        >>> threads = [threading.Thread(target=work) for _ in range(8)]
        >>> for thread in threads: thread.start()
        >>> for thread in threads: thread.join()
        >>> clock.now() - began
        60.0
    """

    def __init__(self, clock: Clock, *, threads: int) -> None:
        self._clock = clock
        self._working = threads
        self._wakes: list[float] = []
        self._moved = threading.Condition()

    def __enter__(self) -> Sleepers:
        return self

    def __exit__(
        self, kind: type[BaseException] | None, error: BaseException | None, trace: TracebackType | None
    ) -> None:
        with self._moved:
            self._working -= 1
            self._move()

    def sleep(self, seconds: float) -> None:
        """Wait ``seconds`` of the emulator's time."""
        with self._moved:
            wake = self._clock.now() + seconds
            heapq.heappush(self._wakes, wake)
            self._working -= 1
            self._move()
            while self._clock.now() < wake:
                self._moved.wait()

    def _move(self) -> None:
        """With everybody asleep, wake who sleeps shortest."""
        if self._working or not self._wakes:
            return
        self._clock.advance_to(self._wakes[0])
        while self._wakes and self._wakes[0] <= self._clock.now():
            heapq.heappop(self._wakes)
            self._working += 1
        self._moved.notify_all()
