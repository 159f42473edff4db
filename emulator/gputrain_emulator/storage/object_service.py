"""The JSON API's objects: metadata, media with ranges, lists, compose and copies."""

from __future__ import annotations

import re
from typing import Any

from gputrain_emulator.call import Call, Reply
from gputrain_emulator.errors import ApiError
from gputrain_emulator.shapes import integer
from gputrain_emulator.storage.conditions import Conditions, number
from gputrain_emulator.storage.listing import Wanted, page
from gputrain_emulator.storage.resources import chosen, etag, object_resource
from gputrain_emulator.storage.service import SERVICE, may
from gputrain_emulator.storage.state import Storage
from gputrain_emulator.storage.uploads import read_metadata
from gputrain_emulator.storage.values import Stored

_CONDITIONS = frozenset(
    {"ifGenerationMatch", "ifGenerationNotMatch", "ifMetagenerationMatch", "ifMetagenerationNotMatch"}
)
_COMMON = frozenset({"userProject", "projection", "generation"})
_RANGE = re.compile(r"bytes=(\d*)-(\d*)")
_OBJECT = "/storage/v1/b/{bucket}/o/{object}"


@SERVICE.route("GET", "/storage/v1/b/{bucket}/o", "storage.objects.list", permission="-")
def list_objects(call: Call) -> dict[str, Any]:
    may(call, "storage.objects.list")
    query = call.query
    found = page(
        call.world.part(Storage).objects,
        call.params["bucket"],
        Wanted(
            prefix=query.get("prefix", ""),
            delimiter=query.get("delimiter", ""),
            start=query.get("startOffset", ""),
            end=query.get("endOffset", ""),
            glob=query.get("matchGlob", ""),
            include_trailing_delimiter=query.get("includeTrailingDelimiter") == "true",
            page_size=integer(query, "maxResults", 0),
            page_token=query.get("pageToken", ""),
        ),
    )
    fresh = [
        item
        for item in found.items
        if not (call.stale_s and item.created > call.world.clock.now() - call.stale_s)
    ]
    shown: dict[str, Any] = {"kind": "storage#objects"}
    if found.next_token:
        shown["nextPageToken"] = found.next_token
    if found.prefixes:
        shown["prefixes"] = list(found.prefixes)
    if fresh:
        shown["items"] = [object_resource(item, call.base_url) for item in fresh]
    return shown


@SERVICE.route(
    "GET", _OBJECT, "storage.objects.get", permission="-", query=_CONDITIONS | _COMMON | {"softDeleted"}
)
def get_object(call: Call) -> dict[str, Any] | Reply:
    return _read(call)


@SERVICE.route(
    "GET", "/download" + _OBJECT, "storage.objects.download", permission="-", query=_CONDITIONS | _COMMON
)
def download(call: Call) -> dict[str, Any] | Reply:
    return _read(call)


@SERVICE.route("DELETE", _OBJECT, "storage.objects.delete", permission="-", query=_CONDITIONS | _COMMON)
def delete_object(call: Call) -> Reply:
    may(call, "storage.objects.delete")
    call.world.part(Storage).objects.delete(
        call.params["bucket"],
        call.params["object"],
        generation=number(call.query, "generation"),
        conditions=Conditions.of(call.query),
    )
    return Reply(status=204)


@SERVICE.route("PATCH", _OBJECT, "storage.objects.patch", permission="-")
def patch_object(call: Call) -> dict[str, Any]:
    return _change(call, whole=False)


@SERVICE.route("PUT", _OBJECT, "storage.objects.update", permission="-")
def update_object(call: Call) -> dict[str, Any]:
    return _change(call, whole=True)


@SERVICE.route("POST", _OBJECT + "/compose", "storage.objects.compose", permission="-")
def compose(call: Call) -> dict[str, Any]:
    may(call, "storage.objects.create")
    may(call, "storage.objects.get")
    asked = read_metadata(call.raw_body)
    sources = asked.get("sourceObjects")
    if not isinstance(sources, list) or not all(isinstance(source, dict) for source in sources):
        raise ApiError(400, "Required", reason="required")
    stored = call.world.part(Storage).objects.compose(
        call.params["bucket"],
        call.params["object"],
        [_source(source) for source in sources],
        chosen(asked.get("destination", {})),
        Conditions.of(call.query),
    )
    return _shown(call, stored)


