"""A Ctrl-C that Python tells nobody of: it falls where an object is let go of, as a half-read generator.

::

    @heeding
    def wait(self): ...          what a Ctrl-C leaves at once
    sleep(0.05)                  each of its waits raises one that was not told

Only the main thread hears signals; for any other, nothing here does anything.
"""

from __future__ import annotations

import functools
import os
import sys
import threading
import time
from collections.abc import Callable
from typing import Any, ParamSpec, TypeVar

P = ParamSpec("P")
T = TypeVar("T")

WITHIN_S = 0.1
"""How soon a wait for a thread raises a Ctrl-C that was not told."""


class _Heed:
    """Of the main thread: the process in which it heeds Ctrl-C, and whether one came that was not told."""

    process = 0
    has_untold = False


class _Ear:
    """In the place of `sys.unraisablehook`: notes a Ctrl-C, and tells whoever was there before."""

    def __init__(self, before: Any) -> None:
        self.before = before
        self._telling: set[int] = set()

    def __call__(self, told: Any) -> None:
        if isinstance(told.exc_value, KeyboardInterrupt):
            _note()
        me = threading.get_ident()
        # one that puts itself before us whenever it is not first is led in a circle
        tell = sys.__unraisablehook__ if me in self._telling or self.before is None else self.before
        self._telling.add(me)
        try:
            tell(told)
        except KeyboardInterrupt:  # which Python tells nobody of either, and us not again
            _note()
            raise
        finally:
            self._telling.discard(me)


def heeding(act: Callable[P, T]) -> Callable[P, T]:
    """While it runs in the main thread, the next wait raises a Ctrl-C that was not told.

    One that came before it, or comes after it, is nothing to it. One act within another is a part of it.
    """

    @functools.wraps(act)
    def heeded(*args: P.args, **kwargs: P.kwargs) -> T:
        if not _is_main() or _is_heeding():
            return act(*args, **kwargs)
        try:
            _Heed.has_untold = False
            _Heed.process = os.getpid()
            hook: Any = getattr(sys, "unraisablehook", None)
            if not isinstance(hook, _Ear):  # else a Ctrl-C fell where it was taken away, or it was put back
                sys.unraisablehook = _Ear(hook)
            return act(*args, **kwargs)
        finally:  # without a call, and so without a moment at which a Ctrl-C may fall
            _Heed.process = 0
            try:
                hook = sys.unraisablehook
                if hook.__class__ is _Ear:  # else somebody has put theirs before it, and may call it still
                    sys.unraisablehook = hook.before
            except AttributeError:  # somebody has deleted it
                pass

    return heeded


def raise_untold() -> None:
    """Raise what came and was not told; for those who wait."""
    if _Heed.has_untold and _is_heeding():
        _Heed.has_untold = False
        raise KeyboardInterrupt


def sleep(seconds: float) -> None:
    """As of `time`, and raises before it a Ctrl-C that was not told."""
    raise_untold()
    time.sleep(seconds)


def join(thread: threading.Thread) -> None:
    """Wait for the end of a thread, and raise meanwhile a Ctrl-C that was not told."""
    while _is_heeding() and thread.is_alive():
        raise_untold()
        thread.join(WITHIN_S)
    thread.join()


def minding(pause: Callable[[float], None]) -> Callable[[float], None]:
    """Another's sleep, which first raises a Ctrl-C that was not told."""

    def minded(seconds: float) -> None:
        raise_untold()
        pause(seconds)

    return minded


def is_raised_here(error: BaseException) -> bool:
    """Whether it is not the file system's: what a handler of signals raises is a TimeoutError, for one."""
    return isinstance(error, OSError) and error.errno is None


def _note() -> None:
    if _is_heeding():
        _Heed.has_untold = True


def _is_heeding() -> bool:
    return _Heed.process == os.getpid() and _is_main()


def _is_main() -> bool:
    return threading.current_thread() is threading.main_thread()
