"""A validator of HTTP exchanges against Google's published discovery documents.

It shares no code with the emulator or with Google's clients, so agreement between the three means something.
The documents are the ones that the package google-api-python-client ships.
"""

from __future__ import annotations

import json
import math
import re
from collections.abc import Hashable, Iterator, Mapping, Sequence
from dataclasses import dataclass, field
from functools import cache
from importlib.resources import files
from typing import Any
from urllib.parse import unquote

from gputrain_emulator import Cloud
from gputrain_emulator.faults import RawReply, Reshape

SERVICES = (
    "compute.v1", "aiplatform.v1", "logging.v2", "storage.v1", "serviceusage.v1", "cloudresourcemanager.v1",
    "cloudresourcemanager.v3", "cloudbilling.v1", "iam.v1", "secretmanager.v1", "oauth2.v2", "cloudbuild.v1",
    "artifactregistry.v1",
)  # fmt: skip

# Served by Google without a document in the package: the token endpoint, Cloud Quotas, manifests of images,
# a path that the operations client of google-cloud-aiplatform asks for although nothing is published there.
UNDOCUMENTED = re.compile(
    r"/token|/v1(beta)?/projects/[^/]+/locations/global/(services/[^/]+/)?quota\w+(/.+)?|/ui/.+"
    r"|/v2/.+/manifests/.+"
)

# What real clients send although the v1 documents do not list it.
#   $alt, $prettyPrint: spelled with "$" by Google's generated REST clients (google-api-core 2.x).
#   returnPartialSuccess: sent by gcloud 528 to list calls; the document has it in beta (read 2026-11-20).
#   upload_id: the resumable upload protocol of Cloud Storage.
TOLERATED = {"$alt": "", "$prettyPrint": "", "returnPartialSuccess": "compute.v1", "upload_id": "storage.v1"}

Schema = Mapping[str, Any]

INTEGER_RANGES = {
    "int32": (-(2**31), 2**31 - 1),
    "uint32": (0, 2**32 - 1),
    "int64": (-(2**63), 2**63 - 1),
    "uint64": (0, 2**64 - 1),
}
_TIME = r"\d{4}-\d\d-\d\d[Tt]\d\d:\d\d:\d\d(\.\d{1,9})?([Zz]|[+-]\d\d:\d\d)"
FORMATS = {
    "google-datetime": _TIME,
    "date-time": _TIME,
    "google-duration": r"-?\d+(\.\d{1,9})?s",
    "google-fieldmask": r"[\w.*]*(,[\w.*]+)*",
    "byte": r"[A-Za-z0-9+/_-]*={0,2}",
}


@dataclass(frozen=True)
class Problem:
    """One departure from a document: where in the exchange, and what."""

    where: str
    what: str

    def __str__(self) -> str:
        return f"{self.where}: {self.what}"


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
    http_method: str
    path: str
    pattern: re.Pattern[str]
    weight: int
    raw: Schema
    schemas: Mapping[str, Schema]
    upload: bool = False
    parameters: Mapping[str, Any] = field(default_factory=dict)


def validate(exchange: Exchange) -> list[Problem]:
    """Every way in which `exchange` departs from the documents, in reading order.

    A request that the server refused is judged by its error envelope only: tests send mistakes on purpose.
    """
    verb = {"HEAD": "GET"}.get(exchange.method, exchange.method)  # answered as a GET is, without the body
    if verb == "PUT" and exchange.path.startswith(("/upload/", "/resumable/upload/")):
        verb = "POST"  # the later requests of a resumable upload go to the address of the first
    method = find_method(verb, exchange.path)
    if method is None:
        if exchange.status in (404, 405, 501) or UNDOCUMENTED.fullmatch(exchange.path):
            return []
        return [Problem("path", f"no method {exchange.method} {exchange.path} in {len(SERVICES)} documents")]
    if exchange.status >= 400:
        return list(_error_problems(exchange))
    problems = [*_path_problems(method, exchange), *_query_problems(method, exchange)]
    problems += _request_problems(method, exchange)
    if exchange.status < 300:
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
    for method in _methods():
        depth = None if "{+" in method.path else method.path.count("/")
        shapes.setdefault((method.http_method, method.path.split("/", 2)[1], depth), []).append(method)
    return shapes


