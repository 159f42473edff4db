"""Another node's end of the control plane: finds node 0, joins, hears what the gang decides.

What the gang tells this node piles up in `inbox`. Whoever answers at node 0's address is believed once he has
proved that he knows the job's token, and waited for no longer than the time to join, until the job starts.
"""

from __future__ import annotations

import selectors
import socket

from . import contract, wire
from .verdict import Pulse, lost_node, node_cause, verdict

TYPE_CHECKING = False
if TYPE_CHECKING:
    from typing import Any, Callable, Dict, List, Optional

    from .discovery import Cluster
    from .options import Options

    Message = Dict[str, Any]
    Say = Callable[..., None]

_DIAL_PATIENCE_S = 3.0

WELCOME_WITHIN_S = 10.0
"""How long one who answers at node 0's address may take to prove that he is node 0."""

VERDICT_S = 10.0
"""How much longer than node 0 a node waits: its verdict names who is missing."""


class Uplink:
    """The way from this node to node 0."""

    def __init__(
        self, cluster: Cluster, options: Options, selector: selectors.BaseSelector, say: Say, now: float
    ) -> None:
        self.inbox: List[Message] = []
        self._cluster = cluster
        self._options = options
        self._selector = selector
        self._say = say
        self._hello: Message = {}
        self._challenges = ""
        self._link: Optional[wire.Link] = None
        self._is_welcome = self._has_started = self._is_over = False
        self._pulse = Pulse(options.hang_timeout)
        self._dial_at = now
        self._hang_up_at = float("inf")
        self._pause = 0.02
        self._join_by = now + options.join_timeout
        self._trouble = "nobody answered"

    @property
    def is_released(self) -> bool:
        """Whether this node may leave: it waits for nobody."""
        return True

    def send(self, message: Message, _: float) -> None:
        """Send a message to the gang; a stop before the join ends this node alone."""
        if message["type"] == "hello":
            self._hello = message
        elif self._link is not None and self._is_welcome:
            self._link.send(message)
            self._link.watch(self._selector)
        elif message["type"] == "stop":
            stop = {"reason": message["reason"], "node_rank": self._cluster.node_rank}
            self._end(verdict(contract.STATE_STOPPED, contract.STOPPED, None, stop))

    def deadline(self) -> float:
        if self._has_started or self._is_over:
            return float("inf") if self._is_over else self._pulse.deadline()
        return min(self._join_by, self._dial_at if self._link is None else self._hang_up_at)

    def tick(self, now: float) -> None:
        """Try to reach node 0, until it is too late; once the job runs, see that it still answers."""
        if self._has_started and not self._is_over and self._pulse.look(now, [0])[1]:
            self._lose(now, "node 0 answers no more", is_mute=True)
        if self._has_started or self._is_over:
            return
        if now >= self._join_by:
            node_0 = f"{self._cluster.name_of(0)} at {self._cluster.host}:{self._cluster.port}"
            cause = node_cause(
                contract.NODE_MISSING, 0, "", f"{node_0} could not be joined in time: {self._trouble}"
            )
            self._end(verdict(contract.STATE_FAILED, contract.NODE_LOST, cause, None))
        elif self._link is None and now >= self._dial_at:
            self._dial(now)
        elif self._link is not None and now >= self._hang_up_at:
            self._lose(now, "whoever answered there said nothing")

    def _dial(self, now: float) -> None:
        patience = max(0.05, min(_DIAL_PATIENCE_S, self._join_by - now))
        try:
            link = wire.dial(self._cluster.host, self._cluster.port, self._options.local_addr, patience)
        except OSError as error:
            self._trouble = str(error)
            self._dial_at, self._pause = now + self._pause, min(1.0, self._pause * 1.5)
            return
        self._link = link
        self._trouble = "whoever answered there said nothing"
        self._hang_up_at = now + WELCOME_WITHIN_S
        self._selector.register(link.sock, selectors.EVENT_READ, self._read)

    def _answer(self, theirs: str) -> None:
        """Say who we are, and prove it."""
        link = self._link
        assert link is not None
        ours = wire.challenge()
        self._challenges = theirs + ours
        port = self._options.master_port or wire.free_port(link.local_addr)
        addr = self._options.local_addr or wire.plain(link.local_addr)
        proof = wire.proof(self._options.token, wire.NODE, theirs, self._hello)
        link.send({**self._hello, "addr": addr, "port": port, "nonce": ours, "proof": proof})

    def _read(self, now: float) -> None:
        link = self._link
        assert link is not None
        link.flush()
        for message in [] if link.closed else link.receive():
            if self._is_welcome:
                self._pulse.heard(0, now)
                self._take(message)
            elif not self._is_met(message, now):
                return
        if link.closed:
            self._lose(now, "node 0 closed the connection" if self._is_welcome else self._trouble)
        else:
            link.watch(self._selector)

    def _is_met(self, message: Message, now: float) -> bool:
        """Whether one who is not known to be node 0 goes on as node 0 would."""
        kind = message["type"]
        if kind == "challenge" and not self._challenges:
            self._answer(message["nonce"])
            self._trouble = "whoever answered there closed the connection"
            return True
        if kind not in ("welcome", "refused") or not self._challenges or not self._is_node_0(message):
            self._lose(now, "whoever answered there does not know this job's token")
            return False
        self._is_welcome = True
        self._hang_up_at = float("inf")
        self._trouble = "it has not started the job"
        if kind == "refused":
            why = f"node 0 turned this node away: {message['why']}"
            cause = node_cause(contract.REFUSED, self._cluster.node_rank, socket.gethostname(), why)
            self._end(verdict(contract.STATE_FAILED, contract.BAD_ENVIRONMENT, cause, None))
        else:
            self._join_by = now + message["join_s"] + VERDICT_S
        return True

    def _is_node_0(self, message: Message) -> bool:
        ours = wire.proof(self._options.token, wire.HUB, self._challenges, self._hello)
        return wire.is_same(message["proof"], ours)

    def _take(self, message: Message) -> None:
        kind = message["type"]
        if kind == "start" and len(message["addrs"]) == len(message["ports"]) == self._cluster.num_nodes:
            self._has_started = True
        elif kind == "over":
            self._is_over = True
        elif kind == "ping":
            self.send({"type": "pong"}, 0.0)
            return
        elif kind not in ("stop", "stand", "abort"):
            self._say(f"node 0 sent a message that makes no sense: {message.get('why', kind)}", "WARNING")
            return
        self.inbox.append(message)

    def _lose(self, now: float, trouble: str, is_mute: bool = False) -> None:
        """Close the connection; before the start node 0 is looked for again."""
        assert self._link is not None
        self._link.leave(self._selector)
        self._link = None
        self._is_welcome, self._challenges, self._trouble = False, "", trouble
        self._dial_at, self._hang_up_at = now + 0.5, float("inf")
        if self._has_started and not self._is_over:
            self._is_over = True
            cause = lost_node(0, self._cluster.host, self._cluster.name_of(0), self._pulse.limit_s * is_mute)
            self.inbox.append({"type": "orphaned", "cause": cause})

    def _end(self, outcome: Dict[str, Any]) -> None:
        self._is_over = True
        self.inbox.append({"type": "over", "verdict": outcome})
