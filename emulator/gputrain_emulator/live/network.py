"""Networks that are no part of this computer's: a switch for all machines of one cloud, a plug for each.

Each machine has a network namespace, so that 169.254.169.254 is its own metadata server, as on Compute
Engine. Nothing is changed in this computer's own namespace, and the kernel takes all of it down with the
last process and descriptor that holds it.
"""

from __future__ import annotations

import contextlib
import ctypes
import io
import ipaddress
import os
import shutil
import socket
import socketserver
import subprocess
import threading
from collections.abc import Callable
from concurrent.futures import ThreadPoolExecutor
from typing import Any, TypeVar

METADATA = "169.254.169.254"
PLACES = "/usr/local/sbin:/usr/sbin:/sbin:/usr/bin:/bin"
_NETWORK = 0x40000000  # CLONE_NEWNET
_libc = ctypes.CDLL(None, use_errno=True)

T = TypeVar("T")


class Network:
    """A switch that machines are plugged into; they reach each other, and nobody else."""

    def __init__(self) -> None:
        self._lock = threading.Lock()
        self._count = 0
        self._switch = _inside(None, _namespace)
        self._configure(self._switch, ["link add switch type bridge", "link set switch up"])

    def plug_in(self, address: str) -> Plug:
        """A machine's end of a new cable, `eth0` of `address`; every other address is at its other end."""
        with self._lock:
            self._count += 1
            number = self._count
        namespace = _inside(None, _namespace)
        far = f"/proc/{os.getpid()}/fd/{self._switch.fileno()}"
        self._configure(
            namespace,
            [
                "link set lo up",
                f"addr add {METADATA}/32 dev lo",
                f"link add eth0 address {mac(address)} mtu 1460 type veth peer name port{number} netns {far}",
                f"addr add {address}/32 dev eth0",
                "link set eth0 up",
                "route add default dev eth0",
            ],
        )
        self._configure(self._switch, [f"link set port{number} master switch up"])
        return Plug(namespace)

    def close(self) -> None:
        """Let go of it."""
        self._switch.close()

    def _configure(self, namespace: io.FileIO, lines: list[str]) -> None:
        program = str(shutil.which("ip", path=PLACES))

        def run() -> None:
            done = subprocess.run(
                [program, "-batch", "-"], input="\n".join(lines), capture_output=True, text=True, check=False
            )
            if done.returncode != 0:
                raise OSError(f"the kernel gives no such network: {done.stderr.strip()}")

        _inside(namespace, run)


class Plug:
    """A machine's network namespace, held open whether the machine is up or not."""

    def __init__(self, namespace: io.FileIO) -> None:
        self._namespace = namespace
        self._relays: list[_Relay] = []

    @property
    def path(self) -> str:
        """Where a container engine finds the namespace."""
        return f"/proc/{os.getpid()}/fd/{self._namespace.fileno()}"

    def listening(self, make: Callable[[], T]) -> T:
        """What `make` makes, with the sockets of it listening in here."""
        return _inside(self._namespace, make)

    def show(self, host: str, port: int) -> None:
        """Let the machine find under this address what listens there on this computer."""
        relay = self.listening(lambda: _Relay((host, port), _Both))
        self._relays.append(relay)
        threading.Thread(target=relay.serve_forever, args=(0.05,), name="relay", daemon=True).start()

    def close(self) -> None:
        """Let go of it, and of what is shown."""
        for relay in self._relays:
            relay.shutdown()
            relay.server_close()
        self._namespace.close()


class _Relay(socketserver.ThreadingTCPServer):
    daemon_threads = True
    request_queue_size = 64

    def handle_error(self, request: Any, client_address: Any) -> None:
        """A side that broke its connection is no news."""


class _Both(socketserver.BaseRequestHandler):
    """Carries bytes both ways until both sides have said their last."""

    def handle(self) -> None:
        with socket.create_connection(self.request.getsockname()) as there:
            back = threading.Thread(target=_carry, args=(there, self.request), daemon=True)
            back.start()
            _carry(self.request, there)
            back.join()


def _carry(source: socket.socket, sink: socket.socket) -> None:
    with contextlib.suppress(OSError):
        while data := source.recv(1 << 16):
            sink.sendall(data)
    with contextlib.suppress(OSError):
        sink.shutdown(socket.SHUT_WR)


def mac(address: str) -> str:
    """The hardware address that Google gives an interface: 42:01 and its IPv4 address.

    >>> mac("10.128.0.2")
    '42:01:0a:80:00:02'
    """
    return "42:01:" + ipaddress.IPv4Address(address).packed.hex(":")


def _namespace() -> io.FileIO:
    """What holds a new network namespace; the thread that asks is in it."""
    if _libc.unshare(_NETWORK) != 0:
        raise OSError(ctypes.get_errno(), "no network namespace of one's own")
    return open("/proc/thread-self/ns/net", "rb", buffering=0)


def _inside(namespace: io.FileIO | None, work: Callable[[], T]) -> T:
    """Do something in a namespace, in a thread that ends with it: no other thread changes its place."""

    def there() -> T:
        if namespace is not None and _libc.setns(namespace.fileno(), _NETWORK) != 0:
            raise OSError(ctypes.get_errno(), "the machine's network namespace cannot be entered")
        return work()

    with ThreadPoolExecutor(1) as pool:
        return pool.submit(there).result()
