"""Debian's docker-registry on a port of this computer, and Artifact Registry's door before it."""

from __future__ import annotations

import base64
import contextlib
import json
import shutil
import socket
import subprocess
import threading
import time
import urllib.error
import urllib.request
from collections.abc import Iterator
from contextlib import contextmanager
from http.server import BaseHTTPRequestHandler, ThreadingHTTPServer
from pathlib import Path
from typing import Any

from gputrain_emulator import Cloud
from gputrain_emulator.errors import ApiError

PROGRAM = shutil.which("docker-registry")
READ = "artifactregistry.repositories.downloadArtifacts"
PASSED_ON = ("Accept", "Content-Type", "Content-Range", "Host")
PASSED_BACK = (
    "Content-Type", "Content-Length", "Docker-Content-Digest", "Docker-Upload-UUID", "Location", "Range"
)  # fmt: skip
PATIENCE_S = 20.0


@contextmanager
def running(folder: Path) -> Iterator[str]:
    """A registry that keeps its images in ``folder``; its address."""
    assert PROGRAM is not None
    with socket.create_server(("127.0.0.1", 0)) as free:
        address = f"127.0.0.1:{free.getsockname()[1]}"
    settings = folder / "config.yml"
    settings.write_text(
        f"version: 0.1\nlog: {{level: error, accesslog: {{disabled: true}}}}\nhttp: {{addr: '{address}'}}\n"
        f"storage: {{filesystem: {{rootdirectory: {folder}}}}}\n"
    )
    with open(folder / "log", "wb") as log:
        process = subprocess.Popen([PROGRAM, "serve", settings], stdout=log, stderr=log)
    try:
        _wait_for(f"http://{address}/v2/", process)
        yield f"http://{address}"
    finally:
        process.terminate()
        process.wait()


def _wait_for(url: str, process: subprocess.Popen[bytes]) -> None:
    patience = time.monotonic() + PATIENCE_S
    while not _answers(url):
        assert process.poll() is None, "the registry ended"
        assert time.monotonic() < patience, "the registry does not answer"
        time.sleep(0.02)


def _answers(url: str) -> bool:
    try:
        urllib.request.urlopen(url, timeout=5).close()
    except OSError:
        return False
    return True


class ArtifactRegistry:
    """What stands before the images of a project at Google: tokens, and the permission to read.

    It listens on port 80 of a loopback address, where Docker looks when it may speak without TLS; the name
    of a Google registry in ``hosts`` leads there.
    """

    def __init__(self, cloud: Cloud, behind: str) -> None:
        self.cloud, self.behind = cloud, behind
        self.seen: list[tuple[str, str, int]] = []
        """Who asked for what, and the status of the answer."""
        door = self

        class Door(BaseHTTPRequestHandler):
            protocol_version = "HTTP/1.1"

            def log_message(self, *_: Any) -> None:
                pass

        for verb in ("GET", "HEAD", "POST", "PATCH", "PUT"):
            setattr(Door, f"do_{verb}", lambda request: door.answer(request))
        self._server = _listening(Door)
        threading.Thread(target=self._server.serve_forever, daemon=True).start()

    @property
    def address(self) -> str:
        return str(self._server.server_address[0])

    def close(self) -> None:
        self._server.shutdown()
        self._server.server_close()

    def answer(self, request: BaseHTTPRequestHandler) -> None:
        token = _token(request.headers.get("Authorization", ""))
        try:
            caller = self.cloud.world.callers.find(f"Bearer {token}") if token else None
        except ApiError:
            caller = None
        path = request.path.partition("?")[0]
        who = "" if caller is None else caller.email
        if caller is None:
            host = request.headers["Host"]
            how = {"WWW-Authenticate": f'Bearer realm="http://{host}/v2/token",service="{host}"'}
            self._say(request, who, 401, _error("UNAUTHORIZED", "authentication failed"), how)
        elif path == "/v2/token":
            self._say(request, who, 200, json.dumps({"token": token, "expires_in": 3599}).encode(), {})
        elif path != "/v2/" and caller.permissions is not None and READ not in caller.permissions:
            resource = "projects/{}/locations/us-central1/repositories/{}".format(*path.split("/")[2:4])
            text = f'Permission "{READ}" denied on resource "{resource}" (or it may not exist)'
            self._say(request, who, 403, _error("DENIED", text), {})
        else:
            self._say(request, who, *self._behind(request))

    def _behind(self, request: BaseHTTPRequestHandler) -> tuple[int, bytes, dict[str, str]]:
        headers = {name: ", ".join(found) for name in PASSED_ON if (found := request.headers.get_all(name))}
        body = _body(request) if request.command in ("POST", "PATCH", "PUT") else None
        asked = urllib.request.Request(self.behind + request.path, body, headers, method=request.command)
        try:
            with urllib.request.urlopen(asked, timeout=60) as reply:
                found = {name: reply.headers[name] for name in PASSED_BACK if name in reply.headers}
                return reply.status, reply.read(), found
        except urllib.error.HTTPError as error:
            return error.code, error.read(), {}

    def _say(
        self, request: BaseHTTPRequestHandler, who: str, status: int, body: bytes, headers: dict[str, str]
    ) -> None:
        self.seen.append((who, request.path, status))
        request.send_response(status)
        for name, value in {"Content-Length": str(len(body)), **headers}.items():
            request.send_header(name, value)
        with contextlib.suppress(BrokenPipeError):  # who asked was killed
            request.end_headers()
        if request.command != "HEAD":
            with contextlib.suppress(BrokenPipeError):
                request.wfile.write(body)


def _body(request: BaseHTTPRequestHandler) -> bytes:
    if request.headers.get("Transfer-Encoding") != "chunked":
        return request.rfile.read(int(request.headers.get("Content-Length", 0)))
    chunks = []
    while size := int(request.rfile.readline().partition(b";")[0], 16):
        chunks.append(request.rfile.read(size))
        request.rfile.readline()
    request.rfile.readline()
    return b"".join(chunks)


def _token(authorization: str) -> str:
    """The access token of ``Bearer TOKEN``, or of user ``oauth2accesstoken`` with it as the password."""
    kind, _, word = authorization.partition(" ")
    if kind.lower() == "basic":
        user, _, password = base64.b64decode(word).decode().partition(":")
        return password if user == "oauth2accesstoken" else ""
    return word


def _error(code: str, message: str) -> bytes:
    return json.dumps({"errors": [{"code": code, "message": message}]}).encode()


def _listening(handler: type[BaseHTTPRequestHandler]) -> ThreadingHTTPServer:
    for last in range(2, 250):
        with contextlib.suppress(OSError):  # taken by another run
            return ThreadingHTTPServer((f"127.44.0.{last}", 80), handler)
    raise AssertionError("every address is taken")
