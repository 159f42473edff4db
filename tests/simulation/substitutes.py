"""Time, threads, dice and the network of gputrain, taken from the simulation while a client runs.

gputrain's modules get these in the place of the standard library's, by the import statement itself: no line
of gputrain is changed, and none is forgotten. Outside of a simulated client they are what they stand for.
"""

import builtins
import concurrent.futures
import functools
import random
import secrets
import sys
import threading
import time
import types
import typing
import uuid

import requests.adapters
import requests.sessions
import requests.structures

turns = None
"""The schedule that runs now."""
carry = None
"""Takes a prepared request to where it goes: ``carry(process, request, timeout_s)``."""


def _process():
    return None if turns is None or turns.current is None else turns.current.process


def _is_ours():
    return turns is not None and turns.current is not None


def _of(real, **own):
    """A module that is as the real one, but for what is told."""
    made = types.ModuleType(real.__name__)
    made.__dict__.update({name: value for name, value in vars(real).items() if not name.startswith("__")})
    made.__dict__.update(own)
    return made


def _sleep(seconds):
    if not _is_ours():
        return time.sleep(seconds)
    return turns.pause(turns.clock.now() + max(0.0, seconds))


def _until(timeout_s):
    return float("inf") if timeout_s is None else turns.clock.now() + timeout_s


def _choice(name):
    real = getattr(random, name)
    return lambda *a: getattr(_process().dice, name)(*a) if _is_ours() else real(*a)


def _token_hex(size=32):
    return f"{_process().dice.getrandbits(8 * size):0{2 * size}x}" if _is_ours() else secrets.token_hex(size)


def _drawn(letters):
    return _process().dice.choice(letters) if _is_ours() else secrets.choice(letters)


def _uuid4():
    return uuid.UUID(int=_process().dice.getrandbits(128), version=4) if _is_ours() else uuid.uuid4()


class Lock:
    """A lock that gives the turn away while it is held by another."""

    def __init__(self):
        self._holder, self._depth = None, 0

    def __enter__(self):
        me = turns.current if _is_ours() else None
        while self._depth and not (self._is_reentrant and self._holder is me):
            turns.pause(float("inf"), lambda: not self._depth)
        self._holder, self._depth = me, self._depth + 1
        return True

    def __exit__(self, *_):
        self._depth -= 1

    _is_reentrant = False


class RLock(Lock):
    """The same, but for the task that holds it already."""

    _is_reentrant = True


class Event(threading.Event):
    """An event that is waited for in the emulator's time."""

    def wait(self, timeout=None):
        if not self.is_set() and _is_ours():
            turns.pause(_until(timeout), self.is_set)
        return self.is_set()


class Thread:
    """A task of the process that starts it."""

    def __init__(self, group=None, target=None, name="thread", args=(), kwargs=None, *, daemon=None):  # noqa: ARG002
        self._work = lambda: target(*args, **(kwargs or {}))
        self._name = name
        self._task = None

    def start(self):
        if not _is_ours():
            raise RuntimeError("outside of a simulated client nothing of gputrain's starts a thread")
        self._task = turns.spawn(_process(), self._work, self._name)

    def join(self, timeout=None):
        turns.pause(_until(timeout), lambda: self._task.is_over)

    def is_alive(self):
        return self._task is not None and not self._task.is_over


class Pool:
    """Of `ThreadPoolExecutor`, what gputrain uses."""

    def __init__(self, at_once, name):
        pass

    def shutdown(self, **_):
        pass

    def map(self, call, items):
        futures = [Future() for _ in items]

        def work(future, one):
            try:
                future.set_result(call(one))
            except BaseException as error:  # noqa: BLE001  # raised where the answer is taken
                future.set_exception(error)

        for number, (future, one) in enumerate(zip(futures, items)):
            turns.spawn(_process(), functools.partial(work, future, one), f"pool {number}")
        return (future.result() for future in futures)


class Future(concurrent.futures.Future):
    """A future whose result is waited for in the emulator's time."""

    def result(self, timeout=None):
        while _is_ours() and not self.done() and timeout is None:
            turns.pause(float("inf"), self.done)
        return super().result(timeout)


def _wait(futures, timeout=None):
    if not _is_ours():
        return concurrent.futures.wait(futures, timeout)
    futures = list(futures)
    return turns.pause(_until(timeout), lambda: all(one.done() for one in futures))


class Adapter(requests.adapters.HTTPAdapter):
    """An adapter that hands each request to the simulated wire."""

    def send(self, request, stream=False, timeout=None, **rest):
        if not _is_ours():
            return super().send(request, stream=stream, timeout=timeout, **rest)
        seconds = max(timeout) if isinstance(timeout, tuple) else timeout
        return carry(_process(), request, seconds)


SUBSTITUTES = {
    "time": _of(
        time,
        time=lambda: _process().now() if _is_ours() else time.time(),
        monotonic=lambda: turns.clock.now() if _is_ours() else time.monotonic(),
        perf_counter=lambda: turns.clock.now() if _is_ours() else time.perf_counter(),
        sleep=_sleep,
    ),
    "threading": _of(threading, Lock=Lock, RLock=RLock, Event=Event, Thread=Thread),
    "random": _of(random, **{name: _choice(name) for name in ("random", "uniform", "choice", "randrange")}),
    "secrets": _of(secrets, token_hex=_token_hex, choice=_drawn),
    "uuid": _of(uuid, uuid4=_uuid4),
    "concurrent.futures": _of(concurrent.futures, ThreadPoolExecutor=Pool, Future=Future, wait=_wait),
    "requests.adapters": _of(requests.adapters, HTTPAdapter=Adapter),
}


def install():
    """From now on what is imported of gputrain gets the substitutes; before the first of it."""
    real = builtins.__import__

    def imported(name, globals=None, locals=None, fromlist=(), level=0):  # noqa: A002  # as it is called
        is_known = name in SUBSTITUTES and not level and (fromlist or "." not in name)
        if is_known and (globals or {}).get("__name__", "").partition(".")[0] == "gputrain":
            return SUBSTITUTES[name]
        return real(name, globals, locals, fromlist, level)

    builtins.__import__ = imported
    _hasten()


def _hasten():
    """Answer once what is asked the same in every schedule: without this a third of the time goes there."""
    # This machine's proxies and .netrc are nobody's there.
    requests.sessions.get_environ_proxies = lambda *_, **__: {}
    requests.sessions.get_netrc_auth = lambda *_, **__: None
    if sys.version_info < (3, 12):  # which keeps what a protocol has; requests asks 300 times a schedule
        typing._get_protocol_attrs = functools.cache(typing._get_protocol_attrs)
