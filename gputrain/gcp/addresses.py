"""Where a token may go: addresses are read strictly, and taken apart before anything is sent to them."""

from __future__ import annotations

import re
from ipaddress import ip_address

import attrs

from gputrain.errors import Fault, SpecError
from gputrain.secrets import redact

_ADDRESS = re.compile(
    r"(?P<scheme>https?)://(?P<host>\[[0-9a-f:.]+\]|[a-z0-9](?:[a-z0-9.-]*[a-z0-9])?)(?::(?P<port>\d{1,5}))?"
    r"(?P<path>(?:/[\w.~-]+)*)/?",
    re.IGNORECASE | re.ASCII,
)
OURS = "googleapis.com"
"""Google's own universe; partners of Google's run others."""
_CHANNEL = re.compile(r"(?P<host>\[[0-9a-f:.]+\]|[a-z0-9.-]+):\d{1,5}", re.IGNORECASE | re.ASCII)


@attrs.frozen(kw_only=True)
class Address:
    """An address in its parts; what was written besides is no part of it."""

    scheme: str
    host: str
    port: str
    path: str

    @classmethod
    def parse(cls, text: str) -> Address:
        """Read ``https://host:port/path``.

        Raises:
            ValueError: a login, a query, a backslash or anything else stands in it that two readers could
                take for two different hosts.

        >>> Address.parse("http://127.0.0.1:18080/").text
        'http://127.0.0.1:18080'
        """
        found = _ADDRESS.fullmatch(text)
        if found is None:
            raise ValueError(text)
        parts = {name: part or "" for name, part in found.groupdict().items()}
        return cls(**{**parts, "scheme": parts["scheme"].lower(), "host": parts["host"].lower()})

    @property
    def text(self) -> str:
        """The address, written anew from its parts."""
        return f"{self.scheme}://{self.host}{f':{self.port}' if self.port else ''}{self.path}"

    @property
    def is_here(self) -> bool:
        """Whether it is this machine's own, which nobody else can answer at."""
        return is_loopback(self.host)


def is_loopback(host: str) -> bool:
    """Whether a host is this machine, by its address and not by how its name begins.

    >>> is_loopback("127.0.0.1"), is_loopback("127.evil.example")
    (True, False)
    """
    if host == "localhost":
        return True
    try:
        return ip_address(host.strip("[]")).is_loopback
    except ValueError:
        return False


def is_channel_here(address: str) -> bool:
    """Whether ``host:port`` of a gRPC service is on this machine."""
    found = _CHANNEL.fullmatch(address)
    return found is not None and is_loopback(found["host"].lower())


def check_address(name: str, address: str) -> None:
    """Refuse an address to which no token may go: one in clear text is this machine's, or none at all.

    Args:
        name: of the field that holds it; that of a gRPC service ends in ``_grpc``, and holds ``host:port``.
        address: with ``{region}`` and ``{host}`` still in it; empty where there is none.

    Raises:
        SpecError: it is no such address.
    """
    filled = address.replace("{region}", "region").replace("{host}", "host")
    is_channel = name.endswith("_grpc")
    if not address or (_CHANNEL.fullmatch(filled) if is_channel else _is_closed(filled)):
        return
    allowed = "host:port" if is_channel else "https://host, or http://127.0.0.1:port"
    fix = f"write {allowed}, and no login: tokens are sent there"
    fault = Fault(field=f"endpoints.{name}", value=repr(redact(address)[:80]), allowed=allowed, fix=fix)
    raise SpecError(str(fault), faults=(fault,))


def _is_closed(address: str) -> bool:
    try:
        found = Address.parse(address)
    except ValueError:
        return False
    return found.scheme == "https" or found.is_here


def is_googles(address: str) -> bool:
    """Whether an address is in Google's own universe, whose tokens alone may go there."""
    host = address.partition("://")[2].partition("/")[0] or address
    return host.partition(":")[0].endswith(f".{OURS}")
