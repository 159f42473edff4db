"""One thing at a time done beside the training, in a thread of its own."""

from __future__ import annotations

import contextlib
import os
import sys
import threading
from typing import Any, Callable, Optional


class Beside:
    """A thread for work the training need not wait for; what fails there is raised where it is waited for.

    Example:
        >>> beside, done = Beside(), []
        >>> beside.begin(lambda: done.append("saved"))
        >>> beside.wait()
        True
        >>> done
        ['saved']
    """

    def __init__(self) -> None:
        self._thread: Optional[threading.Thread] = None
        self._error: Optional[BaseException] = None

    def begin(self, action: Callable[[], Any]) -> None:
        """Start `action` once the one before has ended; its error is raised here first."""
        self.wait()
        # A daemon: a write that hangs must not keep a job that was told to stop.
        self._thread = threading.Thread(target=self._do, args=(action,), name="gputrain-save", daemon=True)
        self._thread.start()

    def wait(self, timeout_s: Optional[float] = None) -> bool:
        """Wait until nothing is under way; False if something still is after `timeout_s`.

        Raises:
            Exception: what the action raised, once.
        """
        if self._thread is None:
            return True
        self._thread.join(timeout_s)
        if self._thread.is_alive():
            return False
        self._thread, error, self._error = None, self._error, None
        if error is not None:
            raise error
        return True

    def _do(self, action: Callable[[], Any]) -> None:
        _yield_to_training()
        try:
            action()
        except BaseException as error:  # noqa: BLE001  # every kind: it is raised anew by who waits
            self._error = error


def _yield_to_training() -> None:
    # Linux knows priorities of threads. Where all cores are taken, hashing and writing at equal rank doubled
    # the time of a step, and at 10 it was within the noise (2 cores, 16 MB tensors, 2026-11-22).
    if sys.platform == "linux" and hasattr(threading, "get_native_id"):
        with contextlib.suppress(OSError):
            os.setpriority(os.PRIO_PROCESS, threading.get_native_id(), 10)
