"""A validator of HTTP exchanges against Google's published discovery documents.

It shares no code with the emulator or with Google's clients, so agreement between the three means something.
The documents are the ones that the package google-api-python-client ships.
"""

from __future__ import annotations

import json
import re
from collections.abc import Hashable, Iterator, Mapping, Sequence
from dataclasses import dataclass, field
from functools import cache
from importlib.resources import files
from typing import Any
from urllib.parse import unquote

from emulator.tests.discovery_schema import Problem, Reader
from gputrain_emulator import Cloud
from gputrain_emulator.faults import RawReply, Reshape

SERVICES = (
    "compute.v1",
    "aiplatform.v1",
    "logging.v2",
    "storage.v1",
    "serviceusage.v1",
    "cloudresourcemanager.v1",
    "cloudresourcemanager.v3",
    "cloudbilling.v1",
    "iam.v1",
    "secretmanager.v1",
    "oauth2.v2",
    "cloudbuild.v1",
    "artifactregistry.v1",
)

# Served by Google without a document in the package: the token endpoint, Cloud Quotas, manifests of images,
# a path that the operations client of google-cloud-aiplatform asks for although nothing is published there.
UNDOCUMENTED = re.compile(
    r"/token|/v1(beta)?/projects/[^/]+/locations/global/(services/[^/]+/)?quota\w+(/.+)?|/ui/.+"
    r"|/v2/.+/manifests/.+"
)

# What a document calls required, and Google's own client leaves out: google-cloud-storage sends an update of
# a bucket or an object without its `acl` wherever it has read none.
NOT_REQUIRED = frozenset({"request.acl"})

# What real clients send although the v1 documents do not list it.
#   $alt, $prettyPrint: spelled with "$" by Google's generated REST clients (google-api-core 2.x).
#   returnPartialSuccess: sent by gcloud 528 to list calls; the document has it in beta (read 2026-11-20).
#   upload_id: the resumable upload protocol of Cloud Storage.
TOLERATED_QUERY: Mapping[str, frozenset[str]] = {
    "": frozenset({"$alt", "$prettyPrint"}),
    "compute.v1": frozenset({"returnPartialSuccess"}),
    "storage.v1": frozenset({"upload_id"}),
}


@dataclass(frozen=True, kw_only=True)
class Exchange:
    """One request with its response, as they went over the wire."""

    method: str
    path: str
    query: Sequence[tuple[str, str]] = ()
    request_body: bytes = b""
    status: int = 200
    response_body: bytes = b""


@dataclass(frozen=True)
class Method:
    """One row of a discovery document, with the pattern that recognises its path."""

    service: str
    id: str
    http_method: str
    path: str
    pattern: re.Pattern[str]
    weight: int
    raw: Mapping[str, Any]
    document: Mapping[str, Any]
    upload: bool = False
    parameters: Mapping[str, Any] = field(default_factory=dict)


def validate(exchange: Exchange) -> list[Problem]:
    """Every way in which `exchange` departs from the documents, in reading order.

    A request that the server refused is judged by its error envelope only: tests send mistakes on purpose.
    """
    verb = exchange.method
    if verb in ("PUT", "DELETE") and exchange.path.startswith(("/upload/", "/resumable/upload/")):
        verb = "POST"  # the later requests of a resumable upload go to the address of the first
    if verb == "HEAD":
        verb = "GET"  # its answer is that of a GET without the body
    method = find_method(verb, exchange.path)
    if method is None:
        if exchange.status in (404, 405, 501) or UNDOCUMENTED.fullmatch(exchange.path):
            return []
        return [Problem("path", f"no method {exchange.method} {exchange.path} in {len(SERVICES)} documents")]
    if exchange.status >= 400:
        return list(_error_problems(exchange))
    problems = [*_path_problems(method, exchange), *_query_problems(method, exchange)]
    problems += _body_problems(method, exchange)
    if 200 <= exchange.status < 300:
        problems += _response_problems(method, exchange)
    return problems


