"""One thread that looks at every job somebody waits for without a thread of his own.

::

    future = job.future(); await job; job.watch(callback)      a thousand of them: one thread, shared looks

It is a daemon and holds no job: whoever stops watching, or ends the process, stops nothing else.
"""

from __future__ import annotations

import itertools
import logging
import os
import threading
import time
from collections.abc import Callable
from typing import Protocol

import attrs

from gputrain.errors import ApiDisabledError, AuthError, JobLostError, TransientError
from gputrain.job.events import Changes, Listener
from gputrain.lifecycle import State
from gputrain.threads import Bell, aside, begin

BLIND_FOR_AT_MOST_S = 300.0
"""How long every look may fail, one after the other, before `Job.wait` gives up."""

AGAIN_S = 30.0
"""How soon a job is looked at again whose look was refused: somebody logs in, or grants what is missing."""

OF_ALL = (AuthError, ApiDisabledError)
"""Refusals that are a platform's, and not one job's: a look at one of its jobs tells them of all."""

LONGEST_PAUSE_S = 0.3
"""A platform whose looks cost nothing is looked at that often for as long as the job lives, at the least."""


def pause_s(poll_s: float, waited_s: float) -> float:
    """Seconds until the next look: who has waited long may wait a little longer, and costs less meanwhile.

    >>> pause_s(0.03, 1.0), pause_s(0.03, 3600.0), pause_s(1.5, 3600.0)
    (0.03, 0.3, 1.5)
    """
    return max(poll_s, min(LONGEST_PAUSE_S, waited_s / 50))


log = logging.getLogger("gputrain")

MOST_BUSY = 0.2
"""The share of a core that looking may take, however many jobs are watched."""

MANY = 50
"""So many jobs are looked at in turn within the time between two looks at one."""

Tell = Callable[[Exception | None], None]
"""Called after each look; with an error where the job cannot be looked at for long, and again as long as that
lasts: it lives on, and is looked at until it has ended or is lost."""


class Watchable(Protocol):
    """What the watcher needs of a job."""

    @property
    def state(self) -> State: ...

    @property
    def platform(self) -> str: ...

    @property
    def poll_s(self) -> float: ...

    def refresh(self) -> object: ...

    def supervise(self) -> bool: ...


@attrs.define(eq=False)
class _Watch:
    job: Watchable
    tell: Tell
    since: float
    seen_at: float
    due: float = 0.0
    failed_at: float = 0.0
    """When it was last asked itself, and failed; 0 once it is seen."""
    is_blind: bool = False
    """Whether the last it was told is that the job cannot be looked at."""
    is_mending: bool = False


@attrs.frozen
class _Blind:
    """Why a platform cannot be looked at, since when it is known, and until when nobody asks anew."""

    since: float
    until: float
    error: Exception


