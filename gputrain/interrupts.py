"""A Ctrl-C that Python tells nobody of: it falls where an object is let go of, as a half-read generator.

::

    with heeding():              what a Ctrl-C leaves at once
        sleep = minding(sleep)   each of its waits raises one that was not told
"""

from __future__ import annotations

import sys
import threading
from collections.abc import Callable
from typing import Any

_UNTOLD: list[bool] = []
"""Of the main thread, which alone hears signals: whether one came and was told nobody."""


class heeding:  # noqa: N801  # read as a word, after `with`
    """While this holds, the next wait raises a Ctrl-C that was not told; nothing for other threads."""

    def __enter__(self) -> None:
        self._before, self._holds = sys.unraisablehook, _is_main()
        if self._holds:
            _UNTOLD.clear()
            sys.unraisablehook = self._hear

    def __exit__(self, *_: object) -> None:
        if self._holds:
            self._holds = False
            _UNTOLD.clear()  # what was done is done: a later act has nothing to do with it
        if sys.unraisablehook == self._hear:  # else somebody has put theirs before it, and may call it still
            sys.unraisablehook = self._before

    def _hear(self, told: Any) -> None:
        if self._holds and issubclass(told.exc_type, KeyboardInterrupt):
            _UNTOLD.append(True)
        self._before(told)


def raise_untold() -> None:
    """Raise what came and was not told; for those who wait."""
    if _UNTOLD and _is_main():
        _UNTOLD.clear()
        raise KeyboardInterrupt


def minding(sleep: Callable[[float], None]) -> Callable[[float], None]:
    """The same sleep, which first raises a Ctrl-C that was not told."""

    def minded(seconds: float) -> None:
        raise_untold()
        sleep(seconds)

    return minded


def _is_main() -> bool:
    return threading.current_thread() is threading.main_thread()
