"""Buckets, objects, lists of objects and their bytes as the JSON API answers them."""

from __future__ import annotations

import base64
import binascii
import functools
import re
from collections.abc import Mapping
from datetime import datetime, timezone
from email.utils import formatdate
from typing import Any
from urllib.parse import quote

from gputrain_emulator.call import Reply
from gputrain_emulator.errors import ApiError
from gputrain_emulator.storage import buckets
from gputrain_emulator.storage.buckets import Bucket, Objects, Stored, etag, invalid


def object_resource(stored: Stored, base_url: str) -> dict[str, Any]:
    """`storage#object`; `base_url` is the address under which the caller reached us."""
    path = f"b/{stored.bucket}/o/{quote(stored.name, safe='')}"
    created = _milliseconds(stored.created)
    resource: dict[str, Any] = {
        "kind": "storage#object",
        "id": f"{stored.bucket}/{stored.name}/{stored.generation}",
        "selfLink": f"{base_url}/storage/v1/{path}",
        "mediaLink": f"{base_url}/download/storage/v1/{path}?generation={stored.generation}&alt=media",
        "name": stored.name,
        "bucket": stored.bucket,
        "generation": str(stored.generation),
        "metageneration": str(stored.metageneration),
        "storageClass": stored.storage_class,
        "size": str(stored.content.size),
        "etag": etag(stored.generation, stored.metageneration),
        "timeCreated": created,
        "updated": _milliseconds(stored.updated),
        "timeStorageClassUpdated": created,
        "timeFinalized": created,
        "crc32c": stored.content.crc32c,
    }
    if stored.content.md5:
        resource["md5Hash"] = stored.content.md5
    if stored.components:
        resource["componentCount"] = stored.components
    return {**resource, **stored.fields}


def bucket_resource(bucket: Bucket, base_url: str) -> dict[str, Any]:
    """`storage#bucket`."""
    kind = buckets.location_type(bucket.location)
    return {
        "kind": "storage#bucket",
        "id": bucket.name,
        "selfLink": f"{base_url}/storage/v1/b/{bucket.name}",
        "projectNumber": bucket.project.number,
        "name": bucket.name,
        "timeCreated": _milliseconds(bucket.created),
        "updated": _milliseconds(bucket.updated),
        "generation": str(bucket.generation),
        "metageneration": str(bucket.metageneration),
        "location": bucket.location,
        "locationType": kind,
        "etag": etag(bucket.generation, bucket.metageneration),
        **({} if kind == "region" else {"rpo": "DEFAULT"}),
        **bucket.fields,
    }


@functools.lru_cache(maxsize=4096)  # an object tells the same moment three times
def _milliseconds(when: float) -> str:
    text = datetime.fromtimestamp(when, timezone.utc).isoformat(timespec="milliseconds")
    return text.replace("+00:00", "Z")


MAX_PAGE = 1000
_LAST = "\U0010ffff"


def page(objects: Objects, bucket: str, query: Mapping[str, Any]) -> tuple[list[Stored], list[str], str]:
    """Objects, prefixes and the next token of the page that a list's query asks for, in the order of names.

    Objects and prefixes count alike towards its size.
    """
    prefix, delimiter, end = (query.get(name, "") for name in ("prefix", "delimiter", "endOffset"))
    last = decode(query.get("pageToken", ""))
    size = min(query.get("maxResults") or MAX_PAGE, MAX_PAGE)
    items: list[Stored] = []
    prefixes: list[str] = []
    for stored in objects.walk(bucket, max(prefix, query.get("startOffset", ""), last)):
        if not stored.name.startswith(prefix) or (end and stored.name >= end):
            break
        if stored.name <= last:  # of the pages before, or in a folder that is told
            continue
        at = stored.name.find(delimiter, len(prefix)) if delimiter else -1
        folder = stored.name[: at + len(delimiter)] if at >= 0 else ""
        if len(items) + len(prefixes) >= size:
            return items, prefixes, encode(last)
        if folder:
            prefixes.append(folder)
        if not folder or (query.get("includeTrailingDelimiter") and stored.name == folder):
            items.append(stored)
        last = folder + _LAST if folder else stored.name
    return items, prefixes, ""


def encode(name: str) -> str:
    """The token of a page that begins after a name."""
    return base64.urlsafe_b64encode(name.encode("utf-8", "surrogatepass")).decode()


def decode(token: str) -> str:
    """What was encoded; 400 for a token that is none."""
    try:
        return base64.b64decode(token, altchars=b"-_", validate=True).decode("utf-8", "surrogatepass")
    except (binascii.Error, UnicodeError, ValueError):
        raise invalid("Invalid value for pageToken.") from None


_RANGE = re.compile(r"bytes=([0-9]{0,18})-([0-9]{0,18})")
_TOLD = {
    "cacheControl": "Cache-Control",
    "contentDisposition": "Content-Disposition",
    "contentLanguage": "Content-Language",
}


def download(stored: Stored, headers: Mapping[str, str]) -> Reply:
    """All bytes, or those of the `Range`."""
    kind = str(stored.fields.get("contentType") or "application/octet-stream")
    answered = _headers(stored)
    size = stored.content.size
    span = _span(headers.get("range", ""), size)
    if span is None:
        return Reply(body=stored.content.read(), content_type=kind, headers=answered)
    start, end = span
    answered["Content-Range"] = f"bytes {start}-{end - 1}/{size}"
    return Reply(
        status=206, body=stored.content.read(start, end - start), content_type=kind, headers=answered
    )


def _headers(stored: Stored) -> dict[str, str]:
    content = stored.content
    hashes = f"crc32c={content.crc32c}" + (f",md5={content.md5}" if content.md5 else "")
    told = {name: str(stored.fields[key]) for key, name in _TOLD.items() if stored.fields.get(key)}
    return {
        "X-Goog-Hash": hashes,
        "X-Goog-Generation": str(stored.generation),
        "X-Goog-Metageneration": str(stored.metageneration),
        "X-Goog-Stored-Content-Encoding": "identity",
        "X-Goog-Stored-Content-Length": str(content.size),
        "X-Goog-Storage-Class": stored.storage_class,
        "Last-Modified": formatdate(stored.updated, usegmt=True),
        "ETag": etag(stored.generation, stored.metageneration),
        "Accept-Ranges": "bytes",
        **told,
    }


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