def find_method(http_method: str, path: str) -> Method | None:
    """The documented method that serves `path`, the one with most literal text when several match."""
    begins, slashes = path.split("/", 2)[1:2], path.count("/")
    rows = [m for depth in (slashes, None) for m in _by_shape().get((http_method, *begins, depth), ())]
    return max((m for m in rows if m.pattern.fullmatch(path)), key=lambda m: m.weight, default=None)


@cache
def _by_shape() -> Mapping[tuple[str | int | None, ...], list[Method]]:
    """The methods by verb, first segment, and how many slashes their paths have: None where any may."""
    shapes: dict[tuple[str | int | None, ...], list[Method]] = {}
    for method in methods():
        depth = None if "{+" in method.path else method.path.count("/")
        shapes.setdefault((method.http_method, method.path.split("/", 2)[1], depth), []).append(method)
    return shapes


@cache
def methods() -> tuple[Method, ...]:
    """All methods of all documents, uploads as rows of their own."""
    rows: list[Method] = []
    for service in SERVICES:
        document = _document(service)
        for raw in _walk(document):
            path = document["servicePath"] + raw["path"]
            rows.append(_method(service, document, raw, "/" + path))
            if raw.get("useMediaDownloadService"):
                rows.append(_method(service, document, raw, "/download/" + path))
            protocols = raw.get("mediaUpload", {}).get("protocols", {}).values()
            rows.extend(_method(service, document, raw, each["path"], upload=True) for each in protocols)
    return tuple(rows)


@cache
def _document(service: str) -> Mapping[str, Any]:
    text = (files("googleapiclient.discovery_cache") / "documents" / f"{service}.json").read_text("utf-8")
    return dict(json.loads(text))


def _walk(node: Mapping[str, Any]) -> Iterator[Mapping[str, Any]]:
    yield from node.get("methods", {}).values()
    for child in node.get("resources", {}).values():
        yield from _walk(child)


def _method(
    service: str, document: Mapping[str, Any], raw: Mapping[str, Any], path: str, upload: bool = False
) -> Method:
    parameters = {**document["parameters"], **raw.get("parameters", {})}
    pieces = re.split(r"(\{[^}]+\})", path)
    pattern = "".join(_piece(piece, parameters) for piece in pieces)
    weight = sum(len(piece) for piece in pieces if not piece.startswith("{"))
    return Method(
        service=service,
        id=raw["id"],
        http_method=raw["httpMethod"],
        path=path,
        pattern=re.compile(pattern),
        weight=weight,
        raw=raw,
        document=document,
        upload=upload,
        parameters=parameters,
    )


def _piece(piece: str, parameters: Mapping[str, Any]) -> str:
    if not piece.startswith("{"):
        return re.escape(piece)
    name = piece.strip("{}").lstrip("+")
    group = re.sub(r"\W", "_", name)
    if piece.startswith("{+"):  # a reserved expansion may hold slashes; its own pattern says how many
        return f"(?P<{group}>{parameters[name].get('pattern', '.+').strip('^$')})"
    return f"(?P<{group}>[^/]+)"


def _path_problems(method: Method, exchange: Exchange) -> Iterator[Problem]:
    match = method.pattern.fullmatch(exchange.path)
    assert match is not None
    for name, value in match.groupdict().items():
        parameter = method.parameters.get(name, {})
        if "pattern" in parameter and not re.fullmatch(parameter["pattern"].strip("^$"), unquote(value)):
            yield Problem(f"path.{name}", f"{value!r} does not match {parameter['pattern']}")


