"""Addresses and ports of this node. Nothing here sends anything."""

from __future__ import annotations

import contextlib
import os
import socket

_FIRST_PORT, _LAST_PORT = 10_000, 32_000
"""Below Linux's ephemeral ports (from 32768): no outgoing connection takes one meanwhile."""

_ELSEWHERE = ("192.0.2.1", "2001:db8::1")
"""Addresses of documentation, whose route is the default one."""


def is_address(text: str) -> bool:
    """Whether a host is written as a number, IPv4 or IPv6."""
    for family in (socket.AF_INET, socket.AF_INET6):
        with contextlib.suppress(OSError):
            socket.inet_pton(family, text)
            return True
    return False


def is_own(address: str) -> bool:
    """Whether this machine has a numeric address."""
    with contextlib.suppress(OSError), socket.socket(_family(address)) as probe:
        probe.bind((address, 0))
        return True
    return False


def own_address(host: str) -> str:
    """The numeric address that others reach this machine by: the one on the route to a host.

    Without a host, or where its name means nothing here, the one on the default route, else the loopback's.
    """
    for other in filter(None, (host, *_ELSEWHERE)):
        with contextlib.suppress(OSError):
            family, kind, _, _, address = socket.getaddrinfo(other, 9, type=socket.SOCK_DGRAM)[0]
            with socket.socket(family, kind) as probe:
                probe.connect(address)  # of a datagram: it only chooses the route
                return str(probe.getsockname()[0])
    return loopback()


def loopback() -> str:
    """This machine's address for itself: IPv4's, or IPv6's where it has no other."""
    return "127.0.0.1" if is_own("127.0.0.1") else "::1"


def numeric(host: str) -> str:
    """The address that a name stands for. Raises OSError where it stands for none."""
    try:
        return str(socket.getaddrinfo(host, None, type=socket.SOCK_STREAM)[0][4][0])
    except OSError as error:
        raise OSError(f"{host!r} means nothing here: {error}") from None


def free_port(address: str) -> int:
    """A port that nobody uses at this address. Raises OSError where there is none."""
    start = int.from_bytes(os.urandom(4), "big")
    for step in range(200):
        port = _FIRST_PORT + (start + step * 7919) % (_LAST_PORT - _FIRST_PORT)
        with socket.socket(_family(address)) as sock, contextlib.suppress(OSError):
            sock.bind((address, port))
            return port
    raise OSError(f"no free port at {address} between {_FIRST_PORT} and {_LAST_PORT}")


def in_brackets(address: str) -> str:
    """As an address stands before a port."""
    return f"[{address}]" if ":" in address else address


def _family(address: str) -> int:
    return socket.AF_INET6 if ":" in address else socket.AF_INET
