"""One thread for each platform, that looks at every job there for whoever waits without a thread of his own.

::

    future = job.future(); await job; job.watch(callback)      a thousand of them: one thread, shared looks

A platform that answers slowly, or not at all, keeps no other's jobs from being seen. The threads are daemons
and hold no job: whoever stops watching, or ends the process, stops nothing else.
"""

from __future__ import annotations

import contextlib
import itertools
import logging
import os
import threading
import time
from collections.abc import Callable
from typing import Any, Protocol

import attrs

from gputrain.errors import ApiDisabledError, AuthError, JobLostError, TransientError
from gputrain.lifecycle import State
from gputrain.threads import Bell, aside, begin, new_lock

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
"""The share of a core that looking at a platform may take, however many of its jobs are watched."""

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


@attrs.frozen
class _Blind:
    """Why a platform cannot be looked at, since when it is known, and until when nobody asks anew."""

    since: float
    until: float
    error: Exception


@attrs.define(eq=False)
class _Platform:
    """The jobs of one platform, and the thread that looks at them in turn."""

    name: str
    changed: Bell = attrs.field(factory=Bell)
    watches: dict[int, _Watch] = attrs.field(factory=dict)
    thread: threading.Thread | None = None
    blind: _Blind | None = None
    is_warned: bool = False
    mending: Any = attrs.field(factory=new_lock)
    """Held by who starts a job of it again: one at a time."""


@attrs.define(eq=False)
class _Watch:
    number: int
    job: Watchable
    tell: Tell
    since: float
    seen_at: float
    due: float = 0.0
    platform: _Platform | None = None
    """Where it is looked at; a job may move to another one."""
    failed_at: float = 0.0
    """When it was last asked itself, and failed; 0 once it is seen."""
    is_blind: bool = False
    """Whether the last it was told is that the job cannot be looked at."""
    is_mending: bool = False


