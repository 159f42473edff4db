"""Node 0's book of the whole job: who joined, how each rank ended, when it is over. Pure.

Nodes say hello, ended, stop; the gang answers start, stop, abort, over. What it wants to tell the nodes
piles up in `outbox` as (node rank, message) for the agent to deliver. What it is told has the forms of
`messages`, and comes from nodes that have proved who they are.
"""

from __future__ import annotations

from . import contract, hang
from .verdict import (
    Loss,
    Pulse,
    completed,
    exit_code_of,
    first_cause,
    is_symptom,
    lost_node,
    node_cause,
    of_endings,
    verdict,
)

TYPE_CHECKING = False
if TYPE_CHECKING:
    from typing import Any, Callable, Dict, List, Optional, Tuple

    Message = Dict[str, Any]

STANDINGS_S = 5.0
"""How long nodes may take to tell where their ranks stand."""

UNASKED = (
    "a rank left with exit code 75, which says that it was asked to stop and has saved, and no agent had "
    "asked; a script that means something else by it needs another code"
)

ENDING_S = 60.0
"""How long the gang waits, once it told the nodes to end, for the slowest of them."""


class Node:
    """What one node said of itself, and how its ranks ended."""

    def __init__(self, hello: Message, addr: str) -> None:
        self.nproc: int = hello["nproc"]
        self.addr: str = hello.get("addr") or addr
        self.port: int = hello["port"]
        self.host: str = hello.get("host", "")
        self.versions: Dict[str, str] = hello.get("versions", {})
        self.ahead_s: float = hello.get("ahead_s", 0.0)
        self.codes: Dict[int, int] = {}
        self.is_gone = False
        self.is_quiet = False
        self.standings: Optional[List[Message]] = None

    @property
    def has_ended(self) -> bool:
        """Whether no rank of it runs any more, as far as anyone can know."""
        return self.is_gone or len(self.codes) >= self.nproc


