"""Node 0's end of the control plane: listens, keeps the gang, speaks for node 0 itself as well.

What the gang tells node 0 piles up in `inbox`, as it does in another node's `Uplink`.
Whoever connects is a stranger until a hello proves the job's secret; what he says before costs him his
connection, and nothing else.
"""

from __future__ import annotations

import selectors
import socket
import time

from . import wire
from .gang import Gang, Node
from .messages import NONSENSE

TYPE_CHECKING = False
if TYPE_CHECKING:
    from typing import Any, Callable, Dict, Iterator, List, Optional

    from .discovery import Cluster
    from .options import Options

    Message = Dict[str, Any]
    Say = Callable[..., None]

HELLO_WITHIN_S = 10.0
"""How long a connection may stay silent before it is closed."""

STRANGERS = 256
"""How many strangers there may be; the oldest makes room for the next."""

HELLO_LIMIT = 1 << 14
"""Bytes of the longest line that is read from a stranger."""

CLOCKS_APART_S = 60.0
"""How far apart two nodes' clocks may be without a word."""

_NOTE_EVERY_S = 60.0


class Stranger:
    """A connection that has not said who it is."""

    def __init__(self, link: wire.Link, until: float) -> None:
        self.link = link
        self.until = until
        self.challenge = wire.challenge()


