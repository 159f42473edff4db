"""Node 0's end of the control plane: listens, keeps the gang, speaks for node 0 itself as well.

What the gang tells node 0 piles up in `inbox`, as it does in another node's `Uplink`.
"""

from __future__ import annotations

import selectors
import socket

from . import wire
from .gang import Gang

TYPE_CHECKING = False
if TYPE_CHECKING:
    from typing import Any, Callable, Dict, List, Optional

    from .discovery import Cluster
    from .options import Options

    Message = Dict[str, Any]
    Say = Callable[..., None]

HELLO_WITHIN_S = 10.0
"""How long a connection may stay silent before it is closed."""

STRANGERS = 256
"""How many connections may be open that have not said hello; the oldest makes room for the next."""

_NOTE_EVERY_S = 60.0


class Hub:
    """The meeting point of all nodes."""

    def __init__(
        self, cluster: Cluster, options: Options, selector: selectors.BaseSelector, say: Say, now: float
    ) -> None:
        self.inbox: List[Message] = []
        identity = {"job": options.job, "attempt": options.attempt, "token": options.token}
        self.gang = Gang(cluster.num_nodes, identity, cluster.name_of, now + options.join_timeout)
        self._identity = identity
        self._options = options
        self._selector = selector
        self._say = say
        self._links: Dict[int, wire.Link] = {}
        self._strangers: Dict[wire.Link, float] = {}
        self._turned_away = 0
        self._note_at = now + 5.0
        self._began = now
        self._listener: Optional[socket.socket] = None
        if cluster.num_nodes > 1:
            self._listener = wire.listen(cluster.host, cluster.port)
            selector.register(self._listener, selectors.EVENT_READ, self._accept)

    @property
    def is_released(self) -> bool:
        """Whether every other node has gone, so that node 0 may be the last to leave."""
        return not self._links

    def send(self, message: Message, now: float) -> None:
        """Take a message of node 0 itself."""
        if message["type"] == "hello":
            refusal = self.gang.hello({**message, **self._identity}, self._options.local_addr or "127.0.0.1")
            assert refusal is None, refusal
        else:
            self._take(0, message, now)

    def deadline(self) -> float:
        """When `tick` should be called at the latest."""
        waiting = [self.gang.deadline(), *self._strangers.values()]
        return min(waiting if self.gang.has_started else [*waiting, self._note_at])

    def tick(self, now: float) -> None:
        """Start the gang when it is complete, decide what is due, deliver."""
        for link in [link for link, until in self._strangers.items() if now >= until]:
            self._forget(link)
        if not self.gang.has_started and not self.gang.verdict:
            if self.gang.is_complete:
                self._start()
            elif now >= self._note_at:
                self._note_at = now + _NOTE_EVERY_S
                self._say(f"waiting for {', '.join(self.gang.missing())}, {now - self._began:.0f} s so far")
        self.gang.tick(now)
        self._deliver()

    def _start(self) -> None:
        node = self.gang.node(0)
        if self._links and not self._options.local_addr:
            node.addr = wire.plain(self._links[min(self._links)].local_addr)
        node.port = self._options.master_port or wire.free_port(node.addr)
        for mismatch in self.gang.mismatches():
            self._say(f"versions differ: {mismatch}", "WARNING")
        self.gang.start()

    def _deliver(self) -> None:
        while self.gang.outbox:
            rank, message = self.gang.outbox.pop(0)
            if rank == 0:
                self.inbox.append(message)
            elif rank in self._links:
                self._links[rank].send(message)
                self._watch(self._links[rank])

    def _watch(self, link: wire.Link) -> None:
        if link.closed:
            return
        events = selectors.EVENT_READ | (selectors.EVENT_WRITE if link.has_more_to_send else 0)
        self._selector.modify(link.sock, events, self._selector.get_key(link.sock).data)

    def _accept(self, now: float) -> None:
        assert self._listener is not None
        try:
            sock, _ = self._listener.accept()
            link = wire.Link(sock)
        except OSError:
            return
        if len(self._strangers) >= STRANGERS:
            self._forget(min(self._strangers, key=self._strangers.__getitem__))
        self._strangers[link] = now + HELLO_WITHIN_S
        self._selector.register(link.sock, selectors.EVENT_READ, lambda at: self._read_stranger(link, at))

    def _read_stranger(self, link: wire.Link, now: float) -> None:
        messages = link.receive(limit=1 << 14)
        if messages and messages[0]["type"] == "hello":
            self._greet(link, messages[0])
            for message in messages[1:] if link in self._links.values() else []:
                self._take(int(messages[0]["node_rank"]), message, now)
        elif messages or link.closed:
            self._turned_away += 1
            if self._turned_away == 1:
                self._say(f"closed a connection from {link.remote_addr} that is not an agent's", "WARNING")
            self._forget(link)

    def _greet(self, link: wire.Link, message: Message) -> None:
        refusal = self.gang.hello(message, wire.plain(link.remote_addr))
        if refusal:
            self._say(f"turned away an agent at {link.remote_addr}: {refusal}", "WARNING")
            link.send({"type": "refused", "why": refusal})
            self._forget(link)
            return
        rank = int(message["node_rank"])
        del self._strangers[link]
        self._links[rank] = link
        self._selector.modify(link.sock, selectors.EVENT_READ, lambda at: self._read(rank, link, at))

    def _read(self, rank: int, link: wire.Link, now: float) -> None:
        link.flush()
        for message in [] if link.closed else link.receive():
            self._take(rank, message, now)
        if link.closed:
            wire.unregister(self._selector, link.sock)
            del self._links[rank]
            self.gang.lost(rank, now)
        else:
            self._watch(link)

    def _take(self, rank: int, message: Message, now: float) -> None:
        try:
            if message["type"] == "ended":
                self.gang.ended(rank, message, now)
            elif message["type"] == "stop":
                self.gang.stop(rank, str(message["reason"]))
        except (KeyError, TypeError, ValueError) as error:
            self._say(f"node {rank} sent a message that makes no sense: {error!r}", "WARNING")

    def _forget(self, link: wire.Link) -> None:
        del self._strangers[link]
        wire.unregister(self._selector, link.sock)
        link.close()