class Gang:
    """All nodes of one attempt of a job, as node 0 keeps them."""

    def __init__(
        self,
        num_nodes: int,
        identity: Dict[str, str],
        name_of: Callable[[int], str],
        join_by: float,
        hang_timeout: float = 0.0,
    ) -> None:
        self.num_nodes = num_nodes
        self.outbox: List[Tuple[int, Message]] = []
        self.verdict: Optional[Dict[str, Any]] = None
        self.has_started = False
        self._identity = identity
        self._name_of = name_of
        self._deadline = join_by
        self._join_by = join_by
        self._nodes: Dict[int, Node] = {}
        self._failures: List[Loss] = []
        self._left: List[Loss] = []
        self._unsaved: List[Dict[str, Any]] = []
        self._stop: Optional[Dict[str, Any]] = None
        self._cause: Optional[Dict[str, Any]] = None
        self._hang_timeout = hang_timeout
        self._pulse = Pulse(hang_timeout)
        self._explained_by = float("inf")
        self._ended_at = 0.0

    def hello(self, message: Message, addr: str) -> Optional[str]:
        """Take a node in; the answer is why it is turned away, or None."""
        for key, ours in self._identity.items():
            if message[key] != ours:
                return f"its {key} is not this job's"
        rank: int = message["node_rank"]
        if message["num_nodes"] != self.num_nodes:
            return f"it counts {message['num_nodes']} nodes, node 0 counts {self.num_nodes}"
        if rank >= self.num_nodes:
            return f"there is no node {rank} among {self.num_nodes} nodes"
        if self.has_started or self.verdict:
            return "the job has already started; a node that comes back cannot join it again"
        if rank in self._nodes:
            return f"another agent already joined as node {rank}"
        self._nodes[rank] = Node(message, addr)
        return None

    def node(self, rank: int) -> Node:
        return self._nodes[rank]

    @property
    def is_complete(self) -> bool:
        return len(self._nodes) == self.num_nodes

    def patience(self, now: float) -> float:
        """How much longer the nodes that are still missing are waited for, in seconds."""
        return max(0.0, self._join_by - now)

    def missing(self) -> List[str]:
        """The nodes that have not joined, as messages name them."""
        return [self._name_of(rank) for rank in range(self.num_nodes) if rank not in self._nodes]

    def start(self) -> None:
        """Tell every node its first rank and where node 0 is."""
        self.has_started = True
        self._deadline = float("inf")
        nodes = [self._nodes[rank] for rank in range(self.num_nodes)]
        base = 0
        for rank, node in enumerate(nodes):
            start = {
                "type": "start",
                "base_rank": base,
                "world_size": sum(each.nproc for each in nodes),
                "addrs": [each.addr for each in nodes],
                "ports": [each.port for each in nodes],
            }
            self.outbox.append((rank, start))
            base += node.nproc

    def ended(self, rank: int, message: Message, now: float) -> None:
        node = self._nodes[rank]
        code: int = message["exit_code"]
        self._ended_at = now  # a sign of life of the others, too: they may have their own end before them
        node.codes[message["local_rank"]] = code
        happened_at = now - message["age"]
        cause = completed(message["cause"], rank, code)
        if self._cause is not None:
            return
        if code == contract.STOPPED and self._stop is None:
            self.stop(rank, UNASKED, is_agreed=True)
        if cause and self._is_forgiven(cause):
            self._unsaved.append(cause)
        elif cause and cause["kind"] == contract.LEFT_EARLY:
            self._left.append(Loss(cause, happened_at, now))
        elif cause:
            self._failures.append(Loss(cause, happened_at, now))

    def faulty(self, rank: int, why: str, now: float) -> None:
        """The driver of a node says that a GPU of it has failed: what its ranks say is the effect of it."""
        if self._cause is None and not any(one.cause["kind"] == contract.GPU_FAULT for one in self._failures):
            cause = node_cause(contract.GPU_FAULT, rank, self._nodes[rank].host, why)
            self._failures.append(Loss(cause, now, now))

    def _is_forgiven(self, cause: Dict[str, Any]) -> bool:
        """After a stop, a rank ended by the signal or by a peer's end has not failed: it has not saved."""
        if self._stop is None:
            return False
        killed = cause["kind"] == contract.SIGNAL and cause.get("signal") in ("SIGTERM", "SIGKILL", "SIGINT")
        return killed or cause["kind"] == contract.STOP_IGNORED or is_symptom(cause)

    def quiet(self, rank: int, is_quiet: bool) -> None:
        """The ranks of a node say nothing, or something again. Where all nodes are quiet, the job hangs."""
        self._nodes[rank].is_quiet = is_quiet

    def stands(self, rank: int, standings: List[Message]) -> None:
        self._nodes[rank].standings = [{**one, "node_rank": rank} for one in standings]

    def heard(self, rank: int, now: float) -> None:
        self._pulse.heard(rank, now)

    def _look_for_mute(self, now: float) -> None:
        """Ask those that say nothing whether they are there; one that answers no more is lost, not slow."""
        others = [rank for rank, node in self._nodes.items() if rank and not node.is_gone]
        asked, mute = self._pulse.look(now, others)
        self.outbox.extend((rank, {"type": "ping"}) for rank in asked)
        for rank in mute:
            self.lost(rank, now, self._pulse.limit_s)

    def _hangs(self) -> bool:
        running = [node for node in self._nodes.values() if not node.has_ended]
        is_open = self._cause is None and self._stop is None and not self._failures
        return is_open and bool(running) and all(node.is_quiet for node in running)

    def _look_for_hang(self, now: float) -> None:
        """End a job that hangs, once every node has told where its ranks stand, or has had its time."""
        running = [node for node in self._nodes.values() if not node.has_ended]
        if not self._hangs():
            self._explained_by = float("inf")
        elif now < self._ended_at + self._hang_timeout:
            return
        elif self._explained_by == float("inf"):
            self._explained_by = now + STANDINGS_S
            for node in running:
                node.standings = None
            self._tell_all({"type": "stand"})
        elif now >= self._explained_by or all(node.standings is not None for node in running):
            standings = [one for node in running for one in node.standings or ()]
            left = [failure.cause["rank"] for failure in self._left]
            mute = [
                self._name_of(rank)
                for rank, node in self._nodes.items()
                if node in running and node.standings is None
            ]
            self._abort(hang.cause(self._hang_timeout, standings, left, mute), now)

    def lost(self, rank: int, now: float, silent_s: float = 0.0) -> None:
        """A node's connection broke, or it answers no more. Before the start it may come again."""
        node = self._nodes.get(rank)
        if node is None or node.is_gone:
            return
        if not self.has_started:
            del self._nodes[rank]
            return
        had_ended = node.has_ended
        node.is_gone = True
        if not had_ended and self._cause is None:
            cause = lost_node(rank, node.host, self._name_of(rank), silent_s)
            self._failures.append(Loss(cause, now, now))

    def stop(self, rank: int, reason: str, is_agreed: bool = False) -> None:
        """A node was asked to stop: all are. Ranks that agreed on it among themselves need no signal."""
        if self._stop is not None or self.verdict:
            return
        if self.has_started and not is_agreed and all(node.has_ended for node in self._nodes.values()):
            return  # asked of ranks that are done: there is nothing left to stop
        self._stop = {"reason": reason, "node_rank": rank}
        if not self.has_started:
            self._end(verdict(contract.STATE_STOPPED, contract.STOPPED, None, self._stop))
            return
        self._tell_all({"type": "stop", "is_agreed": is_agreed, **self._stop})

    def deadline(self) -> float:
        waiting = [failure.decides_at for failure in self._failures] if self._cause is None else []
        explained_by = self._explained_by
        if explained_by == float("inf") and self._hangs():
            explained_by = self._ended_at + self._hang_timeout
        return min([self._deadline, explained_by, self._pulse.deadline(), *waiting])

    def tick(self, now: float) -> None:
        """Decide what time and the news so far allow to decide."""
        if self.verdict:
            return
        if not self.has_started:
            if now >= self._join_by:
                self._give_up_joining()
            return
        self._look_for_mute(now)
        all_ended = all(node.has_ended for node in self._nodes.values())
        waiting = [failure.decides_at for failure in self._failures]
        self._look_for_hang(now)
        if self._cause is None and waiting and (all_ended or now >= min(waiting)):
            self._abort(first_cause(self._failures, self._left), now)
        if all_ended or (self._cause is not None and now >= self._deadline):
            self._end(self._final())

    def _abort(self, cause: Dict[str, Any], now: float) -> None:
        self._cause, self._explained_by = cause, float("inf")
        self._deadline = now + ENDING_S
        self._tell_all({"type": "abort", "cause": self._cause})

    def _final(self) -> Dict[str, Any]:
        if self._cause is not None:
            return verdict(contract.STATE_FAILED, exit_code_of(self._cause), self._cause, self._stop)
        return of_endings(self._unsaved, self._stop)

    def _give_up_joining(self) -> None:
        rank = min(rank for rank in range(self.num_nodes) if rank not in self._nodes)
        joined = f"only {len(self._nodes)} of {self.num_nodes} nodes joined in time"
        cause = node_cause(contract.NODE_MISSING, rank, "", f"{joined}; missing: {', '.join(self.missing())}")
        self._end(verdict(contract.STATE_FAILED, contract.NODE_LOST, cause, None))

    def _end(self, outcome: Dict[str, Any]) -> None:
        self.verdict = outcome
        self._deadline = float("inf")
        self._tell_all({"type": "over", "verdict": outcome})

    def _tell_all(self, message: Message) -> None:
        self.outbox.extend((rank, message) for rank, node in sorted(self._nodes.items()) if not node.is_gone)
