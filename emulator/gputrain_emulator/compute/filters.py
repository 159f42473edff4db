"""Compute Engine's list filters, ``orderBy`` and pages."""

from __future__ import annotations

import base64
import json
import re
import zlib
from collections.abc import Callable, Mapping, Sequence
from typing import Any

from gputrain_emulator.compute import refusals
from gputrain_emulator.compute.links import link
from gputrain_emulator.errors import ApiError
from gputrain_emulator.patterns import compiled, is_like

Test = Callable[[Mapping[str, Any]], bool]

_TOKEN = re.compile(
    r"""\s*(?:(?P<paren>[()])|(?P<op>!=|>=|<=|=|>|<|:)|(?P<quoted>"(?:[^"\\]|\\.)*"|'(?:[^'\\]|\\.)*')|(?P<word>[^\s()=<>!:"']+))"""
)
_OPERATORS = frozenset({"=", "!=", ">", "<", ">=", "<=", ":", "eq", "ne"})
MAX_PAGE = 500
_NEWEST = "creationTimestamp desc"
Place = tuple[str, str]


def compile_filter(text: str) -> Test:
    """A test of one resource; raises ApiError 400 for what cannot be read.

    Understood are ``field = value``, ``!=``, ``<``, ``>``, ``:`` (has), and the older ``eq``/``ne`` with an
    RE2 pattern that must match the whole value, joined by AND, OR, NOT and parentheses; terms side by side
    are joined by AND.
    """
    if not text.strip():
        return lambda _: True
    reader = _Reader(text)
    test = reader.either()
    if reader.tokens:
        raise reader.wrong()
    return test


class _Reader:
    def __init__(self, text: str) -> None:
        self.text = text
        self.tokens: list[tuple[str, str]] = []
        self.depth = 0
        at = 0
        while at < len(text.rstrip()):
            match = _TOKEN.match(text, at)
            if match is None:
                raise self.wrong()
            self.tokens.append((match.lastgroup or "", match.group(match.lastgroup or 0)))
            at = match.end()

    def wrong(self) -> ApiError:
        return refusals.invalid("filter", self.text, "Invalid list filter expression.")

    def peek(self) -> tuple[str, str]:
        return self.tokens[0] if self.tokens else ("", "")

    def either(self) -> Test:
        tests = [self.both()]
        while self.peek() == ("word", "OR"):
            self.tokens.pop(0)
            tests.append(self.both())
        return tests[0] if len(tests) == 1 else lambda resource: any(test(resource) for test in tests)

    def both(self) -> Test:
        tests = [self.one()]
        while self.tokens and self.peek() not in (("word", "OR"), ("paren", ")")):
            if self.peek() == ("word", "AND"):
                self.tokens.pop(0)
            tests.append(self.one())
        return tests[0] if len(tests) == 1 else lambda resource: all(test(resource) for test in tests)

    def one(self) -> Test:
        kind, text = self.tokens.pop(0) if self.tokens else ("", "")
        if (kind, text) == ("word", "NOT") or (kind == "word" and text == "-"):
            inner = self.one()
            return lambda resource: not inner(resource)
        if (kind, text) == ("paren", "("):
            self.depth += 1
            if self.depth > 50:
                raise self.wrong()
            inner = self.either()
            if self.peek() != ("paren", ")"):
                raise self.wrong()
            self.tokens.pop(0)
            self.depth -= 1
            return inner
        operator = self.tokens.pop(0)[1] if self.tokens else ""
        if kind != "word" or operator not in _OPERATORS or self.peek()[0] not in ("word", "quoted"):
            raise self.wrong()
        kind_of_value, value = self.tokens.pop(0)
        return _comparison(text, operator, _unquote(value) if kind_of_value == "quoted" else value, self)


def _unquote(text: str) -> str:
    return re.sub(r'\\(["\'\\])', r"\1", text[1:-1])


def _comparison(path: str, operator: str, value: str, reader: _Reader) -> Test:
    keys = path.split(".")
    if operator in ("eq", "ne"):
        try:
            pattern = compiled(value)
        except ValueError:
            raise reader.wrong() from None
        wanted = operator == "eq"
        return lambda resource: bool(pattern.fullmatch(_text(_field(resource, keys)))) is wanted
    if operator in ("=", "!="):
        wanted, low = operator == "=", value.lower()
        return lambda resource: is_like(_text(_field(resource, keys)).lower(), low) is wanted
    if operator == ":":
        return lambda resource: _has(_field(resource, keys), value)
    return lambda resource: _ordered(_text(_field(resource, keys)), operator, value)


def _field(resource: Any, keys: Sequence[str]) -> Any:
    found: Any = resource
    for index, key in enumerate(keys):
        if isinstance(found, list):
            values = [_field(item, keys[index:]) for item in found]
            return next((value for value in values if value is not None), None)
        if not isinstance(found, Mapping):
            return None
        found = found.get(key)
    return found


