"""Which method a request means: the official clients' own tables of paths, plus routes written by hand."""

from __future__ import annotations

import difflib
import fnmatch
import functools
import importlib
import pkgutil
import re
from collections.abc import Callable, Collection, Iterator
from dataclasses import dataclass, field
from typing import TYPE_CHECKING, Any
from urllib.parse import unquote

from gputrain_emulator.errors import ApiError, Style

if TYPE_CHECKING:
    from gputrain_emulator.call import Call

Handler = Callable[["Call"], Any]

MAX_JSON_BODY = 10 << 20
"""Larger JSON requests are refused with 413 (Google's API front end: 10 MB, unverified)."""


@dataclass(frozen=True, kw_only=True)
class Method:
    """One method of one service, by the id that Google's discovery documents give it."""

    id: str
    service: str
    """``compute`` of ``compute.googleapis.com``."""
    style: Style
    verb: str
    template: str
    body: str | None = None
    """Name of the request's field that the body fills; ``*`` for the whole request; None for no body."""
    request: Any = None
    """Descriptor of the request message; None for routes written by hand, which are handed the raw body."""
    response: Any = None
    query: frozenset[str] | None = None
    """Query parameters a hand-written route knows; None means it looks for itself."""
    max_body: int = MAX_JSON_BODY
    marks: frozenset[str] = frozenset()
    """Query parameters that tell its path from others: it is looked for only where all of them are sent."""


@dataclass
class Service:
    """The methods of one Google service that the emulator answers.

    Args:
        name: ``compute`` of ``compute.googleapis.com``.
        style: how it writes errors.
        client: package of the official client whose tables name all its methods, or "".
        project_of: path parameter that names the project (its second segment, when it is a resource name).
    """

    name: str
    style: Style
    client: str = ""
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
        pool: str = "",
        query: frozenset[str] | None = None,
        max_body: int = MAX_JSON_BODY,
        needs_api: bool = True,
        marks: frozenset[str] = frozenset(),
    ) -> Callable[[Handler], Handler]:
        """Answer a path that no client table lists; the handler reads ``call.raw_body`` itself."""
        self.written.append(
            Method(
                id=method_id,
                service=self.name,
                style=self.style,
                verb=verb,
                template=template,
                query=query,
                max_body=max_body,
                marks=marks,
            )
        )
        return self.method(method_id, permission=permission, pool=pool, needs_api=needs_api)

    def methods(self) -> Iterator[Method]:
        """Hand-written routes first, then every method of the client, answered or not."""
        yield from self.written
        if self.client:
            yield from client_methods(self.client, self.name, self.style)


@dataclass(frozen=True, kw_only=True)
class Answer:
    """What runs for a method, and what it asks of its caller."""

    run: Handler
    permission: str
    pool: str
    needs_api: bool


@functools.cache
def client_methods(package: str, service: str, style: Style) -> tuple[Method, ...]:
    """Every method of an official client, read from its generated REST transports."""
    services = importlib.import_module(f"{package}.services")
    found: dict[tuple[str, str], Method] = {}
    for module in pkgutil.iter_modules(services.__path__):
        transport = importlib.import_module(f"{package}.services.{module.name}.transports.rest")
        for name, cls in vars(transport).items():
            if name.endswith("RestTransport") and not name.startswith("_"):
                _collect(found, cls, name.removesuffix("RestTransport"), service, style)
    return tuple(found.values())


def _collect(
    found: dict[tuple[str, str], Method], transport: type, group: str, service: str, style: Style
) -> None:
    """Add a transport's methods; the first of a path counts, as all of them repeat the same mixins."""
    for name, stub in vars(transport).items():
        if not (isinstance(stub, type) and hasattr(stub, "_get_http_options")):
            continue
        hints = stub.__call__.__annotations__
        request = hints.get("request")
        for option in stub._get_http_options():
            path = (option["method"], option["uri"])
            if path in found:
                continue
            found[path] = Method(
                id=_method_id(service, style, group, name[1:], option["uri"]),
                service=service,
                style=style,
                verb=option["method"].upper(),
                template=option["uri"],
                body=option.get("body"),
                request=_descriptor(request),
                response=_descriptor(hints.get("return")),
            )


