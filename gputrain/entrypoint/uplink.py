"""Another node's end of the control plane: finds node 0, joins, hears what the gang decides.

What the gang tells this node piles up in `inbox`.
"""

from __future__ import annotations

import selectors
import socket

from . import contract, wire
from .gang import lost_node, node_cause
from .verdict import verdict

TYPE_CHECKING = False
if TYPE_CHECKING:
    from typing import Any, Callable, Dict, List, Optional

    from .discovery import Cluster
    from .options import Options

    Message = Dict[str, Any]
    Say = Callable[..., None]

_DIAL_PATIENCE_S = 3.0


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
        self._link: Optional[wire.Link] = None
        self._dial_at = now
        self._pause = 0.02
        self._join_by = now + options.join_timeout
        self._trouble = "nobody answered"
        self._has_started = False
        self._is_over = False

    @property
    def is_released(self) -> bool:
        """Whether this node may leave: it waits for nobody."""
        return True

    def send(self, message: Message, _: float) -> None:
        """Send a message to the gang; a stop before the join ends this node alone."""
        if message["type"] == "hello":
            self._hello = message
        elif self._link is not None:
            self._link.send(message)
            self._watch()
        elif message["type"] == "stop":
            stop = {"reason": message["reason"], "node_rank": self._cluster.node_rank}
            self._end(verdict(contract.STATE_STOPPED, contract.STOPPED, None, stop))

    def deadline(self) -> float:
        """When `tick` should be called at the latest."""
        return float("inf") if self._link is not None or self._is_over else min(self._dial_at, self._join_by)

    def tick(self, now: float) -> None:
        """Try to reach node 0, until it is too late."""
        if self._link is not None or self._is_over:
            return
        if now >= self._join_by:
            node_0 = f"{self._cluster.name_of(0)} at {self._cluster.host}:{self._cluster.port}"
            cause = node_cause(
                contract.NODE_MISSING, 0, "", f"{node_0} could not be joined in time: {self._trouble}"
            )
            self._end(verdict(contract.STATE_FAILED, contract.NODE_LOST, cause, None))
        elif now >= self._dial_at:
            self._dial(now)

    def _dial(self, now: float) -> None:
        patience = max(0.05, min(_DIAL_PATIENCE_S, self._join_by - now))
        try:
            link = wire.dial(self._cluster.host, self._cluster.port, self._options.local_addr, patience)
        except OSError as error:
            self._trouble = str(error)
            self._dial_at, self._pause = now + self._pause, min(1.0, self._pause * 1.5)
            return
        self._link = link
        port = self._options.master_port or wire.free_port(link.local_addr)
        addr = self._options.local_addr or wire.plain(link.local_addr)
        link.send({**self._hello, "addr": addr, "port": port})
        self._selector.register(link.sock, selectors.EVENT_READ, self._read)
        self._watch()

    def _watch(self) -> None:
        if self._link is not None and not self._link.closed:
            events = selectors.EVENT_READ | (selectors.EVENT_WRITE if self._link.has_more_to_send else 0)
            self._selector.modify(self._link.sock, events, self._read)

    def _read(self, now: float) -> None:
        link = self._link
        assert link is not None
        link.flush()
        for message in [] if link.closed else link.receive():
            if message["type"] == "refused":
                why = f"node 0 turned this node away: {message.get('why')}"
                cause = node_cause(contract.REFUSED, self._cluster.node_rank, socket.gethostname(), why)
                self._end(verdict(contract.STATE_FAILED, contract.BAD_ENVIRONMENT, cause, None))
            else:
                self._has_started = self._has_started or message["type"] == "start"
                self._is_over = self._is_over or message["type"] == "over"
                self.inbox.append(message)
        if link.closed:
            self._hang_up(now)
        else:
            self._watch()

    def _hang_up(self, now: float) -> None:
        assert self._link is not None
        wire.unregister(self._selector, self._link.sock)
        self._link = None
        if self._is_over:
            return
        if self._has_started:
            self._is_over = True
            self.inbox.append(
                {"type": "orphaned", "cause": lost_node(0, self._cluster.host, self._cluster.name_of(0))}
            )
        else:
            self._trouble, self._dial_at = "node 0 closed the connection", now + 0.5

    def _end(self, outcome: Dict[str, Any]) -> None:
        self._is_over = True
        self.inbox.append({"type": "over", "verdict": outcome})
