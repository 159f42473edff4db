"""Many threads, few calls: what one has asked, others who ask it meanwhile or soon after are told as well.

Nothing here knows an API: what is asked is handed in as a function.

::

    vms = Shared(fresh_s=0.5)
    vms.get("us-central1-a", lambda: list_vms("us-central1-a"))     1,000 threads, two lists a second
    looks.ask({"quotas": read_quotas, "zones": read_zones})   side by side, none waited for too long

There is no thread of its own that looks: whoever asks first asks, whoever asks soon after reads.
"""

from __future__ import annotations

import os
import threading
import time
from collections.abc import Callable, Hashable, Mapping
from datetime import datetime, timezone
from typing import Any, Generic, TypeVar

import attrs

from gputrain.errors import GputrainError
from gputrain.gcp.errors import UnclearError
from gputrain.threads import aside, begin, new_lock, pauses_s

K = TypeVar("K", bound=Hashable)
V = TypeVar("V")

LONGEST_S = 60.0
"""How long anything that the cloud says is believed, at the very most."""


@attrs.frozen(kw_only=True, eq=False)
class Found:
    """The answer to one question, or the error that came instead of it."""

    value: Any = None
    error: GputrainError | None = None
    read_at: datetime


class Kept(Generic[K, V]):
    """A dictionary that forgets: what nobody has asked for in ``idle_s`` seconds, and what is too much.

    It is for what does not change any more, such as how a job ended; what may change goes into `Shared`.
    """

    def __init__(
        self, *, idle_s: float = 3600.0, most: int = 10_000, now: Callable[[], float] = time.monotonic
    ) -> None:
        self._idle_s = idle_s
        self._most = most
        self._now = now
        self._lock = new_lock()
        self._held: dict[K, tuple[float, V]] = {}  # the longest unused first

    def get(self, key: K) -> V | None:
        """What is kept under the key, which counts as used; None where nothing is."""
        with self._lock:
            now, held = self._now(), self._held.pop(key, None)
            if held is None or now - held[0] > self._idle_s:
                return None
            self._held[key] = now, held[1]
            return held[1]

    def put(self, key: K, value: V) -> V:
        """Keep a value; returns it."""
        with self._lock:
            self._held.pop(key, None)
            self._held[key] = self._now(), value
            self._forget()
            return value

    def drop(self, key: K) -> None:
        """Forget one key."""
        with self._lock:
            self._held.pop(key, None)

    def items(self) -> tuple[tuple[K, V], ...]:
        """All that is kept now; to look at it does not count as use."""
        with self._lock:
            self._forget()
            return tuple((key, value) for key, (_, value) in list(self._held.items()))

    def __len__(self) -> int:
        """How much is kept now."""
        with self._lock:
            self._forget()
            return len(self._held)

    def _forget(self) -> None:
        now = self._now()
        while self._held:
            try:
                key, (used_at, _) = next(iter(self._held.items()))
            except (RuntimeError, StopIteration):  # the handler of a signal was here
                continue
            if len(self._held) <= self._most and now - used_at <= self._idle_s:
                return
            self._held.pop(key, None)


class _Flight:
    """One question on its way: whoever holds its lock asks, and whoever gets it next finds the answer.

    The lock is one of C's, held in a ``with``: no Ctrl-C falls between its taking and its giving back. Who is
    interrupted leaves no answer, and the next one asks.
    """

    def __init__(self, now: Callable[[], float]) -> None:
        self.left_at = time.monotonic()
        self.answer: Found | None = None
        self.mistake: Exception | None = None
        self._now = now
        self._asking = new_lock()
        self._asker = (0, 0)
        """Which thread of which process asks just now."""

    @property
    def has_landed(self) -> bool:
        return self.answer is not None or self.mistake is not None

    @property
    def is_out(self) -> bool:
        """Whether somebody asks just now."""
        return self._asker[0] == os.getpid()

    @property
    def is_mine(self) -> bool:
        """Whether it is this thread that asks, and has been interrupted by the handler of a signal."""
        return self._asker == (os.getpid(), threading.get_ident())

    def fly(self, fetch: Callable[[], Any]) -> None:
        me = os.getpid(), threading.get_ident()  # first: no signal falls between the lock and its note
        with self._asking:
            if self.has_landed:
                return
            self._asker = me
            try:
                self.answer = Found(value=fetch(), read_at=_moment(self._now()))
            except GputrainError as error:
                self.answer = Found(error=error, read_at=_moment(self._now()))
            except Exception as error:  # noqa: BLE001  # a mistake of ours: raised where the answer is wanted
                self.mistake = error
            finally:
                self._asker = (0, 0)

    def fly_aside(self, fetch: Callable[[], Any], name: str) -> None:
        """In a thread of its own."""
        self.left_at = time.monotonic()
        begin(aside(lambda: self.fly(fetch), name))

    def found(self, wait_s: float) -> Found:
        """The answer as far as it has come ``wait_s`` seconds after it was asked for."""
        pauses = pauses_s()
        while not self.has_landed and time.monotonic() - self.left_at < wait_s:
            time.sleep(next(pauses))
        if self.mistake is not None:
            raise self.mistake
        if self.answer is not None:
            return self.answer
        late = UnclearError("the answer is late", why=f"no answer came in {wait_s:g} s")
        return Found(error=late, read_at=_moment(self._now()))


