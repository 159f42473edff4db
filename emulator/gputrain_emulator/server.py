"""The HTTP side: threads, loopback only, and nothing it is sent stops it."""

from __future__ import annotations

import contextlib
import functools
import gzip
import ipaddress
import re
import socket
import threading
from collections.abc import Mapping, Sequence
from dataclasses import replace
from email.utils import formatdate
from http.server import BaseHTTPRequestHandler, ThreadingHTTPServer
from typing import Any

from gputrain_emulator import admin, batch
from gputrain_emulator.call import MAX_JSON_BODY, Reply, refusal
from gputrain_emulator.dispatch import Dispatcher, Dropped, Outcome
from gputrain_emulator.errors import ApiError
from gputrain_emulator.exchanges import Request, unwrapped
from gputrain_emulator.faults import Fault, Truncate

IDLE_S = 75.0
"""A connection that says nothing for this long is closed."""

PACKED_FROM = 1024
"""Bytes from which a document travels packed; a shorter one fits one packet of the network as it is."""


class Server(ThreadingHTTPServer):
    """Listens on a loopback address and answers from one dispatcher."""

    daemon_threads = True
    request_queue_size = 128
    allow_reuse_address = True

    def __init__(self, dispatcher: Dispatcher, *, host: str = "127.0.0.1", port: int = 0) -> None:
        require_loopback(host)
        self.dispatcher = dispatcher
        self.connections: set[socket.socket] = set()
        self.address_family = socket.AF_INET6 if ":" in host else socket.AF_INET
        try:
            super().__init__((host, port), Handler)
        except OSError as error:
            told = f"{error.strerror}: port {port} of {host} (port 0 is a free one)"
            raise OSError(error.errno, told) from error
        address = str(self.server_address[0])
        self.url = f"http://{f'[{address}]' if ':' in address else address}:{self.server_address[1]}"

    def start(self) -> None:
        """Serve from a thread of its own."""
        threading.Thread(
            target=self.serve_forever, kwargs={"poll_interval": 0.05}, name="emulator", daemon=True
        ).start()

    def stop(self) -> None:
        """Stop listening and close every connection."""
        ending = threading.Thread(target=self.shutdown)
        ending.start()
        with contextlib.suppress(OSError):  # a visitor wakes the loop, which else looks up every 50 ms only
            socket.create_connection((str(self.server_address[0]), self.server_address[1]), 1).close()
        ending.join()
        self.server_close()
        for connection in list(self.connections):
            _close(connection)

    def handle_error(self, request: Any, client_address: Any) -> None:
        """A client that broke its connection is no news; a fault of our own was answered with 500 already."""


class Handler(BaseHTTPRequestHandler):
    """One connection."""

    server: Server
    protocol_version = "HTTP/1.1"
    wbufsize = -1
    disable_nagle_algorithm = True
    timeout = IDLE_S

    def setup(self) -> None:
        super().setup()
        self.server.connections.add(self.connection)

    def finish(self) -> None:
        self.server.connections.discard(self.connection)
        super().finish()

    def log_message(self, format: str, *args: Any) -> None:  # noqa: A002 - the base class names it so
        """The request log is ``cloud.requests``."""

    def _serve(self) -> None:
        try:
            outcome = answered(self.server.dispatcher, self._request())
        except ApiError as error:
            self.close_connection = True
            self._send(refusal(error))
            return
        except (Dropped, ConnectionError, TimeoutError):  # by order, or by a client that went away
            self.close_connection = True
            _close(self.connection)
            return
        except Exception as error:  # noqa: BLE001 - the top of a thread: our own fault becomes a 500
            self.server.dispatcher.fail(error)
            outcome = Outcome(reply=refusal(ApiError(500, "Internal error encountered.")))
        self._send(outcome.reply, outcome.wire)

    do_GET = do_POST = do_PUT = do_PATCH = do_DELETE = do_HEAD = do_OPTIONS = _serve  # noqa: N815 - the names http.server looks for

    def date_time_string(self, timestamp: float | None = None) -> str:
        """The time of the emulated world, which is what its services' ``Date`` tells."""
        now = self.server.dispatcher.world.clock.now()
        return _date(int(now if timestamp is None else timestamp))

    def _request(self) -> Request:
        headers = {name.lower(): value for name, value in self.headers.raw_items()}
        if "transfer-encoding" in headers:
            raise ApiError(501, "Chunked request bodies are not implemented by this emulator.")
        self.path = _target(self.path)
        body = b""
        if headers.get("content-length", "0") != "0":
            body = self._counted(headers["content-length"].strip(), self._body_limit())
        if headers.get("content-encoding", "identity").lower() != "identity":
            raise ApiError(501, "Packed request bodies are not implemented by this emulator.")
        return Request(verb=self.command, target=self.path, headers=headers, body=body)

    def _body_limit(self) -> int:
        try:
            target = unwrapped(Request(verb=self.command, target=self.path)).target
            method, _ = self.server.dispatcher.routes.match(self.command, target.partition("?")[0])
        except ApiError:
            return MAX_JSON_BODY
        return method.max_body

    def _counted(self, text: str, limit: int) -> bytes:
        if not re.fullmatch("[0-9]{1,18}", text):  # isdigit takes a superscript, which int does not
            raise ApiError(400, "Invalid Content-Length.")
        if int(text) > limit:
            raise ApiError(413, f"Request payload size exceeds the limit: {limit} bytes.")
        if self.headers.get("Expect", "").lower() == "100-continue":
            self.wfile.flush()
        return self.rfile.read(int(text))

    def _send(self, reply: Reply, wire: Sequence[Fault] = ()) -> None:
        body = b"" if isinstance(reply.body, dict) else reply.body
        if len(body) >= PACKED_FROM and self._takes_packed(reply):
            body = gzip.compress(body, 1)
            reply = replace(reply, headers={**reply.headers, "Content-Encoding": "gzip"})
        self.wfile.write(self._head(reply, len(body)))
        if self.command == "HEAD":
            body = b""
        for fault in wire:
            if isinstance(fault, Truncate):
                self.close_connection = True
                body = body[: int(len(body) * fault.share)]
        self.wfile.write(body)

    def _takes_packed(self, reply: Reply) -> bool:
        """Whether a reply is a document, not an object's bytes, and its reader says gzip twice.

        Source: cloud.google.com/compute/docs/api/how-tos/performance, read 2026-11-22.
        """
        if reply.content_type != Reply.content_type or "X-Goog-Hash" in reply.headers:
            return False
        words = (self.headers.get("Accept-Encoding", ""), self.headers.get("User-Agent", ""))
        return all("gzip" in word for word in words)

    def _head(self, reply: Reply, length: int) -> bytes:
        """Status line and headers, in one piece: header by header costs a tenth of a small answer."""
        phrase = self.responses.get(reply.status, ("",))[0]
        lines = [f"HTTP/1.1 {reply.status} {phrase}", "Server: ESF", f"Date: {self.date_time_string()}"]
        if not any(name.lower() == "content-type" for name in reply.headers):
            lines.append(f"Content-Type: {_one_line(reply.content_type)}")
        lines += [f"{name}: {_one_line(value)}" for name, value in reply.headers.items()]
        if reply.status not in (204, 304):
            lines.append(f"Content-Length: {length}")
        if self.close_connection:
            lines.append("Connection: close")
        return ("\r\n".join(lines) + "\r\n\r\n").encode("utf-8", "replace")


