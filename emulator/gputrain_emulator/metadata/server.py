"""The HTTP side of a metadata server: one small server an emulated machine, on that machine's own address."""

from __future__ import annotations

import re
import threading
from http.server import BaseHTTPRequestHandler, ThreadingHTTPServer
from socketserver import TCPServer
from typing import Any
from urllib.parse import parse_qsl, unquote, urlsplit

from gputrain_emulator.metadata.answers import Answer, Question, answer
from gputrain_emulator.metadata.tree import Metadata

MAX_BODY = 1024 * 1024


class MetadataServer(ThreadingHTTPServer):
    """Answers for one machine until `close`.

    Args:
        metadata: what it knows.
        address: a loopback address; port 80 where this user may bind it, any free port otherwise.
    """

    daemon_threads = True
    request_queue_size = 64

    def __init__(self, metadata: Metadata, address: str = "127.0.0.1", port: int = 0) -> None:
        self.metadata = metadata
        super().__init__((address, port), _Handler)
        self._thread = threading.Thread(
            target=self.serve_forever, kwargs={"poll_interval": 0.05}, name=f"metadata {address}", daemon=True
        )
        self._thread.start()

    def server_bind(self) -> None:
        """Take the address as it is: on a machine's own network nobody knows its name, after 5 s."""
        TCPServer.server_bind(self)
        self.server_name, self.server_port = str(self.server_address[0]), self.server_address[1]

    @property
    def host(self) -> str:
        """`ADDRESS:PORT`, what goes into GCE_METADATA_HOST; the port is left out when it is 80."""
        address, port = str(self.server_address[0]), self.server_address[1]
        return address if port == 80 else f"{address}:{port}"

    def close(self) -> None:
        """Stop listening."""
        self.shutdown()
        self.server_close()
        self._thread.join()

    def handle_error(self, request: Any, client_address: Any) -> None:
        """A client that broke its connection is no news."""


class _Handler(BaseHTTPRequestHandler):
    server: MetadataServer
    protocol_version = "HTTP/1.1"
    server_version = "Metadata Server for VM"
    sys_version = ""
    wbufsize = -1
    disable_nagle_algorithm = True
    timeout = 75.0

    def log_message(self, format: str, *args: Any) -> None:  # noqa: A002 - the name of the base class
        """Nothing is logged."""

    def _serve(self) -> None:
        url = urlsplit(self.path)
        length = self.headers.get("Content-Length", "0")
        if not re.fullmatch("[0-9]{1,9}", length) or int(length) > MAX_BODY:
            self.close_connection = True
            self._send(Answer(status=413, text="Request body is too large.\n"))
            return
        self.rfile.read(int(length))
        question = Question(
            verb=self.command,
            path=unquote(url.path),
            query=dict(parse_qsl(url.query, keep_blank_values=True)),
            headers={name.lower(): value for name, value in self.headers.items()},
        )
        self._send(answer(self.server.metadata, question))

    do_GET = do_HEAD = do_PUT = do_POST = do_DELETE = _serve  # noqa: N815 - the names http.server looks for

    def _send(self, reply: Answer) -> None:
        body = reply.text.encode()
        self.send_response(reply.status)
        self.send_header("Metadata-Flavor", "Google")
        self.send_header("Content-Type", reply.kind)
        self.send_header("Content-Length", str(len(body)))
        self.send_header("X-XSS-Protection", "0")
        self.send_header("X-Frame-Options", "SAMEORIGIN")
        if reply.etag:
            self.send_header("ETag", reply.etag)
        if reply.location:
            self.send_header("Location", reply.location)
        self.end_headers()
        if self.command != "HEAD":
            self.wfile.write(body)
