"""multipart/related bodies: an object's metadata and its bytes in one request."""

from __future__ import annotations

import re

from gputrain_emulator.storage.refusals import invalid, not_carried_out

_BOUNDARY = re.compile(r"""boundary=(?:"([^"]+)"|'([^']+)'|([^\s;]+))""")  # gcloud sends the single quotes
_HEAD, _TAIL = 2 << 20, 1 << 10
"""Bytes from the beginning in which the second part begins, and before the end in which the last one ends."""


def split_multipart(content_type: str, body: bytes) -> tuple[bytes, str, memoryview]:
    """The metadata, media type and media of a multipart/related body.

    Lines end in CRLF as RFC 2046 has it, or in LF alone, which gcloud sends and Google takes. The last
    boundary is the closing one, so that an object may hold what looks like one.
    """
    found = _BOUNDARY.search(content_type)
    if not content_type.startswith("multipart/") or found is None:
        raise invalid("Malformed multipart body: the boundary is missing.")
    mark = b"--" + str(found.group(found.lastindex or 0)).encode()
    head, tail = bytes(body[:_HEAD]), bytes(body[-_TAIL:])
    end = b"\r\n" if head.startswith(mark + b"\r\n") else b"\n"
    second, closing = head.find(end + mark), tail.rfind(end + mark)
    last = len(body) - len(tail) + closing
    if not head.startswith(mark) or second < 0 or closing < 0 or last <= second:
        raise invalid("Malformed multipart body: two parts are needed.")
    if not tail[closing:].removeprefix(end + mark).startswith(b"--"):
        raise invalid("Malformed multipart body: the closing boundary is missing.")
    _, metadata = _part(memoryview(body)[len(mark) : second], end)
    headers, media = _part(memoryview(body)[second + len(end + mark) : last], end)
    return bytes(metadata), headers.get("content-type", ""), media


def _part(part: memoryview, end: bytes) -> tuple[dict[str, str], memoryview]:
    start = len(end) if bytes(part[: len(end)]) == end else 0
    head, separator, _ = bytes(part[start : start + _HEAD]).partition(end + end)
    if not separator:
        raise invalid("Malformed multipart body: a part has no headers.")
    headers = {}
    for line in head.decode("latin-1").splitlines():
        name, _, value = line.partition(":")
        headers[name.strip().lower()] = value.strip()
    data = part[start + len(head + separator) :]
    encoding = headers.get("content-transfer-encoding", "binary")
    if encoding.lower() not in ("binary", "7bit", "8bit"):
        raise not_carried_out(f"A part with Content-Transfer-Encoding: {encoding}")
    return headers, data
