"""Which method a request means: the tables of the official clients' paths, plus routes written by hand."""

from __future__ import annotations

import contextlib
import difflib
import fnmatch
import functools
import importlib
import re
import threading
from collections.abc import Callable, Collection, Iterator, Mapping
from dataclasses import dataclass, field
from types import MappingProxyType
from typing import Any
from urllib.parse import unquote

from gputrain_emulator import messages, tables
from gputrain_emulator.call import Call, Method
from gputrain_emulator.errors import ApiError, Style

Handler = Callable[[Call], Any]

_STYLES = {"compute": Style.COMPUTE, "storage": Style.STORAGE}
"""How what Google alone serves is refused; the others write google.rpc.Status."""


@dataclass
class Service:
    """The methods of one Google service that the emulator answers.

    Args:
        name: ``compute`` of ``compute.googleapis.com``.
        style: how it writes errors.
        is_tabled: whether data/routes.tsv names the methods of its official client.
    """

    name: str
    style: Style
    is_tabled: bool = False
    handlers: dict[str, Answer] = field(default_factory=dict)
    written: list[Method] = field(default_factory=list)

    def method(
        self, method_id: str, *, permission: str = "", pool: str = "", needs_api: bool = True
    ) -> Callable[[Handler], Handler]:
        """Answer the client's method ``method_id``; ``permission`` defaults to the id, "-" asks for none."""

        def register(handler: Handler) -> Handler:
            self.handlers[method_id] = Answer(
                run=handler, permission=permission or method_id, pool=pool, needs_api=needs_api
            )
            return handler

        return register

    def route(
        self,
        verb: str,
        template: str,
        method_id: str,
        *,
        permission: str = "",
        query: str = "",
        body: str = "",
        request: str = "",
        needs_api: bool = True,
        **form: Any,
    ) -> Callable[[Handler], Handler]:
        """Answer a path that no table lists.

        ``query`` names its parameters as `messages.declare` takes fields, ``body`` the message of its body;
        ``request`` a message of the tables instead of both. ``form`` is more of its `Method`.
        """
        resource = f" resource:message@{body}" if body else ""
        self.written.append(
            Method(
                id=method_id,
                service=self.name,
                style=self.style,
                verb=verb,
                template=template,
                body="resource" if body else None,
                request=request or messages.declare(method_id, query + resource),
                **form,
            )
        )
        return self.method(method_id, permission=permission, needs_api=needs_api)

    def methods(self) -> Iterator[Method]:
        """Hand-written routes first, then the methods of the client that are answered."""
        yield from self.written
        if self.is_tabled:
            yield from (
                Method(
                    id=id_,
                    service=service,
                    style=self.style,
                    verb=verb,
                    template=path,
                    body=body or None,
                    request=request,
                    response=response,
                )
                for service, id_, verb, path, body, request, response in tables.rows("routes.tsv")
                if service == self.name
            )


@dataclass(frozen=True, kw_only=True)
class Answer:
    """What runs for a method, and what it asks of its caller."""

    run: Handler
    permission: str
    pool: str
    needs_api: bool


class Routes:
    """A tree of path segments; ``match`` finds the method and its path parameters.

    Args:
        homes: modules of this package that hold ``SERVICES``, each with the first segments of their paths.
            A module is loaded when a path begins so, or when a path is found nowhere else.
    """

    def __init__(self, homes: Mapping[str, Collection[str]] = MappingProxyType({})) -> None:
        self._root: dict[str, Any] = {}
        self._firsts = {segment for first in homes.values() for segment in first}
        self._waiting = dict(homes)
        self._ready: set[str] = set()  # first segments of which nothing waits
        self._lock = threading.RLock()
        self.answers: dict[str, Answer] = {}
        self.methods: dict[str, Method] = {}

    def load(self, segment: str | None = None) -> None:
        """Take in the services with paths that begin with ``segment``; None: all that are left."""
        if segment in self._ready or not self._waiting:
            return
        with self._lock:
            for name in [
                name for name, first in self._waiting.items() if segment is None or segment in first
            ]:
                for service in importlib.import_module(f"gputrain_emulator.{name}").SERVICES:
                    self._include(service)
                del self._waiting[name]
            if segment is not None:
                self._ready.add(segment)  # last: who sees it does not wait for the lock

    def _include(self, service: Service) -> None:
        for method in service.methods():
            self.add(method)
        missing = service.handlers.keys() - self.methods.keys()
        if missing:
            raise LookupError(f"handlers for methods that data/routes.tsv has not: {sorted(missing)}")
        self.answers.update(service.handlers)

    def match(self, verb: str, path: str) -> tuple[Method, dict[str, str]]:
        """The method that ``verb path`` means; raises ApiError 404 or 405.

        Where no route has the path, its id is told as far as the path tells it, and nothing answers that.
        A HEAD is a GET whose body is not sent.
        """
        self.load(path.lstrip("/").partition("/")[0])
        try:
            return self.find(verb, path)
        except ApiError:
            self.load()
        try:
            return self.find(verb, path)
        except ApiError as refusal:
            id_ = self._unserved(verb, path)
            if not id_:
                raise refusal from None
        service = id_.partition(".")[0]
        style = _STYLES.get(service, Style.PLATFORM)
        return Method(id=id_, service=service, style=style, verb=verb, template=path), {}

    def _unserved(self, verb: str, path: str) -> str:
        released, version = _released(path)
        if version:
            with contextlib.suppress(ApiError):
                return f"{self.find(verb, released)[0].id} of {version}"
        first = path.lstrip("/").partition("/")[0]
        if first and first not in self._firsts and not re.fullmatch(r"v\d\w*|batch|ui|_.*", first):
            return f"storage.xml.{verb.lower()}"  # the XML API's addresses begin with a bucket's name
        return _method_id(verb, path)

    def find(self, verb: str, path: str) -> tuple[Method, dict[str, str]]:
        """What of ours that is loaded ``verb path`` means; raises ApiError 404 or 405 where there is none."""
        segments = path.lstrip("/").split("/")
        if "%" in path:
            segments = [unquote(segment) for segment in segments]
        if ".." in segments or "." in segments:
            raise ApiError(404, f"The requested URL {path[:200]} was not found on this server.")
        last, _, custom = segments[-1].rpartition(":")
        found = self._walk(self._root, [*segments[:-1], last], 0, custom) if last else None
        if found is not None:
            segments[-1] = last
        else:
            found = self._walk(self._root, segments, 0, "")
        if found is None:
            raise ApiError(404, f"The requested URL {path[:200]} was not found on this server.")
        if verb == "HEAD" and verb not in found:
            verb = "GET"
        if verb not in found:
            raise ApiError(405, f"HTTP method {verb} is not supported by this URL.")
        method, spans = found[verb]
        return method, {name: "/".join(segments[start:end]) for name, start, end in spans}

    def require(self, pattern: str) -> None:
        """Raises LookupError when ``pattern`` means no method."""
        self.load()
        if not fnmatch.filter(self.methods, pattern):
            close = difflib.get_close_matches(pattern, self.methods, n=3)
            raise LookupError(f"no method is called {pattern!r}; did you mean {' or '.join(close) or '*'}?")

    def add(self, method: Method) -> None:
        """One more method; of two on one path the first counts."""
        node = self._root
        segments, spans, custom = _parse(method.template)
        for segment in segments:
            node = node.setdefault(segment, {})
        leaf = node.setdefault("", {}).setdefault(custom, {})
        leaf.setdefault(method.verb, (method, spans))
        self.methods.setdefault(method.id, method)

    def _walk(self, node: dict[str, Any], segments: list[str], index: int, custom: str) -> Any:
        if index == len(segments):
            return node.get("", {}).get(custom)
        segment = segments[index]
        if segment and segment in node:
            found = self._walk(node[segment], segments, index + 1, custom)
            if found:
                return found
        if segment and "*" in node:
            found = self._walk(node["*"], segments, index + 1, custom)
            if found:
                return found
        return node["**"].get("", {}).get(custom) if "**" in node else None