def _methods() -> Iterator[Method]:
    """All methods of all documents, uploads as rows of their own."""
    for service in SERVICES:
        text = (files("googleapiclient.discovery_cache") / "documents" / f"{service}.json").read_text("utf-8")
        document = json.loads(text)
        for raw in _walk(document):
            path = document["servicePath"] + raw["path"]
            yield _method(service, document, raw, f"/{path}")
            if raw.get("useMediaDownloadService"):
                yield _method(service, document, raw, f"/download/{path}")
            for each in raw.get("mediaUpload", {}).get("protocols", {}).values():
                yield _method(service, document, raw, each["path"], upload=True)


def _walk(node: Schema) -> Iterator[Schema]:
    yield from node.get("methods", {}).values()
    for child in node.get("resources", {}).values():
        yield from _walk(child)


def _method(service: str, document: Schema, raw: Schema, path: str, upload: bool = False) -> Method:
    parameters = {**document["parameters"], **raw.get("parameters", {})}
    pieces = re.split(r"(\{[^}]+\})", path)
    return Method(
        service=service,
        http_method=raw["httpMethod"],
        path=path,
        pattern=re.compile("".join(_piece(piece, parameters) for piece in pieces)),
        weight=sum(len(piece) for piece in pieces if not piece.startswith("{")),
        raw=raw,
        schemas=document["schemas"],
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
    given = [name for name, _ in exchange.query]
    for name, value in exchange.query:
        where, parameter = f"query.{name}", method.parameters.get(name)
        if parameter is None:
            if TOLERATED.get(name) not in ("", method.service):
                yield Problem(where, "unknown query parameter")
        elif parameter.get("location") == "path":
            yield Problem(where, "belongs in the path, not in the query")
        else:
            if not parameter.get("repeated") and given.count(name) > 1:
                yield Problem(where, "given more than once")
            yield from _parameter(parameter, value, where)
    for name, parameter in method.parameters.items():
        if parameter.get("required") and parameter.get("location") == "query" and name not in given:
            yield Problem(f"query.{name}", "required query parameter is missing")


def _parameter(schema: Schema, value: str, where: str) -> Iterator[Problem]:
    """Problems of a query parameter, which is always text on the wire."""
    kind = schema.get("type", "string")
    if kind == "boolean" and value not in ("true", "false", "True", "False"):
        yield Problem(where, f"{value!r} is not a boolean")
    elif kind == "integer" and not re.fullmatch(r"-?\d+", value):
        yield Problem(where, f"{value!r} is not an integer")
    elif kind in ("integer", "string"):
        read = int(value) if kind == "integer" else value.removesuffix(";enum-encoding=int")
        yield from Reader({}).value(schema, read, where)


def _request_problems(method: Method, exchange: Exchange) -> Iterator[Problem]:
    if method.upload:
        return  # the body is the object's own bytes
    # proto JSON reads both spellings of a field, Compute's does not
    reader = Reader(
        method.schemas, is_request=True, snake_case=method.service != "compute.v1", enum_numbers=True
    )
    yield from _body(reader, method.raw.get("request"), exchange.request_body or b"{}", "request")


def _response_problems(method: Method, exchange: Exchange) -> Iterator[Problem]:
    query = dict(exchange.query)
    if query.get("alt") == "media" or (method.upload and not exchange.response_body):
        return
    numbers = "enum-encoding=int" in (query.get("$alt", "") + query.get("alt", ""))
    reader = Reader(method.schemas, enum_numbers=numbers)
    yield from _body(reader, method.raw.get("response"), exchange.response_body, "response")


def _body(reader: Reader, schema: Schema | None, body: bytes, where: str) -> Iterator[Problem]:
    if schema is None:
        if body.strip() not in (b"", b"{}"):
            yield Problem(where, "this method has no body here")
        return
    try:
        value = json.loads(body)
    except ValueError as error:
        yield Problem(where, f"not JSON: {error}")
        return
    yield from reader.value(schema, value, where)


def _error_problems(exchange: Exchange) -> Iterator[Problem]:
    if dict(exchange.query).get("alt") == "media":
        return  # a download's refusal is plain text at Google
    try:
        error = json.loads(exchange.response_body)["error"]
        if error["code"] != exchange.status:
            yield Problem("error.code", f"{error['code']!r} under HTTP {exchange.status}")
        if not isinstance(error["message"], str):
            yield Problem("error.message", "not a string")
    except (ValueError, LookupError, TypeError) as error:
        yield Problem("error", f"no `error` object in the answer: {error!r}")


@dataclass(frozen=True)
class Reader:
    """Reads JSON values with the schemas of one document.

    is_request: null means that a field is not set, and a 64-bit integer may be a number; a response has a
        JSON string, as Google's servers write it.
    snake_case: accept the proto spelling of a field beside its JSON spelling.
    enum_numbers: accept an enum's number in place of its name.
    """

    schemas: Mapping[str, Schema]
    is_request: bool = False
    snake_case: bool = False
    enum_numbers: bool = False

    def value(self, schema: Schema, value: Any, where: str) -> Iterator[Problem]:
        """Problems of a JSON `value` under `schema`."""
        if "$ref" in schema:
            schema = self.schemas[schema["$ref"]]
        kind = schema.get("type", "any")
        if kind == "any" or (value is None and self.is_request):
            return
        if kind == "object" and isinstance(value, dict):
            yield from self._object(schema, value, where)
        elif kind == "array" and isinstance(value, list):
            for index, item in enumerate(value):
                yield from self.value(schema["items"], item, f"{where}[{index}]")
        elif kind == "string" and schema.get("format") in INTEGER_RANGES:
            yield from self._long(schema["format"], value, where)
        elif kind == "string" and isinstance(value, str):
            yield from self._string(schema, value, where)
        elif kind == "integer" and _is_integer(value):
            yield from self._integer(schema, value, where)
        elif not (
            (kind == "boolean" and isinstance(value, bool))
            or (kind == "number" and _is_number(value))
            or (kind == "string" and "enum" in schema and self.enum_numbers and _is_integer(value))
        ):
            yield Problem(where, f"{value!r:.60} is {type(value).__name__}, not of type {kind}")

    def _object(self, schema: Schema, value: Mapping[str, Any], where: str) -> Iterator[Problem]:
        properties: Mapping[str, Schema] = schema.get("properties", {})
        for key, item in value.items():
            camel = re.sub(r"_([a-z0-9])", lambda match: match[1].upper(), key) if self.snake_case else key
            inner = properties.get(key) or properties.get(camel) or schema.get("additionalProperties")
            if inner is None:
                yield Problem(f"{where}.{key}", "unknown field")
            else:
                yield from self.value(inner, item, f"{where}.{key}")

    def _integer(self, schema: Schema, value: int, where: str) -> Iterator[Problem]:
        low, high = INTEGER_RANGES[schema.get("format", "int32")]
        low, high = max(low, int(schema.get("minimum", low))), min(high, int(schema.get("maximum", high)))
        if not low <= value <= high:
            yield Problem(where, f"{value} is outside {low}..{high}")

    def _long(self, form: str, value: Any, where: str) -> Iterator[Problem]:
        if not (_is_integer(value) and self.is_request) and not (
            isinstance(value, str) and re.fullmatch(r"-?\d+", value)
        ):
            yield Problem(where, f"{value!r:.60} is not an {form} as Google writes it")
        else:
            yield from self._integer({"format": form}, int(value), where)

    def _string(self, schema: Schema, value: str, where: str) -> Iterator[Problem]:
        if "enum" in schema and value not in schema["enum"]:
            yield Problem(where, f"{value!r} is not one of its {len(schema['enum'])} enum values")
        for pattern in (schema.get("pattern"), FORMATS.get(schema.get("format", ""))):
            if pattern is not None and not re.fullmatch(pattern, value):
                yield Problem(where, f"{value!r} does not match {pattern}")


def _is_integer(value: Any) -> bool:
    return isinstance(value, int) and not isinstance(value, bool)


def _is_number(value: Any) -> bool:
    return (
        value in ("NaN", "Infinity", "-Infinity")
        or _is_integer(value)
        or (isinstance(value, float) and math.isfinite(value))
    )


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
