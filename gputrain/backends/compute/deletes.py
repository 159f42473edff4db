"""Deletes VMs, one after the other, in rounds."""

from __future__ import annotations

import contextlib
import uuid

from gputrain.backends.compute.calls import Calls
from gputrain.errors import GputrainError, TransientError
from gputrain.gcp import MissingError
from gputrain.retry import ONCE, WRITE
from gputrain.times import Since


class Deletes:
    """The deletes of one zone's VMs.

    The first that is refused in passing uses up the patience of all. From then on each is tried once a round,
    lest whoever waits does so for each of sixteen VMs in turn.
    """

    def __init__(self, calls: Calls, zone: str) -> None:
        self._calls, self._zone = calls, zone
        self.since = Since(calls.access.now)
        """The time since the first round, or since the patience was used up."""
        self.refused: GputrainError | None = None
        """What was refused first; or in passing, and with patience."""

    def delete(self, name: str) -> None:
        """Delete one; what is gone is gone. Raises as `Calls.delete`."""
        is_patient = not isinstance(self.refused, TransientError)
        try:
            with contextlib.suppress(MissingError):
                policy = WRITE if is_patient else ONCE
                self._calls.delete(self._zone, name, str(uuid.uuid4()), policy=policy)
        except GputrainError as error:
            if is_patient and isinstance(error, TransientError):
                self.since, self.refused = Since(self._calls.access.now), error
            self.refused = self.refused or error
            raise
