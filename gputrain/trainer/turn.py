"""One process at a time places a job that several backends may take."""

from __future__ import annotations

import contextlib
import secrets
from collections.abc import Callable, Iterable

from gputrain.backends.base import Backend, TakesTurns
from gputrain.errors import GputrainError
from gputrain.staging.turns import Turns

LOOK_EVERY_S = 5.0


class LostTurnError(Exception):
    """Another process has the turn now; never leaves the trainer."""


class Turn:
    """This submit's turn at a job id; without a bucket to hold it in, every submit has it."""

    def __init__(self, backends: Iterable[Backend], job_id: str, sleep: Callable[[float], None]) -> None:
        found = (backend.turns for backend in backends if isinstance(backend, TakesTurns))
        self._turns: Turns | None = next((turns for turns in found if turns is not None), None)
        self._job_id = job_id
        self._owner = secrets.token_hex(8)
        self._sleep = sleep

    def take(self) -> None:
        """Wait until it is ours."""
        while self._turns is not None and not self._turns.take(self._job_id, self._owner):
            self._sleep(LOOK_EVERY_S)

    def keep(self) -> None:
        """Prolong it.

        Raises:
            LostTurnError: another has had it since.
        """
        if self._turns is not None and not self._turns.keep(self._job_id, self._owner):
            raise LostTurnError

    def end(self) -> None:
        """Let others have it; where that fails it ends by itself."""
        if self._turns is not None:
            with contextlib.suppress(GputrainError):
                self._turns.end(self._job_id, self._owner)
