"""How often this process has sent an ask, and whether it was answered: what was not may be done late."""

from __future__ import annotations

from collections.abc import Callable, Iterator
from contextlib import contextmanager

import attrs

from gputrain.errors import GputrainError, TransientError
from gputrain.gcp import UndoneError
from gputrain.gcp.shared import Kept


@attrs.define(eq=False)
class Sends:
    """Of asks, by their nonces; one ask is mostly one request, however often it is sent."""

    _sent: Kept[str, int] = attrs.field(init=False, factory=Kept)
    _unanswered: Kept[str, int] = attrs.field(init=False, factory=Kept)

    def begin(self, nonce: str) -> None:
        """Say that nothing was sent of it yet, as far as this process knows."""
        if self._unanswered.get(nonce) is None:
            self._unanswered.put(nonce, 0)

    def note(self, nonce: str) -> None:
        """Count one more, by this process or by another."""
        self._sent.put(nonce, self._count(nonce) + 1)
        self._unanswered.put(nonce, (self._unanswered.get(nonce) or 0) + 1)

    @contextmanager
    def of(self, nonce: str, *, is_another: bool = False) -> Iterator[Callable[[], None]]:
        """For one call, which may be sent again within: what is to be called before each time.

        Args:
            is_another: it is no repetition of those before it, so they are not answered by it.
        """
        before, open_before = self._count(nonce), self._unanswered.get(nonce) or 0
        try:
            yield lambda: self.note(nonce)
        except GputrainError as error:
            is_lost = isinstance(error, TransientError) and error.refills_in_s is None
            if (isinstance(error, UndoneError) or not is_lost) and self._count(nonce) == before + 1:
                self._unanswered.put(nonce, open_before)
            raise
        self._unanswered.put(nonce, open_before if is_another else 0)

    def are_several(self, nonce: str) -> bool:
        """Whether it was sent more than once."""
        return self._count(nonce) > 1

    def are_answered(self, nonce: str) -> bool:
        """Whether whatever was sent of it was answered; False for what others have sent."""
        return self._unanswered.get(nonce) == 0

    def _count(self, nonce: str) -> int:
        return self._sent.get(nonce) or 0
