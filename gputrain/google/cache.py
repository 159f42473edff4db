"""What threads share: each question is asked once at a time, and its answer is kept for a while.

::

    vms = Cache(fresh_s=0.5)
    vms.get("us-central1-a", lambda: list_vms("us-central1-a"))   1,000 threads, two lists a second
    looks.ask({"quotas": read_quotas, "zones": read_zones})       side by side, none waited for too long
"""

from __future__ import annotations

import math
import threading
import time
from collections.abc import Callable, Hashable, Mapping
from concurrent.futures import Future, wait
from datetime import datetime, timezone
from typing import Any, Generic, TypeVar

import attrs
from cachetools import TLRUCache, TTLCache

from gputrain.errors import GputrainError
from gputrain.google.errors import UnclearError

K = TypeVar("K", bound=Hashable)
V = TypeVar("V")

LONGEST_S = 60.0
"""How long an answer of Google's is kept at most."""


@attrs.frozen(kw_only=True, eq=False)
class Found:
    value: Any = None
    error: GputrainError | None = None
    read_at: datetime


class Cache(Generic[K, V]):
    """Answers that threads share; one that is being fetched is waited for.

    Args:
        fresh_s: how long an answer is kept, in seconds or by its value; a minute at most.
        failure_s: how long an error is.
        now: the clock by which answers age, in seconds since 1970.
        wait_s: how long `ask` waits.
    """

    def __init__(
        self,
        *,
        fresh_s: float | Callable[[V], float],
        failure_s: float = 0.0,
        now: Callable[[], float] = time.time,
        wait_s: float = 6.0,
    ) -> None:
        def expires_at(_: K, future: Future[Found], at: float) -> float:
            if not future.done():
                return math.inf
            found = future.result()
            if found.error is not None:
                return at + failure_s
            return at + min(fresh_s(found.value) if callable(fresh_s) else fresh_s, LONGEST_S)

        self._now, self._wait_s = now, wait_s
        self._lock = threading.Lock()
        self._answers: TLRUCache[K, Future[Found]] = TLRUCache(256, expires_at, timer=now)

    def get(self, key: K, fetch: Callable[[], V]) -> V:
        """The answer to one question, or the error of ``fetch``, which another thread may have called."""
        future, is_mine = self._begin(key)
        if is_mine:
            self._fetch(key, future, fetch)
        found = future.result()
        if found.error is not None:
            raise found.error
        value: V = found.value
        return value

    def ask(self, questions: Mapping[K, Callable[[], V]]) -> dict[K, Found]:
        """The answer to every question, by its key; those without a fresh one are fetched side by side.

        One that takes longer than ``wait_s`` counts as failed; its answer is kept for later when it comes.
        """
        futures = {}
        for key, fetch in questions.items():
            futures[key], is_mine = self._begin(key)
            if is_mine:  # a daemon: nothing waits for it when Python exits
                threading.Thread(target=self._fetch, args=(key, futures[key], fetch), daemon=True).start()
        wait(futures.values(), timeout=self._wait_s)
        error = UnclearError("the answer is late", why=f"no answer came in {self._wait_s:g} s")
        late = Found(error=error, read_at=self._moment())
        return {key: one.result() if one.done() else late for key, one in futures.items()}

    def _begin(self, key: K) -> tuple[Future[Found], bool]:
        """What the answer comes in, and whether the caller has to fetch it."""
        with self._lock:
            future = self._answers.get(key)
            if future is not None:
                return future, False
            self._answers[key] = future = Future()
            return future, True

    def _fetch(self, key: K, future: Future[Found], fetch: Callable[[], V]) -> None:
        try:
            future.set_result(Found(value=fetch(), read_at=self._moment()))
        except GputrainError as error:
            future.set_result(Found(error=error, read_at=self._moment()))
        except BaseException as error:  # noqa: BLE001  # raised where the answer is wanted
            future.set_exception(error)
        with self._lock:
            self._answers.pop(key, None)
            if future.exception() is None:
                self._answers[key] = future  # from now on it ages

    def _moment(self) -> datetime:
        return datetime.fromtimestamp(self._now(), timezone.utc)


class Recent(Generic[K, V]):
    """A dictionary for threads that forgets what was not used for ``idle_s`` seconds, and the oldest."""

    def __init__(self, *, idle_s: float = 3600.0, now: Callable[[], float] = time.monotonic) -> None:
        self._lock = threading.Lock()
        self._items: TTLCache[K, V] = TTLCache(10_000, idle_s, timer=now)

    def get(self, key: K) -> V | None:
        """What is kept under the key; None where nothing is."""
        with self._lock:
            value: V | None = self._items.get(key)
            if value is not None:
                self._items[key] = value  # used just now
            return value

    def put(self, key: K, value: V) -> V:
        with self._lock:
            self._items[key] = value
            return value

    def drop(self, key: K) -> None:
        with self._lock:
            self._items.pop(key, None)

    def items(self) -> tuple[tuple[K, V], ...]:
        """All that is kept now; to look at it does not count as use."""
        with self._lock:
            self._items.expire()
            return tuple(self._items.items())

    def __len__(self) -> int:
        return len(self.items())


class Pace:
    """Whether a stream may make a call now, so that all of them together stay within a limit per minute.

    Args:
        each_s: seconds of one call; of n streams each has its turn every n times that.
        few: up to so many streams may call whenever they like.
    """

    def __init__(self, *, each_s: float, few: int = 0, now: Callable[[], float] = time.monotonic) -> None:
        self._each_s, self._few, self._now = each_s, few, now
        self._called_at: Recent[str, float] = Recent(idle_s=120.0, now=now)

    def take(self, stream: str, *, is_continued: bool = False) -> bool:
        """Whether a stream may make a call now; one that continues the last may always."""
        now, called_at = self._now(), self._called_at.get(stream)
        streams = len(self._called_at)
        is_early = called_at is not None and now - called_at < self._each_s * streams
        if is_early and streams > self._few and not is_continued:
            return False
        self._called_at.put(stream, now)
        return True