@functools.cache
def _parse(template: str) -> tuple[list[str], tuple[tuple[str, int, int | None], ...], str]:
    """Segments, the span of each variable (end None: to the end of the path), and the custom verb."""
    match = re.fullmatch(r"/(.*?)(?::([A-Za-z]+))?", template)
    if match is None:
        raise ValueError(f"not a path template: {template!r}")
    segments: list[str] = []
    spans: list[tuple[str, int, int | None]] = []
    for piece in re.findall(r"\{[^}]*\}|[^/{}]+", match.group(1)):
        if not piece.startswith("{"):
            segments.append(piece)
            continue
        name, _, pattern = piece[1:-1].partition("=")
        start = len(segments)
        segments.extend((pattern or "*").split("/"))
        spans.append((name, start, None if segments[-1] == "**" else len(segments)))
    return segments, tuple(spans), match.group(2) or ""


_NAMES = {"GET": "get", "POST": "insert", "PUT": "update", "PATCH": "patch", "DELETE": "delete"}
_PLACE = r"(?:global|aggregated|(?:zones|regions)/[^/]+)"
_COMPUTE = re.compile(rf"/compute/(?:v1|beta|alpha)/projects/[^/]+/{_PLACE}/(.+)")
_STORAGE = re.compile(r"(?:/resumable)?(?:/upload|/download)?/storage/v1/(b/.+)")
_VERSION = re.compile(r"/(compute/)?(v\d\w*|alpha|beta)/")


def _method_id(verb: str, path: str) -> str:
    """The id of a method of Compute Engine or Cloud Storage that no route has; "" for any other path."""
    verb = "GET" if verb == "HEAD" else verb
    if {"", ".", ".."} & {*unquote(path).strip("/").split("/")}:
        return ""
    for service, pattern in (("compute", _COMPUTE), ("storage", _STORAGE)):
        if (found := pattern.fullmatch(path)) and verb in _NAMES:
            *before, last = found[1].strip("/").split("/")
            if len(before) % 2 == 0:  # a collection, or what is done with an item: .../instances/i/start
                collection, name = (before[-2], last) if before and verb == "POST" else (last, _NAMES[verb])
                name = "list" if verb == "GET" else name
            else:
                collection, name = before[-1], last if verb == "POST" else _NAMES[verb]
            return f"{service}.{collection}.{name}"
    return ""


def _released(path: str) -> tuple[str, str]:
    """A path of `beta` as the version that is served has it, and its own version; "" for any other path."""
    found = _VERSION.match(path)
    if found is None or found[2] in ("v1", "v2", "v3"):
        return "", ""
    return path.replace(found[2], "v1", 1), f"{found[1] or ''}{found[2]}"


HOMES = {
    "oauth": ("token",),
    "storage": ("storage", "upload", "download", "resumable"),
    "logging": ("v2",),
    "serviceusage": ("v1",),
    "iam": ("v1", "v3"),
    "registry": ("v1", "v2"),
    "builds": ("v1",),
    "compute": ("compute",),
    "cloudbilling": ("v1",),
    "cloudquotas": ("v1",),
    "vertex": ("v1",),
}
"""``gputrain_emulator.NAME``, which holds ``SERVICES``, a tuple of ``Service``, and how its paths begin."""


@functools.cache
def all_routes() -> Routes:
    """The routes of all services; the same for every emulator of this process."""
    return Routes(HOMES)
