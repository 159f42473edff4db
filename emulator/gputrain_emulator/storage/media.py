"""An object's bytes as a reply, whole or a range of them."""

from __future__ import annotations

import re
from collections.abc import Mapping
from email.utils import formatdate

from gputrain_emulator.call import Reply
from gputrain_emulator.errors import ApiError
from gputrain_emulator.storage.buckets import Stored
from gputrain_emulator.storage.conditions import etag

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
