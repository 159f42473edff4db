"""The metadata server of one emulated machine, as programs inside find it at metadata.google.internal."""

from __future__ import annotations

import hashlib
import json
import re
import threading
import time
from collections.abc import Callable, Mapping
from dataclasses import dataclass, field
from http.server import BaseHTTPRequestHandler, ThreadingHTTPServer
from socketserver import TCPServer
from typing import Any
from urllib.parse import parse_qsl, unquote, urlsplit

MISSING = object()
"""There is nothing at this path."""


@dataclass(frozen=True, kw_only=True)
class Account:
    """A service account that the machine runs as.

    mint: an access token and its seconds of life, whatever scopes are asked for.
    """

    email: str
    scopes: tuple[str, ...]
    mint: Callable[[], tuple[str, int]]


@dataclass(kw_only=True)
class Metadata:
    """The tree of one machine, read anew at every request, with a bell for those who wait for a change.

    read: the tree below `computeMetadata/v1` without the accounts, in Google's JSON form (camelCase keys).
    accounts: by name; the first of them also answers to `default`.
    """

    read: Callable[[], Mapping[str, Any]]
    accounts: Mapping[str, Account] = field(default_factory=dict)
    _bell: threading.Condition = field(default_factory=threading.Condition)
    _rung: int = 0

    def changed(self) -> None:
        """Wake whoever waits for a change."""
        with self._bell:
            self._rung += 1
            self._bell.notify_all()

    def account(self, name: str) -> Account | None:
        """By `default` or by email."""
        if name == "default":
            return next(iter(self.accounts.values()), None)
        return self.accounts.get(name)

    def at(self, path: str) -> Any:
        """The value at a path such as `instance/machine-type`; MISSING where there is none."""
        tree = dict(self.read())
        tree["instance"] = {**tree["instance"], "serviceAccounts": self._account_tree()}
        node: Any = tree
        for step in filter(None, path.split("/")):
            node = _child(node, step)
            if node is MISSING:
                return MISSING
        return node

    def wait(self, path: str, last_etag: str | None, timeout_s: float) -> Any:
        """The value at `path` once its etag is not `last_etag`, or as it is after `timeout_s` seconds."""
        before = last_etag if last_etag is not None else etag(self.at(path))
        deadline = time.monotonic() + timeout_s
        while True:
            with self._bell:  # never held while the tree is read: whoever rings may hold the world's lock
                rung = self._rung
            value, left = self.at(path), deadline - time.monotonic()
            if etag(value) != before or left <= 0:
                return value
            with self._bell:
                self._bell.wait_for(lambda: self._rung != rung, left)  # noqa: B023 - asked at once

    def _account_tree(self) -> dict[str, Any]:
        names = ["default", *self.accounts] if self.accounts else []
        found = {name: account for name in names if (account := self.account(name))}
        return {
            name: {"aliases": ["default"], "email": one.email, "scopes": list(one.scopes)}
            for name, one in found.items()
        }


def is_directory(value: Any) -> bool:
    """Whether a value is listed by name: an object, or a list of objects."""
    return isinstance(value, dict) or (
        isinstance(value, list) and bool(value) and all(isinstance(item, dict) for item in value)
    )


def etag(value: Any) -> str:
    """A fingerprint: equal values have equal etags."""
    text = "" if value is MISSING else json.dumps(value, sort_keys=True)
    return hashlib.sha256(text.encode()).hexdigest()[:16]


def _child(node: Any, step: str) -> Any:
    if isinstance(node, dict):
        if step in node:
            return node[step]
        return next((item for key, item in node.items() if _kebab(key) == step), MISSING)
    if isinstance(node, list) and re.fullmatch("[0-9]{1,9}", step) and int(step) < len(node):
        return node[int(step)]
    return MISSING


def _kebab(key: str) -> str:
    return re.sub(r"[A-Z]", lambda match: "-" + match[0].lower(), key)


ROOT = "/computeMetadata/v1/"
MAX_WAIT_S = 3600.0
NO_MAINTENANCE = '{ "error": "no notifications have been received yet, try again later" }'
_NOWHERE = "The requested URL was not found on this server."


@dataclass(frozen=True, kw_only=True)
class Answer:
    """One response."""

    status: int = 200
    text: str = ""
    kind: str = "application/text"
    etag: str = ""


