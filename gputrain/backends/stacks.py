"""What a backend does for those who want to know where the ranks of a running job stand, and the answers."""

from __future__ import annotations

import json
import re
from abc import abstractmethod
from collections.abc import Mapping, Sequence
from typing import Any, Protocol, runtime_checkable

from gputrain.backends.base import JobRef
from gputrain.backends.results import text, whole

MOST_BYTES = 8 << 20
"""Of an answer; the stacks of a node's ranks take some kilobytes each."""
_TEXTS = ("collective", "place", "trace")
_COUNTS = ("rank", "local_rank")


@runtime_checkable
class AsksForStacks(Protocol):
    """Its agents can be asked where their ranks stand, while the job runs."""

    @abstractmethod
    def ask_for_stacks(self, ref: JobRef, nonce: str) -> None:
        """Ask the agents of all nodes; ``nonce`` tells the answers from earlier ones."""

    @abstractmethod
    def stacks(self, ref: JobRef, nonce: str) -> Mapping[int, Sequence[Mapping[str, Any]]]:
        """The answers that have come: of each node, by its rank, where its ranks stand."""


def node_of(name: str, nonce: str) -> int | None:
    """The node whose answer has this name; None for anything else."""
    found = re.search(rf"stacks-{re.escape(nonce)}-(\d{{1,6}})\.json$", name)
    return int(found[1]) if found else None


def read_standings(content: bytes, node_rank: int) -> tuple[Mapping[str, Any], ...]:
    """The ranks of an answer, read where anybody may have written it; what is no rank of one is left out.

    >>> read_standings(b'{"ranks": [{"rank": 1, "trace": "x"}, {"rank": "two"}]}', 0)[0]["rank"]
    1
    """
    try:
        told = json.loads(content)
    except (ValueError, RecursionError):
        return ()
    ranks = told.get("ranks") if isinstance(told, dict) else None
    found = [one for one in ranks if isinstance(one, dict)] if isinstance(ranks, list) else []
    return tuple(_standing(one, node_rank) for one in found if whole(one.get("rank")) is not None)


def _standing(told: Mapping[str, Any], node_rank: int) -> Mapping[str, Any]:
    recorded = told.get("recorded")
    groups = recorded.items() if isinstance(recorded, dict) else ()
    return {
        "node_rank": node_rank,
        **{name: whole(told.get(name)) or 0 for name in _COUNTS},
        **{name: text(told.get(name)) or "" for name in _TEXTS},
        "recorded": {str(text(group)): one for group, value in groups if (one := _counts(value))},
    }


def _counts(told: object) -> Mapping[str, Any] | None:
    if not isinstance(told, dict) or whole(told.get("begun")) is None:
        return None
    return {
        "begun": told["begun"],
        "done": whole(told.get("done")) or 0,
        "name": text(told.get("name")) or "",
    }