def _query_problems(method: Method, exchange: Exchange) -> Iterator[Problem]:
    tolerated = TOLERATED_QUERY[""] | TOLERATED_QUERY.get(method.service, frozenset())
    reader = Reader(method.document["schemas"], snake_case=False)
    given = {name for name, _ in exchange.query}
    for name, value in exchange.query:
        where = f"query.{name}"
        parameter = method.parameters.get(name)
        if parameter is None:
            if name not in tolerated:
                yield Problem(where, "unknown query parameter")
        elif parameter.get("location") == "path":
            yield Problem(where, "belongs in the path, not in the query")
        else:
            if not parameter.get("repeated") and sum(n == name for n, _ in exchange.query) > 1:
                yield Problem(where, "given more than once")
            yield from reader.text(parameter, value, where)
    for name, parameter in method.parameters.items():
        if parameter.get("required") and parameter.get("location") == "query" and name not in given:
            yield Problem(f"query.{name}", "required query parameter is missing")


def _body_problems(method: Method, exchange: Exchange) -> Iterator[Problem]:
    if method.upload:
        return  # the body is the object's own bytes
    schema = method.raw.get("request")
    if schema is None:
        if exchange.request_body.strip() not in (b"", b"{}"):
            yield Problem("request", "this method takes no body")
        return
    value, problem = _json(exchange.request_body or b"{}", "request")
    if problem is not None:
        yield problem
        return
    reader = Reader(
        method.document["schemas"],
        snake_case=method.service != "compute.v1",  # proto JSON reads both spellings, Compute's not
        enum_numbers=True,
        method_id=method.id,
    )
    for problem in reader.value(schema, value, "request"):
        if problem.where not in NOT_REQUIRED:
            yield problem


def _response_problems(method: Method, exchange: Exchange) -> Iterator[Problem]:
    query = dict(exchange.query)
    if query.get("alt") == "media" or (method.upload and not exchange.response_body):
        return
    schema = method.raw.get("response")
    if schema is None:
        if exchange.response_body.strip() not in (b"", b"{}"):
            yield Problem("response", "this method answers with no body")
        return
    if exchange.status == 304:
        return
    value, problem = _json(exchange.response_body, "response")
    if problem is not None:
        yield problem
        return
    numbers = "enum-encoding=int" in (query.get("$alt", "") + query.get("alt", ""))
    reader = Reader(method.document["schemas"], enum_numbers=numbers, strict_int64=True)
    yield from reader.value(schema, value, "response")


def _error_problems(exchange: Exchange) -> Iterator[Problem]:
    if dict(exchange.query).get("alt") == "media" or exchange.status == 499:
        return  # a download's refusal is plain text at Google, a given-up upload's answer is empty
    value, problem = _json(exchange.response_body, "error")
    if problem is not None:
        yield problem
        return
    error = value.get("error") if isinstance(value, dict) else None
    if not isinstance(error, dict):
        yield Problem("error", "no `error` object in the answer")
        return
    if error.get("code") != exchange.status:
        yield Problem("error.code", f"{error.get('code')!r} under HTTP {exchange.status}")
    if not isinstance(error.get("message"), str):
        yield Problem("error.message", "missing or not a string")


def _json(body: bytes, where: str) -> tuple[Any, Problem | None]:
    try:
        return json.loads(body), None
    except ValueError as error:
        return None, Problem(where, f"not JSON: {error}")


_judged: set[Hashable] = set()
"""The exchanges without a mistake that this process has judged: most tests send the same ones."""


def judge(cloud: Cloud) -> list[str]:
    """What the documents hold against the exchanges of an emulated cloud, as lines of text.

    Left out: methods that the test told to answer wrongly, dropped connections.
    """
    planted = {method for method, kind in cloud.world.faults.struck if kind in (RawReply, Reshape)}
    lines = []
    for seen in cloud.requests:
        if seen.status == 0 or seen.method in planted:
            continue
        query = [(name, value) for name, values in seen.query.items() for value in values]
        known = (seen.verb, seen.path, *query, seen.status, hash(seen.body), hash(seen.reply))
        if known in _judged:
            continue
        exchange = Exchange(
            method=seen.verb, path=seen.path, query=query, status=seen.status,
            request_body=seen.body, response_body=seen.reply,
        )  # fmt: skip
        found = validate(exchange)
        lines += [f"{seen.verb} {seen.path} -> {seen.status}: {each}" for each in found]
        if not found:
            _judged.add(known)
    return lines
