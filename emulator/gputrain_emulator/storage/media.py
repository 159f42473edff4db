"""An object's bytes as a reply: ranges, and gzip undone for who does not take it."""

from __future__ import annotations

import re
import zlib
from collections.abc import Mapping

from gputrain_emulator.call import Reply
from gputrain_emulator.errors import ApiError
from gputrain_emulator.storage.conditions import etag
from gputrain_emulator.storage.encryption import headers_of
from gputrain_emulator.storage.times import http_date
from gputrain_emulator.storage.values import Stored

_RANGE = re.compile(r"bytes=([0-9]{0,18})-([0-9]{0,18})")
_TOLD = {
    "cacheControl": "Cache-Control",
    "contentDisposition": "Content-Disposition",
    "contentLanguage": "Content-Language",
}


def download(stored: Stored, headers: Mapping[str, str]) -> Reply:
    """All bytes, or those of the `Range`.

    An object stored with `contentEncoding: gzip` is decompressed for a reader who does not accept gzip, and
    then as a whole, whatever the range. Source: cloud.google.com/storage/docs/transcoding, read 2026-11-22.
    """
    kind = str(stored.fields.get("contentType") or "application/octet-stream")
    answered = _headers(stored)
    encoding = str(stored.fields.get("contentEncoding") or "")
    plain = _plain(stored, headers) if encoding == "gzip" else None
    if plain is not None:
        answered |= {"Warning": "214 UploadServer gunzipped", "Vary": "Accept-Encoding"}
        return Reply(body=plain, content_type=kind, headers=answered)
    if encoding:
        answered["Content-Encoding"] = encoding
    size = stored.content.size
    span = _span(headers.get("range", ""), size)
    if span is None:
        return Reply(body=stored.content.view(0, size), content_type=kind, headers=answered)
    start, end = span
    answered["Content-Range"] = f"bytes {start}-{end - 1}/{size}"
    return Reply(status=206, body=stored.content.view(start, end), content_type=kind, headers=answered)


def _headers(stored: Stored) -> dict[str, str]:
    content = stored.content
    hashes = f"crc32c={content.crc32c}" + (f",md5={content.md5}" if content.md5 else "")
    told = {name: str(stored.fields[key]) for key, name in _TOLD.items() if stored.fields.get(key)}
    return {
        "X-Goog-Hash": hashes,
        "X-Goog-Generation": str(stored.generation),
        "X-Goog-Metageneration": str(stored.metageneration),
        "X-Goog-Stored-Content-Encoding": str(stored.fields.get("contentEncoding") or "identity"),
        "X-Goog-Stored-Content-Length": str(content.size),
        "X-Goog-Storage-Class": stored.storage_class,
        "Last-Modified": http_date(stored.updated),
        "ETag": etag(stored.generation, stored.metageneration),
        "Accept-Ranges": "bytes",
        **headers_of(stored),
        **told,
    }


def _plain(stored: Stored, headers: Mapping[str, str]) -> bytes | None:
    """The bytes without their compression, None where they are to stay as they are."""
    if "gzip" in headers.get("accept-encoding", "").lower():
        return None
    if "no-transform" in str(stored.fields.get("cacheControl") or ""):
        return None
    try:
        return zlib.decompress(stored.content.read(), wbits=16 + zlib.MAX_WBITS)
    except zlib.error:
        return None  # it says gzip and is none


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