def answer(
    metadata: Metadata, verb: str, path: str, query: Mapping[str, str], headers: Mapping[str, str]
) -> Answer:
    """What Google's metadata server says; header names in lower case."""
    if "x-forwarded-for" in headers:
        return _refusal(403, "Forbidden: requests with an X-Forwarded-For header are refused.")
    above = {"": "computeMetadata/\n", "/computeMetadata": "v1/\n"}
    if verb == "GET" and path.rstrip("/") in above:
        return Answer(text=above[path.rstrip("/")])
    if headers.get("metadata-flavor", "").lower() != "google":
        return _refusal(403, "Missing Metadata-Flavor:Google header.")
    if not f"{path}/".startswith(ROOT):
        return _refusal(404, _NOWHERE)
    path = path[len(ROOT) :].rstrip("/")
    if path.startswith("instance/guest-attributes"):
        return _refusal(403, "Guest attributes endpoint access is disabled.")  # as Google says unless asked
    if verb not in ("GET", "HEAD"):
        return _refusal(405, f"Method {verb} is not allowed here.")
    dynamic = re.fullmatch(r"instance/service-accounts/([^/]+)/(token|identity)", path)
    return _account(metadata, *dynamic.groups()) if dynamic else _value(metadata, query, path)


def _value(metadata: Metadata, query: Mapping[str, str], path: str) -> Answer:
    value = metadata.at(path)
    if value is not MISSING and query.get("wait_for_change", "").lower() == "true":
        asked = query.get("timeout_sec", "")
        seconds = min(float(asked), MAX_WAIT_S) if re.fullmatch(r"[0-9]{1,9}", asked) else MAX_WAIT_S
        value = metadata.wait(path, query.get("last_etag"), seconds)
    if value is MISSING and path == "instance/upcoming-maintenance":
        return Answer(status=503, text=NO_MAINTENANCE, kind="application/json")
    if value is MISSING:
        return _refusal(404, _NOWHERE)
    recursive = query.get("recursive", "").lower() == "true"
    form = query.get("alt", "json" if recursive else "text")
    if form not in ("json", "text"):
        return _refusal(400, f"Invalid alt: {form!r}.")
    if form == "json" and (recursive or not is_directory(value)):
        return Answer(text=json.dumps(value), kind="application/json", etag=etag(value))
    if is_directory(value):
        return _refusal(501, "Directories as text are not implemented by this emulator: ask for alt=json.")
    if isinstance(value, list):
        text = json.dumps(value) if path == "instance/tags" else "".join(f"{item}\n" for item in value)
        return Answer(text=text, etag=etag(value))
    return Answer(text=str(value), etag=etag(value))


def _account(metadata: Metadata, name: str, what: str) -> Answer:
    account = metadata.account(name)
    if account is None:
        return _refusal(404, _NOWHERE)
    if what == "identity":
        return _refusal(501, "Identity tokens are not implemented by this emulator.")
    token, seconds = account.mint()
    document = {"access_token": token, "expires_in": seconds, "token_type": "Bearer"}
    return Answer(text=json.dumps(document), kind="application/json")


def _refusal(status: int, text: str) -> Answer:
    head = f"<!DOCTYPE html>\n<html lang=en>\n<title>Error {status}</title>\n"
    page = f"{head}<p><b>{status}.</b> {text}\n</html>\n"
    return Answer(status=status, text=page, kind="text/html; charset=UTF-8")


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
        self.rfile.read(int(length) if length.isdecimal() else 0)
        query = dict(parse_qsl(url.query, keep_blank_values=True))
        headers = {name.lower(): value for name, value in self.headers.items()}
        self._send(answer(self.server.metadata, self.command, unquote(url.path), query, headers))

    do_GET = do_HEAD = do_PUT = do_POST = do_DELETE = _serve  # noqa: N815 - the names http.server looks for

    def _send(self, reply: Answer) -> None:
        body = reply.text.encode()
        self.send_response(reply.status)
        headers = {"Metadata-Flavor": "Google", "Content-Type": reply.kind, "Content-Length": str(len(body)),
                   "X-XSS-Protection": "0", "X-Frame-Options": "SAMEORIGIN"}  # fmt: skip
        for name, value in {**headers, **({"ETag": reply.etag} if reply.etag else {})}.items():
            self.send_header(name, value)
        self.end_headers()
        if self.command != "HEAD":
            self.wfile.write(body)
