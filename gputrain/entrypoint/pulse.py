"""Whether the other nodes still answer. Pure: no clock, no network.

The kernel of a machine that hangs may acknowledge for ever what its agent never reads, so agents are asked
themselves. A node that works and says nothing answers; one that answers no more is lost, not slow.
"""

from __future__ import annotations

TYPE_CHECKING = False
if TYPE_CHECKING:
    from typing import Dict, Iterable, List, Optional, Tuple

SILENT_S = 120.0
"""How long a node may answer nothing; with a hang timeout that one, where it is shorter."""

LEAST_S = 10.0
"""No busy machine keeps its agent from running for so long."""

_QUESTIONS = 4
"""How often a node is asked within that time."""


def limit_s(hang_timeout: Optional[float]) -> float:
    """How long a node may answer nothing.

    >>> limit_s(None), limit_s(30.0), limit_s(1.0)
    (120.0, 30.0, 10.0)
    """
    return max(LEAST_S, min(SILENT_S, hang_timeout or SILENT_S))


class Pulse:
    """When each of some nodes was heard of last."""

    def __init__(self, limit_s: float) -> None:
        self.limit_s = limit_s
        self._every_s = limit_s / _QUESTIONS
        self._heard: Dict[int, float] = {}
        self._asked: Dict[int, float] = {}
        self._look_at = float("inf")

    def heard(self, node: int, now: float) -> None:
        """A node has said something."""
        self._heard[node] = now

    def look(self, now: float, nodes: Iterable[int]) -> Tuple[List[int], List[int]]:
        """Which of the nodes are to be asked, and which answer no more."""
        # Whoever looks late was held up itself, and blames nobody for that time.
        late = max(0.0, now - self._look_at)
        asked, lost = [], []
        for node in nodes:
            heard = self._heard[node] = min(now, self._heard.get(node, now) + late)
            if now >= heard + self.limit_s:
                lost.append(node)
            elif now >= max(heard, self._asked.get(node, heard)) + self._every_s:
                asked.append(node)
                self._asked[node] = now
        self._look_at = now + self._every_s if self._heard else float("inf")
        return asked, lost

    def deadline(self) -> float:
        """When to look next."""
        return self._look_at
