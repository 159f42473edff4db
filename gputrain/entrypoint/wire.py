"""Messages between agents: one JSON object per line over TCP, bounded, never blocking the agent.

Two agents prove to each other that both know the job's secret, which itself is never sent: whoever is called
sends a challenge; the caller answers it in its hello, with a challenge of its own; the answer to that comes
with the welcome. A proof holds for one connection, one side, one node of one attempt.
"""

from __future__ import annotations

import contextlib
import errno
import json
import os
import selectors
import socket

from . import messages
from .options import EnvironmentRefused, is_address

TYPE_CHECKING = False
if TYPE_CHECKING:
    from typing import Any, Dict, List, Optional

    Message = Dict[str, Any]

MAX_LINE = 1 << 24
"""Bytes of the longest message: a start of thousands of nodes, or where all ranks of a node stand. A peer
that sends more is cut off."""

_VANISHED_MS = 35_000
"""How long a peer may acknowledge nothing; a killed one is seen at once."""

_KEEP_ALIVE = {
    "TCP_KEEPIDLE": 10,
    "TCP_KEEPALIVE": 10,
    "TCP_KEEPINTVL": 5,
    "TCP_KEEPCNT": 5,
    "TCP_USER_TIMEOUT": _VANISHED_MS,
}
"""Seconds and counts by option; TCP_KEEPALIVE is macOS's word for TCP_KEEPIDLE."""

_FIRST_PORT, _LAST_PORT = 10_000, 32_000
"""Below Linux's ephemeral ports (from 32768): no outgoing connection takes one meanwhile."""


class Link:
    """One connection to another agent."""

    def __init__(self, sock: socket.socket) -> None:
        sock.setblocking(False)
        _keep_alive(sock)
        self.sock = sock
        self.local_addr = sock.getsockname()[0]
        self.remote_addr = sock.getpeername()[0]
        self._incoming = bytearray()
        self.outgoing = b""
        self.closed = False

    def send(self, message: Message) -> None:
        self.outgoing += json.dumps(message, separators=(",", ":")).encode() + b"\n"
        self.flush()

    def flush(self) -> None:
        """Send what the socket takes now."""
        while self.outgoing and not self.closed:
            try:
                sent = self.sock.send(self.outgoing)
            except BlockingIOError:
                return
            except OSError:  # the next `receive` meets the same end, and whoever reads deals with it
                self.outgoing = b""
                return
            self.outgoing = self.outgoing[sent:]

    def receive(self, limit: int = MAX_LINE) -> List[Message]:
        """The messages that arrived whole; closes the link at its end, or when it carries anything else.

        Each is of a form in `messages`, or `messages.NONSENSE`.
        """
        try:
            data = self.sock.recv(65536)
        except BlockingIOError:
            return []
        except OSError:
            data = b""
        first, *others = data.split(b"\n")  # what came before has no end of a line
        self._incoming += first
        lines = [bytes(self._incoming), *others[:-1]] if others else []
        if others:
            self._incoming = bytearray(others[-1])
        said = [_decode(line) if len(line) <= limit else None for line in lines]
        if not data or len(self._incoming) > limit or None in said:
            self.close()
        return [messages.read(message) for message in said if message is not None]

    def watch(self, selector: selectors.BaseSelector) -> None:
        """Have it waited for until there is something to read, and room for what is queued."""
        if not self.closed:
            events = selectors.EVENT_READ | (selectors.EVENT_WRITE if self.outgoing else 0)
            selector.modify(self.sock, events, selector.get_key(self.sock).data)

    def leave(self, selector: selectors.BaseSelector) -> None:
        """Wait for it no more, and close it, if that is not done already."""
        for key in list(selector.get_map().values()):
            if key.fileobj is self.sock:
                selector.unregister(self.sock)
        self.close()

    def close(self) -> None:
        """Close the connection; closing twice is closing once."""
        self.closed = True
        self.sock.close()