def _text(value: Any) -> str:
    if value is None:
        return ""
    return str(value).lower() if isinstance(value, bool) else str(value)


def _has(value: Any, wanted: str) -> bool:
    if value is None:
        return False
    if wanted == "*":
        return True
    if isinstance(value, (list, Mapping)):
        return any(wanted.lower() in _text(item).lower() for item in value)
    return wanted.lower() in _text(value).lower()


def _ordered(left: str, operator: str, right: str) -> bool:
    try:
        a: Any = float(left)
        b: Any = float(right)
    except ValueError:
        a, b = left, right
    return bool({"<": a < b, ">": a > b, "<=": a <= b, ">=": a >= b}[operator])


def page(
    name: str, items: Sequence[dict[str, Any]], query: Mapping[str, Any]
) -> tuple[list[dict[str, Any]], str]:
    """The page of ``items`` that ``query`` asks for, and the token of the next one ("" at the end).

    A token is good for the list called ``name`` with the same filter and order alone. It names the last item
    shown, so what is made or removed between two pages neither hides an item nor shows one twice.
    """
    test = compile_filter(query.get("filter", ""))
    size = int(query.get("maxResults", MAX_PAGE))
    if not 0 <= size <= MAX_PAGE:
        raise refusals.invalid("maxResults", size, f"Must be a value between 0 and {MAX_PAGE}, inclusive.")
    order = query.get("orderBy", "")
    if order not in ("", "name", _NEWEST):
        raise refusals.invalid("orderBy", order, "Only 'name' and 'creationTimestamp desc' are supported.")
    asked = zlib.crc32(json.dumps([name, query.get("filter", ""), order]).encode())
    after = _read_token(query.get("pageToken", ""), asked)
    places = [(_place(item, order), item) for item in items if test(item)]
    places.sort(key=lambda placed: placed[0], reverse=order == _NEWEST)
    if after:
        places = [one for one in places if (one[0] < after if order == _NEWEST else one[0] > after)]
    shown = places[: size or MAX_PAGE]
    token = _token(shown[-1][0], asked) if len(shown) < len(places) else ""
    return [item for _, item in shown], token


def _place(item: Mapping[str, Any], order: str) -> Place:
    """Where an item stands in its list, whatever comes and goes beside it."""
    first = item.get("creationTimestamp") or item.get("insertTime") if order == _NEWEST else item.get("name")
    return str(first or ""), str(item.get("selfLink", ""))


def _token(last: Place, asked: int) -> str:
    return base64.urlsafe_b64encode(json.dumps([asked, *last]).encode()).decode()


def _read_token(token: str, asked: int) -> Place | None:
    """The place after which a page begins; None for the first page."""
    if not token:
        return None
    try:
        kind, first, link = json.loads(base64.urlsafe_b64decode(token.encode()))
        if kind != asked or not isinstance(first, str) or not isinstance(link, str):
            raise ValueError
        return first, link
    except (TypeError, ValueError, RecursionError):
        raise refusals.invalid("pageToken", token, "The page token is not valid.") from None


def listing(
    kind: str, name: str, items: Sequence[dict[str, Any]], query: Mapping[str, Any]
) -> dict[str, Any]:
    """A list response of ``kind`` for the collection ``name``."""
    chosen, token = page(name, items, query)
    document: dict[str, Any] = {
        "kind": kind,
        "id": name,
        "selfLink": f"https://www.googleapis.com/compute/v1/{name}",
    }
    if chosen:
        document["items"] = chosen
    if token:
        document["nextPageToken"] = token
    return document


def aggregated(
    kind: str,
    name: str,
    collection: str,
    items: Sequence[tuple[str, dict[str, Any]]],
    query: Mapping[str, Any],
    scopes: Sequence[str],
) -> dict[str, Any]:
    """``items`` by scope (``zones/us-central1-a``), with a warning for each empty scope."""
    where = {id(item): scope for scope, item in items}
    chosen, token = page(name, [item for _, item in items], query)
    by_scope: dict[str, dict[str, Any]] = {}
    for item in chosen:
        by_scope.setdefault(where[id(item)], {}).setdefault(collection, []).append(item)
    for scope in scopes:
        if scope not in by_scope:
            message = f"There are no results for scope '{scope}' on this page."
            by_scope[scope] = {
                "warning": {
                    "code": "NO_RESULTS_ON_PAGE",
                    "message": message,
                    "data": [{"key": "scope", "value": scope}],
                }
            }
    document: dict[str, Any] = {"kind": kind, "id": name, "selfLink": link(name), "items": by_scope}
    if token:
        document["nextPageToken"] = token
    return document