class Watcher:
    """Looks at jobs in turn, those that are due."""

    def __init__(self) -> None:
        self._numbers = itertools.count()
        self._clear()
        if hasattr(os, "register_at_fork"):  # Windows has no forks
            os.register_at_fork(after_in_child=self._clear)  # the thread stays behind, and so do its watches

    def _clear(self) -> None:
        self._lock = threading.RLock()  # a finalizer that ends a watching may run anywhere
        self._changed = Bell()
        self._mending = threading.Lock()
        self._watches: dict[int, _Watch] = {}
        self._thread: threading.Thread | None = None
        self._blind: dict[str, _Blind] = {}
        self._warned: set[str] = set()

    def watch(self, job: Watchable, tell: Tell) -> Callable[[], None]:
        """Look at a job until it has ended; what is returned ends the watching earlier."""
        now = time.monotonic()
        with self._lock:
            number = next(self._numbers)
            # Among many it is looked at a little later: by then it is in the list that all of them share.
            due = now + job.poll_s * len(self._watches) / MANY
            self._watches[number] = _Watch(job, tell, since=now, seen_at=now, due=due)
            if self._thread is None or not self._thread.is_alive():
                self._thread = aside(self._run, "gputrain watches jobs")
                begin(self._thread)
        self._changed.ring()
        return lambda: self._drop(number)

    def _drop(self, number: int) -> None:
        with self._lock:
            self._watches.pop(number, None)
        self._changed.ring()

    def _run(self) -> None:
        while True:
            with self._lock:
                if self._thread is not threading.current_thread():  # another is, as its start was struck
                    return
                if not self._watches:
                    self._thread = None
                    self._warned.clear()
                    return
                now = time.monotonic()
                due = [(number, one) for number, one in self._watches.items() if one.due <= now]
                next_due = min(one.due for one in self._watches.values())
            if not due:
                self._changed.wait(max(0.001, next_due - now))
                continue
            # What fails blinds its platform for a while: who was seen, or has waited longest, comes first.
            due.sort(key=lambda row: row[1].failed_at)
            turn = next((one for _, one in due if one.is_blind), None)
            for number, one in due:  # of the blind one a round: however many, they hold up nobody else
                if number in self._watches and (one is turn or not one.is_blind):
                    self._look(number, one)
            time.sleep((time.monotonic() - now) * (1 / MOST_BUSY - 1) if len(due) > 1 else 0.0)

    def _look(self, number: int, one: _Watch) -> None:
        now, platform = time.monotonic(), one.job.platform
        pause = pause_s(one.job.poll_s, now - one.since)
        blind = self._blind_for(one, now)
        try:
            if blind is not None:  # one platform, one failing call: the others wait with it
                raise blind.error
            if not one.is_mending:
                one.job.refresh()
                self._supervise(one)
        except JobLostError as error:
            self._end(number, one, error)
            return
        except Exception as error:  # noqa: BLE001  # told to whoever waits: one bad job must not end the thread
            if blind is None:
                one.failed_at = time.monotonic()
                blind = self._blinded(platform, error, pause)
            one.due = blind.until
            if not isinstance(error, TransientError) or now - one.seen_at > BLIND_FOR_AT_MOST_S:
                one.seen_at = now
                self._cannot_see(one, error)
            return
        self._blind.pop(platform, None)
        self._warned.discard(platform)
        one.is_blind, one.failed_at = False, 0.0
        one.seen_at = time.monotonic()
        one.due = one.seen_at + pause
        if one.job.state.is_terminal:
            self._end(number, one, None)
        else:
            _tell(one, None)

    def _blind_for(self, one: _Watch, now: float) -> _Blind | None:
        """What others were told that holds for this one; who comes after a refusal may have mended it."""
        blind = self._blind.get(one.job.platform)
        if blind is None or now >= blind.until:
            return None
        return blind if isinstance(blind.error, TransientError) or one.since <= blind.since else None

    def _blinded(self, platform: str, error: Exception, pause: float) -> _Blind:
        now = time.monotonic()
        again_s = (error.retry_after_s or 0.0) if isinstance(error, TransientError) else AGAIN_S
        blind = _Blind(now, now + max(pause, again_s), error)
        if isinstance(error, (TransientError, *OF_ALL)):
            self._blind[platform] = blind
        return blind

    def _supervise(self, one: _Watch) -> None:
        """What a job may need after a look; to start it again may take long, and is done aside."""
        if one.job.state is not State.INTERRUPTED:
            one.job.supervise()
            return
        one.is_mending = True
        try:
            begin(aside(lambda: self._mend(one), "gputrain restarts a job"))
        except RuntimeError:  # no room for a thread now: the next look tries again
            one.is_mending = False

    def _mend(self, one: _Watch) -> None:
        with self._mending:
            try:
                one.job.supervise()
            except Exception as error:  # noqa: BLE001  # the next look tells what came of it
                log.warning("a job could not be looked after: %s", error)
            finally:
                one.is_mending = False

    def _cannot_see(self, one: _Watch, error: Exception) -> None:
        if not one.is_blind and one.job.platform not in self._warned:  # once, until it is seen again
            log.warning("a job cannot be looked at, and may go on: %s", error)
        self._warned.add(one.job.platform)
        one.is_blind = True
        _tell(one, error)

    def _end(self, number: int, one: _Watch, error: JobLostError | None) -> None:
        with self._lock:
            is_wanted = self._watches.pop(number, None) is not None
        if is_wanted:
            _tell(one, error)


def _tell(one: _Watch, error: Exception | None) -> None:
    try:
        one.tell(error)
    except BaseException:  # SystemExit, too: this thread watches for all others
        log.exception("a listener failed; the job is watched on")


WATCHER = Watcher()
"""The process's own: many handles, one thread."""


class Watching:
    """A listener that is told of changes; `close`, or the end of a ``with``, ends the telling."""

    def __init__(self, drop: Callable[[], None]) -> None:
        self._drop = drop

    @classmethod
    def of(cls, job: Watchable, changes: Changes, listener: Listener) -> Watching:
        """Tell a listener of one job's changes, until it ends."""

        tell = changes.telling(listener)
        return cls(WATCHER.watch(job, lambda _error: tell()))

    def close(self) -> None:
        """Tell nothing more."""
        self._drop()

    def __enter__(self) -> Watching:
        return self

    def __exit__(self, *_: object) -> None:
        self.close()