class Hub:
    """The meeting point of all nodes."""

    def __init__(
        self, cluster: Cluster, options: Options, selector: selectors.BaseSelector, say: Say, now: float
    ) -> None:
        self.inbox: List[Message] = []
        self._identity = {"job": options.job, "attempt": options.attempt}
        join_by, hang_timeout = now + options.join_timeout, options.hang_timeout or 0.0
        self.gang = Gang(cluster.num_nodes, self._identity, cluster.name_of, join_by, hang_timeout)
        self._options = options
        self._name_of = cluster.name_of
        self._selector = selector
        self._say = say
        self._links: Dict[int, wire.Link] = {}
        self._strangers: List[Stranger] = []
        self._complaints: Dict[str, int] = {}
        self._note_at = now + 5.0
        self._began = now
        self._listener: Optional[socket.socket] = None
        if cluster.num_nodes > 1:
            self._listener = wire.listen(cluster.host, cluster.port)
            selector.register(self._listener, selectors.EVENT_READ, self._accept)

    @property
    def is_released(self) -> bool:
        """Whether every other node has gone: node 0 is the last to leave."""
        return not self._links

    def send(self, message: Message, now: float) -> None:
        """Take a message of node 0 itself."""
        if message["type"] == "hello":
            refusal = self.gang.hello(
                {**message, **self._identity}, self._options.local_addr or wire.loopback()
            )
            assert refusal is None, refusal
        else:
            self._take(0, message, now)

    def deadline(self) -> float:
        waiting = [self.gang.deadline(), *(stranger.until for stranger in self._strangers)]
        return min(waiting if self.gang.has_started else [*waiting, self._note_at])

    def tick(self, now: float) -> None:
        """Start the gang when it is complete, decide what is due, deliver."""
        for stranger in [one for one in self._strangers if now >= one.until]:
            self._forget(stranger)
        if not self.gang.has_started and not self.gang.verdict:
            if self.gang.is_complete:
                self._start()
            elif now >= self._note_at:
                self._note_at = now + _NOTE_EVERY_S
                self._say(f"waiting for {', '.join(self.gang.missing())}, {now - self._began:.0f} s so far")
        self.gang.tick(now)
        self._deliver()
        for rank in [one for one in self._links if self.gang.node(one).is_gone]:
            self._hang_up(rank)  # it answers no more, and nobody is to wait for it at the end

    def _start(self) -> None:
        node = self.gang.node(0)
        if self._links and not self._options.local_addr:
            node.addr = wire.plain(self._links[min(self._links)].local_addr)
        node.port = self._options.master_port or wire.free_port(node.addr)
        for rank in sorted(self._links):
            for difference in _differences(self._name_of(rank), self.gang.node(rank), node):
                self._say(difference, "WARNING")
        self.gang.start()

    def _deliver(self) -> None:
        while self.gang.outbox:
            rank, message = self.gang.outbox.pop(0)
            if rank == 0:
                self.inbox.append(message)
            elif rank in self._links:
                self._links[rank].send(message)
                self._links[rank].watch(self._selector)

    def _accept(self, now: float) -> None:
        assert self._listener is not None
        try:
            sock, _ = self._listener.accept()
            link = wire.Link(sock)
        except OSError:
            return
        if len(self._strangers) >= STRANGERS:
            self._forget(self._strangers[0])
        stranger = Stranger(link, now + HELLO_WITHIN_S)
        self._strangers.append(stranger)
        self._selector.register(link.sock, selectors.EVENT_READ, lambda at: self._read_stranger(stranger, at))
        link.send({"type": "challenge", "nonce": stranger.challenge})

    def _read_stranger(self, stranger: Stranger, now: float) -> None:
        link = stranger.link
        if link.closed:  # he made room for another in this very turn
            return
        messages = link.receive(limit=HELLO_LIMIT)
        if not messages and not link.closed:
            return
        hello: Message = messages[0] if messages else {"type": NONSENSE}
        if hello["type"] != "hello" or not self._knows_token(stranger, hello):
            self._complain("closed a connection of one who does not prove the job's token", link.remote_addr)
            self._forget(stranger)
        elif self._greet(stranger, hello, now):
            for message in messages[1:]:
                self._take(hello["node_rank"], message, now)

    def _knows_token(self, stranger: Stranger, hello: Message) -> bool:
        ours = wire.proof(self._options.token, wire.NODE, stranger.challenge, hello)
        return wire.is_same(hello["proof"], ours)

    def _greet(self, stranger: Stranger, hello: Message, now: float) -> bool:
        link = stranger.link
        clock = hello["clock"]  # two nodes' clocks are compared here alone, to tell of it
        ahead_s = 0.0 if clock is None else clock - time.time()
        refusal = self.gang.hello({**hello, "ahead_s": ahead_s}, wire.plain(link.remote_addr))
        challenges = stranger.challenge + hello["nonce"]
        proof = wire.proof(self._options.token, wire.HUB, challenges, hello)
        if refusal:
            self._complain(f"turned away an agent: {refusal}", link.remote_addr)
            link.send({"type": "refused", "proof": proof, "why": refusal})
            self._forget(stranger)
            return False
        rank: int = hello["node_rank"]
        self._strangers.remove(stranger)
        self._links[rank] = link
        self._selector.modify(link.sock, selectors.EVENT_READ, lambda at: self._read(rank, link, at))
        link.send({"type": "welcome", "proof": proof, "join_s": self.gang.patience(now)})
        link.watch(self._selector)
        return True

    def _read(self, rank: int, link: wire.Link, now: float) -> None:
        link.flush()
        for message in [] if link.closed else link.receive():
            self._take(rank, message, now)
        if link.closed:
            self._hang_up(rank)
            self.gang.lost(rank, now)
        else:
            link.watch(self._selector)

    def _hang_up(self, rank: int) -> None:
        self._links.pop(rank).leave(self._selector)

    def _take(self, rank: int, message: Message, now: float) -> None:
        self.gang.heard(rank, now)
        kind = message["type"]
        if kind == "ended":
            self.gang.ended(rank, message, now)
        elif kind == "stop":
            self.gang.stop(rank, message["reason"])
        elif kind == "faulty":
            self.gang.faulty(rank, message["why"], now)
        elif kind == "quiet":
            self.gang.quiet(rank, message["is_quiet"])
        elif kind == "standings":
            self.gang.stands(rank, message["ranks"])
        elif kind != "pong":
            why = message.get("why", f"a {kind} is not a node's to say")
            self._complain(f"node {rank} sent a message that makes no sense: {why}", f"node {rank}")

    def _complain(self, what: str, whom: str) -> None:
        """Say what was wrong with a message: the first time, and at each power of ten."""
        times = self._complaints[what] = self._complaints.get(what, 0) + 1
        if str(times).strip("0") == "1":
            self._say(f"{what} ({whom}; {times} so far)", "WARNING")

    def _forget(self, stranger: Stranger) -> None:
        self._strangers.remove(stranger)
        stranger.link.leave(self._selector)


def _differences(name: str, node: Node, first: Node) -> Iterator[str]:
    """What differs between a node and node 0 and may explain strange failures later."""
    for what, version in sorted(node.versions.items()):
        if version != first.versions.get(what):
            yield f"versions differ: {name} has {what} {version}, but node 0 has {first.versions.get(what)}"
    if abs(node.ahead_s) > CLOCKS_APART_S:
        way = "ahead of" if node.ahead_s > 0 else "behind"
        yield (
            f"clocks differ: {name} is {abs(node.ahead_s):.0f} s {way} node 0, and so are the times of "
            "its lines and files; set both by NTP"
        )
