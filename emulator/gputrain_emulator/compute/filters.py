"""Compute Engine's list filters, ``orderBy`` and pages."""

from __future__ import annotations

import json
import re
import zlib
from collections.abc import Mapping, Sequence
from typing import Any

from gputrain_emulator import facts, query
from gputrain_emulator.call import Call, page as paged
from gputrain_emulator.compute import refusals
from gputrain_emulator.compute.links import link

Json = dict[str, Any]
MAX_PAGE = 500
_NEWEST = "creationTimestamp desc"


def compile_filter(text: str) -> query.Test:
    """A test of one resource; raises ApiError 400 for what cannot be read.

    `=` and `!=` take `*` for anything and `:` is "has"; the older `eq` and `ne` take an RE2 pattern that must
    match the whole value.
    """
    try:
        return query.compiled(text, _leaf)
    except query.FilterError:
        raise refusals.invalid("filter", text, "Invalid list filter expression.") from None


def _leaf(leaf: query.Leaf) -> query.Test:
    keys = ".".join(leaf.path).split(".")
    if leaf.operator in ("eq", "ne"):
        try:
            pattern = re.compile(leaf.value)
        except re.error as error:
            raise query.FilterError(str(error)) from None
        wanted = leaf.operator == "eq"
        return lambda resource: bool(pattern.fullmatch(_text(resource, keys))) is wanted
    if leaf.operator in ("=", "!="):
        wanted, low = leaf.operator == "=", leaf.value.lower()
        return lambda resource: query.is_like(_text(resource, keys).lower(), low) is wanted
    if leaf.operator == ":":
        low = leaf.value.lower().removesuffix("*")
        return lambda resource: _field(resource, keys) is not None and low in _text(resource, keys).lower()
    raise query.FilterError("a field and one of the operators =, !=, :, eq and ne are needed")


def _field(resource: Any, keys: Sequence[str]) -> Any:
    for key in keys:
        resource = resource.get(key) if isinstance(resource, Mapping) else None
    return resource


def _text(resource: Any, keys: Sequence[str]) -> str:
    value = _field(resource, keys)
    return "" if value is None else str(value).lower() if isinstance(value, bool) else str(value)


def page(call: Call, name: str, items: Sequence[Json]) -> tuple[list[Json], str]:
    """The page of ``items`` that a call asks for, and the token of the next one ("" at the end).

    A token is good for the list called ``name`` with the same filter and order alone.
    """
    asked = call.query
    test = compile_filter(asked.get("filter", ""))
    size = int(asked.get("maxResults", MAX_PAGE))
    if not 0 <= size <= MAX_PAGE:
        raise refusals.invalid("maxResults", size, f"Must be a value between 0 and {MAX_PAGE}, inclusive.")
    order = asked.get("orderBy", "")
    if order not in ("", "name", _NEWEST):
        raise refusals.invalid("orderBy", order, "Only 'name' and 'creationTimestamp desc' are supported.")
    of = zlib.crc32(json.dumps([name, asked.get("filter", ""), order]).encode())
    token = asked.get("pageToken", "")

    def place(item: Mapping[str, Any]) -> list[str]:
        newest = item.get("creationTimestamp") or item.get("insertTime")
        return [str((newest if order == _NEWEST else item.get("name")) or ""), str(item.get("selfLink", ""))]

    try:
        chosen = (item for item in items if test(item))
        return paged(chosen, place, token, size or MAX_PAGE, newest_first=order == _NEWEST, of=of)
    except ValueError:
        raise refusals.invalid("pageToken", token, "The page token is not valid.") from None


def listing(call: Call, kind: str, name: str, items: Sequence[Json]) -> Json:
    """A list response: those of the collection ``name`` that the call asks for."""
    return _list(f"compute#{kind}List", name, *page(call, name, items))


def _list(kind: str, name: str, items: Any, token: str) -> Json:
    rest = {"nextPageToken": token} if token else {}
    return {"kind": kind, "id": name, "selfLink": link(name), **({"items": items} if items else {}), **rest}


def aggregated(call: Call, kind: str, items: Sequence[Json]) -> Json:
    """A list response by scope (``zones/us-central1-a``), with a warning for each zone that has none."""
    root, collection = f"projects/{call.owner.id}/", f"{kind}s"
    name = f"{root}aggregated/{collection}"
    chosen, token = page(call, name, items)
    by_scope: dict[str, Json] = {}
    for item in chosen:
        scope = item["selfLink"].partition(root)[2].rpartition(f"/{collection}/")[0]
        by_scope.setdefault(scope, {}).setdefault(collection, []).append(item)
    for scope in (f"zones/{zone}" for zone in facts.zones()):
        message = f"There are no results for scope '{scope}' on this page."
        data = [{"key": "scope", "value": scope}]
        warning = {"code": "NO_RESULTS_ON_PAGE", "message": message, "data": data}
        by_scope.setdefault(scope, {"warning": warning})
    return _list(f"compute#{kind}AggregatedList", name, by_scope, token)