class Shared(Generic[K, V]):
    """Answers that threads share: each question is out once at a time, and its answer is good for a while.

    Args:
        fresh_s: how long an answer is good, in seconds or by its value; never longer than a minute.
        failure_s: how long a failure is; whoever waits for the same flight is told of it in any case.
        now: the clock by which answers age, in seconds since 1970.
        most: answers kept at most.
        wait_s: how long questions that are asked side by side are waited for.
    """

    def __init__(
        self,
        *,
        fresh_s: float | Callable[[V], float],
        failure_s: float = 0.0,
        now: Callable[[], float] = time.time,
        most: int = 256,
        wait_s: float = 6.0,
    ) -> None:
        self._wait_s = wait_s
        self._fresh_s = fresh_s
        self._failure_s = failure_s
        self._now = now
        self._most = most
        self._lock = new_lock()
        self._flights: dict[K, _Flight] = {}

    def get(self, key: K, fetch: Callable[[], V]) -> V:
        """The answer to one question: fetched by this thread, or by another that was quicker.

        Raises:
            Whatever ``fetch`` raises.
        """
        flight = self._flight(key)
        if flight.is_mine:
            return fetch()
        flight.fly(fetch)
        if flight.answer is None:
            raise flight.mistake or RuntimeError("a question landed without an answer")
        if flight.answer.error is not None:
            raise flight.answer.error
        found: V = flight.answer.value
        return found

    def ask(self, questions: Mapping[K, Callable[[], V]]) -> dict[K, Found]:
        """The answer to every question, by its key; those that nobody has asked lately are asked now.

        All are out at the same time. One that is not answered ``wait_s`` seconds after it was asked counts as
        failed, for whoever asks it meanwhile at once; its answer is kept for the next one when it comes.
        """
        return {key: flight.found(self._wait_s) for key, flight in self._flights_of(questions).items()}

    def forget(self) -> None:
        """Ask everything anew next time: something has changed, or a person says so."""
        with self._lock:
            self._flights = {}

    def _flights_of(self, questions: Mapping[K, Callable[[], V]]) -> dict[K, _Flight]:
        flights = {key: self._flight(key) for key in questions}
        for key, flight in flights.items():
            if not (flight.has_landed or flight.is_out):
                flight.fly_aside(questions[key], f"gputrain asks {key}")
        return flights

    def _flight(self, key: K) -> _Flight:
        """The flight that answers a question, or will."""
        with self._lock:
            flight = self._flights.get(key)
            if flight is None or not self._is_good(flight):
                self._evict()
                flight = self._flights[key] = _Flight(self._now)
            return flight

    def _evict(self) -> None:
        """Let go of what is good for nothing any more, and of the oldest where that is not enough."""
        good = {key: one for key, one in list(self._flights.items()) if self._is_good(one)}
        idle = [key for key, one in good.items() if not one.is_out]
        for key in idle[: max(0, len(good) - self._most + 1)]:
            del good[key]
        self._flights = good

    def _is_good(self, flight: _Flight) -> bool:
        """Whether a caller may use it: it has not landed yet, or its answer is fresh."""
        if flight.answer is None:
            return flight.mistake is None
        # an age below 0: the clock went back, and nothing is kept
        good_s = self._failure_s if flight.answer.error is not None else self._good_s(flight.answer.value)
        return 0 <= self._now() - flight.answer.read_at.timestamp() < min(good_s, LONGEST_S)

    def _good_s(self, value: V) -> float:
        return self._fresh_s(value) if callable(self._fresh_s) else self._fresh_s


def _moment(seconds: float) -> datetime:
    return datetime.fromtimestamp(seconds, timezone.utc)
