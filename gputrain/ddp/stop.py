"""The wish to stop: a signal handler that only sets a flag, and the ranks' agreement on it."""

from __future__ import annotations

import signal
import threading
from typing import Any, Optional

from gputrain.ddp.peers import Peers


class Stop:
    """Whether the job is asked to stop, agreed by all ranks so that all of them save the same step.

    SIGTERM reaches the ranks at different moments of different steps.
    The handler does nothing but set a flag, so a signal inside a save lets the save finish.

    Args:
        peers: the ranks that have to agree.
        every: agree at every n-th step only; the answers in between are False without a word among the ranks.
    """

    def __init__(self, peers: Peers, every: int = 1) -> None:
        self._peers = peers
        self._every = every
        self._questions = 0
        self._previous: Optional[Any] = None
        self.asked = False
        self.agreed = False

    def listen(self) -> None:
        """Take SIGTERM over; outside the main thread Python allows no handlers, and nothing changes."""
        if threading.current_thread() is threading.main_thread():
            self._previous = signal.signal(signal.SIGTERM, self._note)

    def unlisten(self) -> None:
        """Give SIGTERM back to whoever had it."""
        if self._previous is not None:
            signal.signal(signal.SIGTERM, self._previous)
            self._previous = None

    def should_stop(self, step: Optional[int] = None) -> bool:
        """True on every rank once any rank was asked to stop. Collective: every rank asks equally often.

        Args:
            step: the step that is done; None counts the questions instead.
        """
        self._questions += 1
        count = self._questions if step is None else step
        if not self.agreed and count % self._every == 0:
            self.agreed = self._peers.any(self.asked)
        return self.agreed

    def _note(self, _signal: int, _frame: Any) -> None:
        self.asked = True
