"""Questions asked side by side, each at most once a minute, none of them waited for too long."""

from __future__ import annotations

import threading
import time
from collections.abc import Callable, Mapping
from datetime import datetime, timezone
from typing import Any

import attrs

from gputrain.errors import GputrainError
from gputrain.gcp.api import Access
from gputrain.gcp.errors import UnclearError
from gputrain.retry import Policy

WAIT_S = 6.0
"""The longest that a question is waited for, in seconds of this machine's clock."""
KEEP_S = 60.0
"""How long an answer is good."""
KEEP_FAILURE_S = 15.0
"""How long a failure is: whoever has just switched an API on should not wait a minute."""

MOST_KEPT = 256
"""Answers kept before the old ones are thrown away: a service may ask about ever new machines for months."""

SOON = Policy(first_s=0.3, most_s=1.0, budget_s=2.0)
"""A passing failure is tried again for a moment: a plan that is made offline should not wait for long."""


@attrs.frozen(kw_only=True, eq=False)
class Found:
    """The answer to one question, or the error that came instead of it."""

    value: Any = None
    error: GputrainError | None = None
    read_at: datetime


class _Flight:
    """One question on its way; every thread that asks it meanwhile waits for the same answer."""

    def __init__(self, key: str, ask: Callable[[], Any], now: Callable[[], float]) -> None:
        self.left_at = time.monotonic()
        self.found: Found | None = None
        self.mistake: BaseException | None = None
        self.landed = threading.Event()
        self._ask = ask
        self._now = now
        # A daemon: a server that never answers must not keep this process from its end.
        self._thread = threading.Thread(target=self._fly, name=f"gputrain lookup {key}", daemon=True)
        self._thread.start()

    def _fly(self) -> None:
        try:
            self.found = Found(value=self._ask(), read_at=self._time())
        except GputrainError as error:
            self.found = Found(error=error, read_at=self._time())
        except BaseException as error:  # noqa: BLE001  # a mistake of ours: raised where the answer is wanted
            self.mistake = error
        finally:
            self.landed.set()

    def _time(self) -> datetime:
        return datetime.fromtimestamp(self._now(), timezone.utc)

    def is_good(self, wait_s: float) -> bool:
        """Whether a caller may still use it: its answer is fresh, or it has not been out for too long."""
        if self.found is None:
            return self.mistake is None and time.monotonic() - self.left_at < max(KEEP_S, wait_s)
        age_s = self._now() - self.found.read_at.timestamp()
        return 0 <= age_s < (KEEP_S if self.found.error is None else KEEP_FAILURE_S)

    def wait(self, wait_s: float) -> Found:
        left_s = self.left_at + wait_s - time.monotonic()
        self.landed.wait(max(0.0, left_s))
        if self.mistake is not None:
            raise self.mistake
        if self.found is not None:
            return self.found
        why = f"no answer came in {wait_s:g} s"
        return Found(error=UnclearError("the answer is late", why=why), read_at=self._time())


class Lookups:
    """Asks Google many questions at once and keeps what it answers, for all threads of one `Access`.

    A question that is not answered in ``wait_s`` seconds counts as failed, for whoever asks it meanwhile
    at once; its answer is kept for the next one when it comes.
    """

    def __init__(self, *, now: Callable[[], float] = time.time, wait_s: float = WAIT_S) -> None:
        self._now = now
        self._wait_s = wait_s
        self._lock = threading.Lock()
        self._flights: dict[str, _Flight] = {}

    def ask(self, questions: Mapping[str, Callable[[], Any]]) -> dict[str, Found]:
        """The answer to every question, by its key; those that nobody has asked lately are asked now."""
        with self._lock:
            if len(self._flights) > MOST_KEPT:
                kept = self._flights.items()
                self._flights = {key: one for key, one in kept if one.is_good(self._wait_s)}
            flights = {key: self._flight(key, ask) for key, ask in questions.items()}
        return {key: flight.wait(self._wait_s) for key, flight in flights.items()}

    def forget(self) -> None:
        """Ask everything anew next time: something has changed, or a person says so."""
        with self._lock:
            self._flights.clear()

    def _flight(self, key: str, ask: Callable[[], Any]) -> _Flight:
        flight = self._flights.get(key)
        if flight is None or not flight.is_good(self._wait_s):
            flight = self._flights[key] = _Flight(key, ask, self._now)
        return flight


def lookups_of(access: Access) -> Lookups:
    """The lookups that everything of one `Access` shares."""
    return access.once("lookups", lambda: Lookups(now=access.now))