def _decode(line: bytes) -> Optional[Message]:
    try:
        message = json.loads(line.decode())
    except (ValueError, RecursionError):
        return None
    return message if isinstance(message, dict) and isinstance(message.get("type"), str) else None


def listen(host: str, port: int) -> socket.socket:
    """A socket on which node 0 hears the others: at the host if it is a numeric address of ours, else at all.

    A name is not bound to: on Vertex AI it is a service's, and Debian gives a machine's own to 127.0.1.1.
    Raises EnvironmentRefused when the port is taken.
    """
    host = "127.0.0.1" if host == "localhost" else host
    last: Optional[OSError] = None
    for address in [host] * is_address(host) + ["::", "0.0.0.0"]:  # noqa: S104  # the job's network is its own
        try:
            return _bound(address, port)
        except OSError as error:  # noqa: PERF203
            last = error
            if error.errno == errno.EADDRINUSE:
                break
    raise EnvironmentRefused(
        f"node 0 cannot listen on port {port}: {last}; is another job here? choose another --coordinator port"
    )


def _bound(address: str, port: int) -> socket.socket:
    sock = socket.socket(_family(address))
    try:
        sock.setsockopt(socket.SOL_SOCKET, socket.SO_REUSEADDR, 1)
        if address == "::":
            sock.setsockopt(socket.IPPROTO_IPV6, socket.IPV6_V6ONLY, 0)
        sock.bind((address, port))
        sock.listen(512)
        sock.setblocking(False)
    except OSError:
        sock.close()
        raise
    return sock


def dial(host: str, port: int, source: str, patience: float) -> Link:
    """A link to node 0, from a source address if one is given. Raises OSError when nobody answers."""
    bound = (source, 0) if source else None
    return Link(socket.create_connection((host, port), timeout=patience, source_address=bound))


def loopback() -> str:
    """This machine's address for itself: IPv4's, or IPv6's where it has no other."""
    with socket.socket() as probe, contextlib.suppress(OSError):
        probe.bind(("127.0.0.1", 0))
        return "127.0.0.1"
    return "::1"


def free_port(address: str) -> int:
    """A port that nobody uses at this address."""
    start = int.from_bytes(os.urandom(4), "big")
    for step in range(200):
        port = _FIRST_PORT + (start + step * 7919) % (_LAST_PORT - _FIRST_PORT)
        with socket.socket(_family(address)) as sock, contextlib.suppress(OSError):
            sock.bind((address, port))
            return port
    raise EnvironmentRefused(f"no free port at {address} between {_FIRST_PORT} and {_LAST_PORT}")


def plain(address: str) -> str:
    """An address without IPv6's wrapping of IPv4."""
    return address[7:] if address.startswith("::ffff:") and "." in address else address


def _family(address: str) -> int:
    return socket.AF_INET6 if ":" in address else socket.AF_INET


def _keep_alive(sock: socket.socket) -> None:
    sock.setsockopt(socket.IPPROTO_TCP, socket.TCP_NODELAY, 1)
    sock.setsockopt(socket.SOL_SOCKET, socket.SO_KEEPALIVE, 1)
    for name, value in _KEEP_ALIVE.items():
        if hasattr(socket, name):  # macOS has but some
            sock.setsockopt(socket.IPPROTO_TCP, getattr(socket, name), value)


NODE, HUB = "node", "hub"


def challenge() -> str:
    """A word that was never said before."""
    return os.urandom(32).hex()


def proof(token: str, side: str, challenges: str, hello: Dict[str, Any]) -> str:
    """What only one who knows the token can say, on this side, of this connection and this node."""
    import hmac  # 3 ms to import, which a node alone need not pay

    what = [side, challenges, hello["job"], hello["attempt"], hello["node_rank"]]
    return hmac.new(token.encode("utf-8", "surrogateescape"), json.dumps(what).encode(), "sha256").hexdigest()


def is_same(theirs: str, ours: str) -> bool:
    """Whether two words are the same, in a time that does not betray where they differ."""
    import hmac

    return hmac.compare_digest(theirs.encode(), ours.encode())