def _descriptor(message: Any) -> Any:
    if message is None or not isinstance(message, type):
        return None
    pb = message.pb() if hasattr(message, "pb") else message
    return getattr(pb, "DESCRIPTOR", None)


def _method_id(service: str, style: Style, group: str, rpc: str, template: str) -> str:
    """``compute.instances.insert``; ``aiplatform.customJobs.create`` for CreateCustomJob."""
    if style is Style.COMPUTE:
        return f"{service}.{_lower(group)}.{_lower(rpc)}"
    path, _, custom = template.partition("}:")
    words = [word for word in re.sub(r"\{[^=}]*=?|\}", "", path).split("/") if word not in ("*", "**")]
    last = words[-1] if words else service
    return f"{service}.{last.partition(':')[0]}.{custom or last.partition(':')[2] or _first_word(rpc)}"


def _lower(name: str) -> str:
    return name[0].lower() + name[1:]


def _first_word(rpc: str) -> str:
    match = re.match(r"[A-Z][a-z0-9]*", rpc)
    return match.group(0).lower() if match else rpc


class Routes:
    """A tree of path segments; ``match`` finds the method and its path parameters."""

    def __init__(self, services: list[Service]) -> None:
        self._roots: dict[frozenset[str], dict[str, Any]] = {frozenset(): {}}  # by marks
        self.answers: dict[str, Answer] = {}
        self.methods: dict[str, Method] = {}
        for service in services:
            self.answers.update(service.handlers)
            for method in service.methods():
                self._add(method)
        missing = self.answers.keys() - self.methods.keys()
        if missing:
            raise LookupError(f"handlers for methods that no client has: {sorted(missing)}")

    def match(self, verb: str, path: str, query: Collection[str] = ()) -> tuple[Method, dict[str, str]]:
        """The method that ``verb path`` means; raises ApiError 404 or 405 where there is none.

        ``query`` names the query's parameters. A HEAD is a GET whose body is not sent.
        """
        segments = [unquote(segment) for segment in path.lstrip("/").split("/")]
        if ".." in segments or "." in segments:
            raise ApiError(404, f"The requested URL {path[:200]} was not found on this server.")
        root = self._roots[frozenset()]
        last, _, custom = segments[-1].rpartition(":")
        found = self._walk(root, [*segments[:-1], last], 0, custom) if last else None
        if found is not None:
            segments[-1] = last
        else:
            found = self._walk(root, segments, 0, "") or self._marked(segments, frozenset(query))
        if found is None:
            raise ApiError(404, f"The requested URL {path[:200]} was not found on this server.")
        if verb == "HEAD" and verb not in found:
            verb = "GET"
        if verb not in found:
            raise ApiError(
                405, f"HTTP method {verb} is not supported by this URL.", reason="httpMethodNotAllowed"
            )
        method, spans = found[verb]
        return method, {name: "/".join(segments[start:end]) for name, start, end in spans}

    def require(self, pattern: str) -> None:
        """Raises LookupError when ``pattern`` means no method."""
        if not fnmatch.filter(self.methods, pattern):
            close = difflib.get_close_matches(pattern, self.methods, n=3)
            raise LookupError(f"no method is called {pattern!r}; did you mean {' or '.join(close) or '*'}?")

    def _marked(self, segments: list[str], query: frozenset[str]) -> Any:
        """What a path means that only its query tells from others: the most telling marks count."""
        for marks in sorted(self._roots, key=lambda marks: (-len(marks), sorted(marks))):
            if marks and marks <= query:
                found = self._walk(self._roots[marks], segments, 0, "")
                if found is not None:
                    return found
        return None

    def _add(self, method: Method) -> None:
        node = self._roots.setdefault(method.marks, {})
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
