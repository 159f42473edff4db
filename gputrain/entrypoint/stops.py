"""What may ask a node to stop, signals and Google's notices, where one ``select`` can wait for it."""

from __future__ import annotations

import contextlib
import os
import signal

from . import host, notice

TYPE_CHECKING = False
if TYPE_CHECKING:
    from typing import List, Mapping

_SIGNALS = (signal.SIGTERM, signal.SIGINT, signal.SIGHUP, signal.SIGQUIT)
"""Those that torchrun heeds, too."""


class Stops:
    """Requests to stop as they come; its descriptor becomes readable with each, and when a child ends."""

    def __init__(self) -> None:
        self._reader, self._writer = os.pipe()
        os.set_blocking(self._reader, False)
        os.set_blocking(self._writer, False)
        self._reasons: List[str] = []
        self._interrupts = 0

    def listen(self, environ: Mapping[str, str]) -> None:
        """Take over the process's signals, and watch the metadata server where there is one."""
        signal.set_wakeup_fd(self._writer, warn_on_full_buffer=False)
        signal.signal(signal.SIGCHLD, lambda *_: None)
        for number in _SIGNALS:
            if signal.getsignal(number) is not signal.SIG_IGN:  # nohup and `&` of a plain shell mean it
                signal.signal(number, self._hear_signal)
        if host.is_on_google(environ):
            notice.watch(self._hear_notice)

    def fileno(self) -> int:
        """The descriptor to wait for."""
        return self._reader

    @property
    def is_insistent(self) -> bool:
        """Whether a person pressed Ctrl-C twice."""
        return self._interrupts > 1

    def take(self) -> List[str]:
        """The reasons given since the last call."""
        with contextlib.suppress(BlockingIOError):
            os.read(self._reader, 4096)
        reasons, self._reasons[:] = self._reasons[:], []
        return reasons

    def wake(self, *_: object) -> None:
        """Make the descriptor readable, from any thread."""
        with contextlib.suppress(BlockingIOError):
            os.write(self._writer, b"x")

    def _hear_signal(self, number: int, _: object) -> None:
        self._interrupts += number == signal.SIGINT
        self._reasons.append(signal.Signals(number).name)

    def _hear_notice(self, reason: str) -> None:
        self._reasons.append(reason)
        self.wake()