class Watcher:
    """Looks at the jobs of each platform in turn, those that are due."""

    def __init__(self) -> None:
        self._numbers = itertools.count()
        self._clear()
        if hasattr(os, "register_at_fork"):  # Windows has no forks
            # The threads stay behind, and so do their watches.
            os.register_at_fork(after_in_child=self._clear)

    def _clear(self) -> None:
        self._lock = new_lock()  # a finalizer that ends a watching may run anywhere
        self._platforms: dict[str, _Platform] = {}

    def watch(self, job: Watchable, tell: Tell) -> Callable[[], object]:
        """Look at a job until it has ended; what is returned ends the watching earlier.

        Raises:
            RuntimeError: there is no room for another thread.
        """
        now = time.monotonic()
        one = _Watch(next(self._numbers), job, tell, since=now, seen_at=now)
        try:
            self._take_in(one)
        except BaseException:  # who is interrupted here has nothing to end it with
            self._drop(one)
            raise
        return lambda: self._drop(one)

    def _take_in(self, one: _Watch) -> None:
        with self._lock:
            name = one.job.platform
            platform = self._platforms.setdefault(name, _Platform(name))
            if platform.thread is None or not platform.thread.is_alive():
                thread = platform.thread = aside(lambda: self._run(platform), f"gputrain watches {name}")
                begin(thread)
            # Among many it is looked at a little later: by then it is in the list that all of them share.
            one.due = time.monotonic() + one.job.poll_s * len(platform.watches) / MANY
            one.platform = platform
            platform.watches[one.number] = one
        platform.changed.ring()

    def _go_on(self, platform: _Platform, one: _Watch) -> None:
        """Let a job be looked at where it has gone to."""
        with self._lock:
            if one.number in platform.watches:
                self._take_in(one)
                del platform.watches[one.number]

    def _drop(self, one: _Watch) -> bool:
        """Look at it no more; whether it was looked at."""
        with self._lock:
            platform = one.platform
            was_there = platform is not None and platform.watches.pop(one.number, None) is not None
        if platform is not None:
            platform.changed.ring()
        return was_there

    def _run(self, platform: _Platform) -> None:
        while True:
            with self._lock:
                # Another looks, as its start was struck; or a listener has forked, and this is the child.
                is_mine = platform.thread is threading.current_thread()
                if not is_mine or self._platforms.get(platform.name) is not platform:
                    return
                now = time.monotonic()
                watches = list(platform.watches.values())  # a finalizer may end one at any step
                if not watches:
                    platform.thread = None
                    if platform.blind is None or platform.blind.until <= now:  # whoever comes next waits, too
                        self._platforms.pop(platform.name, None)
                    return
                due = [one for one in watches if one.due <= now]
                next_due = min(one.due for one in watches)
            if not due:
                platform.changed.wait(max(0.001, next_due - now))
                continue
            busy_s = time.thread_time()  # to wait for an answer keeps no core busy
            # What fails blinds its platform for a while: who was seen, or has waited longest, comes first.
            due.sort(key=lambda one: one.failed_at)
            turn = next((one for one in due if one.is_blind), None)
            for one in due:  # of the blind one a round: however many, they hold up nobody else
                if one.number in platform.watches and (one is turn or not one.is_blind):
                    self._look(platform, one)
            time.sleep((time.thread_time() - busy_s) * (1 / MOST_BUSY - 1) if len(due) > 1 else 0.0)

    def _look(self, platform: _Platform, one: _Watch) -> None:
        if one.job.platform != platform.name:
            with contextlib.suppress(RuntimeError):  # no room for a thread there: it is looked at here
                self._go_on(platform, one)
                return
        now = time.monotonic()
        pause = pause_s(one.job.poll_s, now - one.since)
        blind = _blind_for(platform, one, now)
        try:
            if blind is not None:  # one platform, one failing call: the others wait with it
                raise blind.error
            if not one.is_mending:
                one.job.refresh()
                self._supervise(platform, one)
        except JobLostError as error:
            self._end(one, error)
            return
        except Exception as error:  # noqa: BLE001  # told to whoever waits: one bad job must not end the thread
            if blind is None:
                one.failed_at = time.monotonic()
                blind = _blinded(platform, error, pause)
            one.due = blind.until
            if not isinstance(error, TransientError) or now - one.seen_at > BLIND_FOR_AT_MOST_S:
                one.seen_at = now
                _cannot_see(platform, one, error)
            return
        platform.blind, platform.is_warned = None, False
        one.is_blind, one.failed_at = False, 0.0
        one.seen_at = time.monotonic()
        one.due = one.seen_at + pause
        if one.job.state.is_terminal:
            self._end(one, None)
        else:
            _tell(one, None)

    def _supervise(self, platform: _Platform, one: _Watch) -> None:
        """What a job may need after a look; to start it again may take long, and is done aside."""
        if one.job.state is not State.INTERRUPTED:
            one.job.supervise()
            return
        one.is_mending = True
        try:
            begin(aside(lambda: _mend(platform, one), "gputrain restarts a job"))
        except RuntimeError:  # no room for a thread now: the next look tries again
            one.is_mending = False

    def _end(self, one: _Watch, error: JobLostError | None) -> None:
        if self._drop(one):
            _tell(one, error)


def _blind_for(platform: _Platform, one: _Watch, now: float) -> _Blind | None:
    """What others were told that holds for this one; who comes after a refusal may have mended it."""
    blind = platform.blind
    if blind is None or now >= blind.until:
        return None
    return blind if isinstance(blind.error, TransientError) or one.since <= blind.since else None


def _blinded(platform: _Platform, error: Exception, pause: float) -> _Blind:
    now = time.monotonic()
    again_s = (error.retry_after_s or 0.0) if isinstance(error, TransientError) else AGAIN_S
    blind = _Blind(now, now + max(pause, again_s), error)
    if isinstance(error, (TransientError, *OF_ALL)):
        platform.blind = blind
    return blind


def _mend(platform: _Platform, one: _Watch) -> None:
    with platform.mending:
        try:
            one.job.supervise()
        except Exception as error:  # noqa: BLE001  # the next look tells what came of it
            log.warning("a job could not be looked after: %s", error)
        finally:
            one.is_mending = False


def _cannot_see(platform: _Platform, one: _Watch, error: Exception) -> None:
    if not one.is_blind and not platform.is_warned:  # once, until it is seen again
        log.warning("a job cannot be looked at, and may go on: %s", error)
    platform.is_warned = one.is_blind = True
    _tell(one, error)


def _tell(one: _Watch, error: Exception | None) -> None:
    try:
        one.tell(error)
    except BaseException:  # SystemExit, too: this thread watches for all others
        log.exception("a listener failed; the job is watched on")


WATCHER = Watcher()
"""The process's own: many handles, one thread a platform."""