@SERVICE.route(
    "POST",
    "/storage/v1/b/{source}/o/{name}/rewriteTo/b/{bucket}/o/{object}",
    "storage.objects.rewrite",
    permission="-",
)
def rewrite(call: Call) -> dict[str, Any]:
    stored = _copied(call)
    size = str(stored.content.size)
    return {
        "kind": "storage#rewriteResponse",
        "totalBytesRewritten": size,
        "objectSize": size,
        "done": True,
        "resource": _shown(call, stored),
    }


@SERVICE.route(
    "POST",
    "/storage/v1/b/{source}/o/{name}/copyTo/b/{bucket}/o/{object}",
    "storage.objects.copy",
    permission="-",
)
def copy(call: Call) -> dict[str, Any]:
    return _shown(call, _copied(call))


def _copied(call: Call) -> Stored:
    may(call, "storage.objects.create")
    may(call, "storage.objects.get")
    objects = call.world.part(Storage).objects
    source = objects.get(
        call.params["source"], call.params["name"], generation=number(call.query, "sourceGeneration")
    )
    Conditions.of(call.query, "Source").check(source.generation, source.metageneration)
    asked = read_metadata(call.raw_body)
    return objects.copy(
        source,
        call.params["bucket"],
        call.params["object"],
        chosen(asked) if asked else None,
        Conditions.of(call.query),
    )


def _source(source: dict[str, Any]) -> tuple[str, int | None, Conditions]:
    name = source.get("name")
    if not isinstance(name, str):
        raise ApiError(400, "Required", reason="required")
    conditions = Conditions.of(_texts(source.get("objectPreconditions") or {}))
    return name, number(_texts(source), "generation"), conditions


def _texts(document: Any) -> dict[str, str]:
    """The parts of a JSON object as a query would say them; null says nothing."""
    if not isinstance(document, dict):
        raise ApiError(400, "Parse Error", reason="parseError")
    return {key: str(value) for key, value in document.items() if value is not None}


def _read(call: Call) -> dict[str, Any] | Reply:
    may(call, "storage.objects.get")
    stored = call.world.part(Storage).objects.get(
        call.params["bucket"],
        call.params["object"],
        generation=number(call.query, "generation"),
        conditions=Conditions.of(call.query),
    )
    return _media(call, stored) if call.query.get("alt") == "media" else _shown(call, stored)


def _change(call: Call, *, whole: bool) -> dict[str, Any]:
    may(call, "storage.objects.update")
    stored = call.world.part(Storage).objects.patch(
        call.params["bucket"],
        call.params["object"],
        chosen(read_metadata(call.raw_body)),
        generation=number(call.query, "generation"),
        conditions=Conditions.of(call.query),
        whole=whole,
    )
    return _shown(call, stored)


def _shown(call: Call, stored: Stored) -> dict[str, Any]:
    return object_resource(stored, call.base_url)


def _media(call: Call, stored: Stored) -> Reply:
    content = stored.content
    hashes = f"crc32c={content.crc32c}" + (f",md5={content.md5}" if content.md5 else "")
    headers = {
        "X-Goog-Hash": hashes,
        "X-Goog-Generation": str(stored.generation),
        "X-Goog-Metageneration": str(stored.metageneration),
        "X-Goog-Stored-Content-Length": str(content.size),
        "X-Goog-Storage-Class": "STANDARD",
        "ETag": etag(stored),
        "Accept-Ranges": "bytes",
    }
    encoding = stored.fields.get("contentEncoding")
    if encoding:
        headers["Content-Encoding"] = str(encoding)
        headers["X-Goog-Stored-Content-Encoding"] = str(encoding)
    media = str(stored.fields.get("contentType") or "application/octet-stream")
    span = _span(call.headers.get("range", ""), content.size)
    if span is None:
        return Reply(body=content.read(), content_type=media, headers=headers)
    start, end = span
    headers["Content-Range"] = f"bytes {start}-{end - 1}/{content.size}"
    return Reply(status=206, body=content.read(start, end - start), content_type=media, headers=headers)


def _span(text: str, size: int) -> tuple[int, int] | None:
    """The bytes a Range header asks for, as [start, end); None for all of them."""
    found = _RANGE.fullmatch(text.strip())
    if found is None or not any(found.groups()):
        return None
    first, last = found.groups()
    if not first:
        start, end = max(0, size - int(last)), size
    else:
        start, end = int(first), min(size, int(last) + 1) if last else size
    if start >= size or end <= start:
        raise ApiError(
            416, "Request range not satisfiable", reason="requestedRangeNotSatisfiable",
            headers={"Content-Range": f"bytes */{size}"},
        )  # fmt: skip
    return start, end