def answered(dispatcher: Dispatcher, request: Request) -> Outcome:
    """What goes back for a request, whatever carried it here; raises Dropped and ApiError."""
    host = request.headers.get("host", "")
    if not _is_ours(host):
        return Outcome(reply=refusal(ApiError(404, f"The host {host[:200]} is not served here.")))
    if _is_of_a_page(request.headers):
        # Before any route: a page on the web may send a POST to this machine without asking first.
        return Outcome(reply=refusal(ApiError(403, "Requests of web pages are not answered here.")))
    request = unwrapped(request)
    path = request.target.partition("?")[0]
    if path.startswith("/_emulator/"):
        return Outcome(reply=admin.answer(dispatcher, request))
    if path in batch.PATHS and request.verb == "POST":
        return Outcome(reply=batch.answer(dispatcher, request))
    return dispatcher.handle(request)


def _one_line(value: str) -> str:
    """A header's value: what users store of an object may hold anything, and must end no line."""
    return value if value.isprintable() else "".join(c if c.isprintable() else " " for c in value)


@functools.lru_cache(maxsize=64)
def _date(when: int) -> str:
    return formatdate(when, usegmt=True)


def _close(connection: socket.socket) -> None:
    with contextlib.suppress(OSError):  # the other side was faster
        connection.shutdown(socket.SHUT_RDWR)
    connection.close()


def _target(wanted: str) -> str:
    """Path and query of a request; raises ApiError 404 for one that is meant for another host."""
    if wanted.startswith("/"):
        return wanted
    found = re.fullmatch(r"https?://([^/?#]*)(/.*)?", wanted)
    if found is None or not _is_ours(found[1]):
        raise ApiError(404, f"The requested URL {wanted[:200]} was not found on this server.")
    return found[2] or "/"


def require_loopback(host: str) -> None:
    """Raises ValueError for an address that others than this machine could reach."""
    if host != "localhost" and not _is_loopback(host):
        raise ValueError(
            f"the emulator binds to loopback only, not to {host}: it checks no keys and may run what comes"
        )


@functools.lru_cache(maxsize=64)
def _is_ours(host: str) -> bool:
    """Whether a Host header may be answered: a web page that points its own name at this machine may not."""
    name = re.sub(r":[0-9]+$", "", host).strip("[]").lower()
    if not name or name == "localhost" or name == "metadata.google.internal":
        return True
    return name.endswith((".localhost", ".googleapis.com")) or _is_loopback(name)


def _is_of_a_page(headers: Mapping[str, str]) -> bool:
    """Whether a browser sends it for some page; no client of Google's sends either header."""
    return "origin" in headers or headers.get("sec-fetch-site", "none").lower() not in ("none", "same-origin")


def _is_loopback(host: str) -> bool:
    try:
        return ipaddress.ip_address(host).is_loopback
    except ValueError:
        return False
