"""Time, threads, dice and the network of gputrain, taken from the simulation while a client runs.

gputrain's modules get these in the place of the standard library's, by the import statement itself: no line
of gputrain is changed, and none is forgotten. Outside of a simulated client they are what they stand for.
"""

import builtins
import collections
import concurrent.futures
import functools
import random
import secrets
import sys
import threading
import time
import types
import typing
import urllib.parse
import uuid

import requests.adapters
import requests.sessions
import requests.structures
from google.auth import _agent_identity_utils as _agent
from google.auth.transport import _mtls_helper
from google.protobuf import json_format

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

    def acquire(self, blocking=True, timeout=-1):
        me = turns.current if _is_ours() else None
        if self._depth and not (self._is_reentrant and self._holder is me):
            if not blocking or me is None:
                return False
            until = turns.clock.now() + timeout if timeout >= 0 else float("inf")
            while self._depth:
                turns.pause(until, lambda: not self._depth)
                if self._depth and turns.clock.now() >= until:
                    return False
        self._holder, self._depth = me, self._depth + 1
        return True

    def release(self):
        self._depth -= 1

    def locked(self):
        return self._depth > 0

    __enter__ = acquire
    _is_reentrant = False

    def __exit__(self, *_):
        self.release()


class RLock(Lock):
    """The same, but for whoever holds it already."""

    _is_reentrant = True


class Event:
    """An event that is waited for in the emulator's time."""

    def __init__(self):
        self._is_set = False

    def is_set(self):
        return self._is_set

    def set(self):
        self._is_set = True

    def clear(self):
        self._is_set = False

    def wait(self, timeout=None):
        if not self._is_set and _is_ours():
            until = float("inf") if timeout is None else turns.clock.now() + timeout
            turns.pause(until, lambda: self._is_set)
        return self._is_set


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
        until = float("inf") if timeout is None else turns.clock.now() + timeout
        turns.pause(until, lambda: self._task.is_over)

    def is_alive(self):
        return self._task is not None and not self._task.is_over


class Pool:
    """Of `ThreadPoolExecutor`, what gputrain uses."""

    def __init__(self, max_workers=None, thread_name_prefix=""):
        pass

    def __enter__(self):
        return self

    def __exit__(self, *_):
        pass

    def shutdown(self, **_):
        pass

    def map(self, call, *arguments):
        found, tasks = {}, []

        def work(number, one):
            try:
                found[number] = (call(*one), None)
            except BaseException as error:  # noqa: BLE001  # raised where the answer is taken
                found[number] = (None, error)

        for number, one in enumerate(zip(*arguments)):
            tasks.append(turns.spawn(_process(), lambda n=number, o=one: work(n, o), f"pool {number}"))
        for task in tasks:
            while not task.is_over:
                turns.pause(float("inf"), lambda task=task: task.is_over)
        for number in range(len(tasks)):
            value, error = found[number]
            if error is not None:
                raise error
            yield value


class Future(concurrent.futures.Future):
    """A future whose result is waited for in the emulator's time."""

    def result(self, timeout=None):
        if _is_ours() and not self.done():
            until = float("inf") if timeout is None else turns.clock.now() + timeout
            turns.pause(until, self.done)
            timeout = 0
        return super().result(timeout)


def _wait(futures, timeout=None):
    if not _is_ours():
        return concurrent.futures.wait(futures, timeout)
    futures = list(futures)
    until = float("inf") if timeout is None else turns.clock.now() + timeout
    turns.pause(until, lambda: all(one.done() for one in futures))
    return None


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
    for module, name in (
        (requests.models, "parse_url"), (requests.models, "requote_uri"),
        (requests.models, "check_header_validity"),
        (urllib.parse, "quote_from_bytes"), (urllib.parse, "unquote"),
    ):  # fmt: skip
        setattr(module, name, functools.lru_cache(10_000)(getattr(module, name)))
    real = requests.models.PreparedRequest.prepare_url
    known = {}

    def prepare_url(self, url, params):
        key = (url, repr(params))
        if key not in known:
            real(self, url, params)
            known[key] = self.url
            if len(known) > 10_000:
                known.clear()
                return
        self.url = known[key]

    requests.models.PreparedRequest.prepare_url = prepare_url
    requests.sessions.merge_setting = _merged
    cookies = requests.models.get_cookie_header  # Google's APIs set none
    requests.models.get_cookie_header = lambda jar, asked: cookies(jar, asked) if jar._cookies else None
    join = requests.sessions.merge_cookies
    requests.sessions.merge_cookies = lambda jar, more: (
        jar if not getattr(more, "_cookies", True) else join(jar, more)
    )
    for module, name in ((_mtls_helper, "_get_cert_config_path"), (_agent, "_is_certificate_file_ready")):
        setattr(module, name, functools.cache(getattr(module, name)))  # no file comes to be here
    json_format._UNPAIRED_SURROGATE_PATTERN = _Surrogates()
    json_format.MessageToJson = functools.partial(json_format.MessageToJson, indent=None)


_MAPPINGS = (dict, requests.structures.CaseInsensitiveDict)


def _merged(asked, kept, dict_class=collections.OrderedDict):
    """As `requests` merges what a request and its session say, without asking what kind each part is of."""
    if kept is None or isinstance(asked, (bool, str)):
        return asked
    if asked is None or not isinstance(asked, _MAPPINGS) or not isinstance(kept, _MAPPINGS):
        return kept if asked is None else asked
    merged = dict_class(kept.items()) if kept else dict_class()
    if asked:
        merged.update(asked.items())
    for name in [name for name, value in merged.items() if value is None]:
        del merged[name]
    return merged


class _Surrogates:
    """What protobuf looks for in every text of a message: plain ones have none, and some are long."""

    _form = json_format._UNPAIRED_SURROGATE_PATTERN

    def search(self, text):
        return None if text.isascii() else self._form.search(text)
