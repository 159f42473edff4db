"""The steps of one directory that count, as one process sees them."""

from __future__ import annotations

from typing import Dict, Optional

from gputrain.ddp import folder
from gputrain.ddp.errors import CheckpointError
from gputrain.ddp.folder import Marker


class Shelf:
    """Which steps are whole: their marker and sizes hold, and nobody has found other bytes in them.

    Attributes:
        rejected: steps this run has found unusable, and whether each was complete once.
    """

    def __init__(self, directory: str) -> None:
        self.directory = directory
        self.rejected: Dict[int, bool] = {}

    def steps(self) -> list[int]:
        """The whole steps, oldest first."""
        return [step for step in folder.steps_in(self.directory) if self._is_whole(step)]

    def latest(self) -> Optional[int]:
        """The newest whole step; None without any."""
        return max(self.steps(), default=None)

    def prune(self, keep: int) -> None:
        """Keep the newest `keep` whole steps; markers of the others go first, so no half of one counts.

        Raises:
            CheckpointError: `keep` is less than 1.
        """
        refuse_to_keep_nothing(keep)
        kept = self.steps()[-keep:]
        for step in folder.steps_in(self.directory):
            if step not in kept:
                folder.remove_step(self.directory, step)

    def _is_whole(self, step: int) -> bool:
        return step not in self.rejected and isinstance(folder.read_marker(self.directory, step), Marker)


def refuse_to_keep_nothing(keep: int) -> None:
    """Refuse to remove the last checkpoint.

    Raises:
        CheckpointError: `keep` is less than 1.
    """
    if keep < 1:
        raise CheckpointError(f"keep={keep} leaves nothing to resume from", fix="keep at least 1")
