"""Which failure was the first cause, whether nodes still answer, and the whole job's verdict. Pure: no clock,
no network.

When one rank dies, its peers die of it: their sockets close, their collectives time out. Such failures are
symptoms. A symptom is blamed only when no cause shows up in time; among causes the earliest wins.
Measured with torch 2.13 and gloo: by time alone a healthy peer was blamed in 1 of 2 segmentation faults.

The kernel of a machine that hangs may acknowledge for ever what its agent never reads, so agents are asked
themselves. A node that works and says nothing answers; one that answers no more is lost, not slow.
"""

from __future__ import annotations

import re

from . import contract

TYPE_CHECKING = False
if TYPE_CHECKING:
    from typing import Any, Dict, Iterable, List, Optional, Sequence, Tuple

    Cause = Dict[str, Any]

CAUSE_SETTLES_S = 0.25
"""How long a cause waits for an earlier one from another node."""

SYMPTOM_WAITS_S = 3.0
"""How long a symptom waits for a cause."""

SEEN_LATE_S = 1.0
"""How much later than its peers' symptoms a rank's end may be seen, by another agent."""

_SYMPTOM = re.compile(
    r"(closed|reset|aborted) by (remote )?peer|connection (was )?(closed|reset|aborted|refused)|broken ?pipe"
    r"|ncclRemoteError|ncclSystemError|remote process exited|unhandled system error"
    r"|watchdog caught collective|collective operation timeout|heartbeat monitor|pair closure"
    r"|timed out waiting .*(recv|send|store|client|operation|key)|socket timeout|(recv|send)Value failed"
    r"|failed to (recv|send), got|Dist(Network|Store)Error",
    re.IGNORECASE,
)
"""How gloo, NCCL, c10d's store and plain sockets word the loss of a peer (torch 2.13)."""


class Loss:
    """A rank that failed or a node that was lost: when, and whether it looks like the effect of another."""

    def __init__(self, cause: Cause, happened_at: float, heard_at: float) -> None:
        self.cause = cause
        self.happened_at = happened_at
        self.heard_at = heard_at
        self.is_symptom = is_symptom(cause)

    @property
    def decides_at(self) -> float:
        """When to stop waiting for a better explanation."""
        return self.heard_at + (SYMPTOM_WAITS_S if self.is_symptom else CAUSE_SETTLES_S)


def is_symptom(cause: Cause) -> bool:
    """Whether a failure looks like the effect of a peer's end.

    >>> is_symptom({"kind": "exception", "message": "[...] Connection closed by peer [127.0.0.1]:4711"})
    True
    """
    kind = cause.get("kind")
    if kind == contract.SIGNAL and cause.get("signal") not in ("SIGABRT", "SIGPIPE"):
        return False
    if kind not in (contract.EXCEPTION, contract.SIGNAL, contract.EXIT):
        return False
    if cause.get("signal") == "SIGPIPE":
        return True
    said = [cause.get("exception"), cause.get("message"), cause.get("traceback")]
    if kind != contract.EXCEPTION:
        said += cause.get("last_lines") or []
    return any(_SYMPTOM.search(str(text)) for text in said if text)


def first_cause(failures: Sequence[Loss], left: Sequence[Loss]) -> Cause:
    """The failure to blame: a broken GPU, else the earliest cause, else one that `left` with 0 before the
    first symptom, else that.
    """
    broken = [failure for failure in failures if failure.cause["kind"] == contract.GPU_FAULT]
    causes = broken or [failure for failure in failures if not failure.is_symptom]
    if causes:
        return min(causes, key=_when).cause
    symptom = min(failures, key=_when)
    deserters = [rank for rank in left if rank.happened_at <= symptom.happened_at + SEEN_LATE_S]
    return min(deserters, key=_when).cause if deserters else symptom.cause


def exit_code_of(cause: Cause) -> int:
    """What the job exits with because of this cause: the rank's own code where it has one, never 0."""
    if cause["kind"] in (contract.NODE_LOSS, contract.NODE_MISSING, contract.GPU_FAULT):
        return contract.NODE_LOST
    return int(cause.get("exit_code") or 1)


def of_endings(unsaved: Sequence[Cause], stop: Optional[Dict[str, Any]]) -> Dict[str, Any]:
    """The verdict on a job that nothing broke: done, or stopped with or without its state saved."""
    if unsaved:
        return verdict(contract.STATE_STOPPED, exit_code_of(unsaved[0]), unsaved[0], stop)
    if stop is None:
        return verdict(contract.STATE_DONE, contract.DONE, None, None)
    return verdict(contract.STATE_STOPPED, contract.STOPPED, None, stop)


def verdict(state: str, code: int, cause: Optional[Cause], stop: Optional[Dict[str, Any]]) -> Dict[str, Any]:
    """The part of the result document that is the same on every node."""
    return {
        contract.R_STATE: state,
        contract.R_EXIT_CODE: code,
        contract.R_CAUSE: cause,
        contract.R_STOP: stop,
    }


def completed(cause: Optional[Cause], rank: int, code: int) -> Optional[Dict[str, Any]]:
    """A cause with all its fields; None for a rank that saved after a stop."""
    if code == contract.STOPPED:
        return None
    kind = contract.EXIT if code else contract.LEFT_EARLY
    told = node_cause(kind, rank, "", f"ended with exit code {code}")
    told.update(cause or {}, node_rank=rank, exit_code=code)
    return told


def lost_node(rank: int, host: str, name: str, silent_s: float = 0.0) -> Dict[str, Any]:
    """The cause that a node's agent went away, or says nothing."""
    message = f"{name} was lost: its agent or its machine ended without a word"
    if silent_s:
        message = f"{name} answers no more: nothing came from it for {silent_s:g} s, though it is connected"
    return node_cause(contract.NODE_LOSS, rank, host, message)


def node_cause(kind: str, rank: int, host: str, message: str) -> Dict[str, Any]:
    """A cause that is about a node, not about one of its ranks."""
    cause: Dict[str, Any] = dict.fromkeys(contract.CAUSE_FIELDS)
    cause.update(kind=kind, node_rank=rank, host=host or None, message=message, last_lines=[])
    return cause


def describe(cause: Cause) -> List[str]:
    """A cause as a person reads it."""
    rank, node, host = cause.get("rank"), cause.get("node_rank"), cause.get("host")
    where = f"rank {rank} on node {node}" if rank is not None else f"node {node}"
    head = f"first cause: {where}" + (f" ({host})" if host else "") + f": {cause['message']}"
    text = cause.get("traceback") or "\n".join(cause.get("last_lines") or ())
    return [head] + ["  " + line for line in str(text).splitlines()]


def _when(failure: Loss) -> float:
    return failure.happened_at


SILENT_S = 120.0
"""How long a node may answer nothing, where no hang timeout is shorter."""

LEAST_S = 10.0
"""No busy machine keeps its agent from running for so long."""

_QUESTIONS = 4
"""How often a node is asked within that time."""


class Pulse:
    """When each of some nodes was heard of last, and how long one may answer nothing.

    >>> Pulse(None).limit_s, Pulse(30.0).limit_s, Pulse(1.0).limit_s
    (120.0, 30.0, 10.0)
    """

    def __init__(self, hang_timeout: Optional[float]) -> None:
        self.limit_s = max(LEAST_S, min(SILENT_S, hang_timeout or SILENT_S))
        self._every_s = self.limit_s / _QUESTIONS
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
        return self._look_at
