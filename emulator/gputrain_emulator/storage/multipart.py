"""multipart/related bodies: an object's metadata and its bytes in one request."""

from __future__ import annotations

import base64
import binascii
import re

from gputrain_emulator.storage.refusals import invalid

_BOUNDARY = re.compile(r"""boundary=(?:"([^"]+)"|'([^']+)'|([^\s;]+))""")  # gcloud sends the single quotes


def split_multipart(content_type: str, body: bytes) -> tuple[bytes, str, bytes]:
    """The metadata, media type and media of a multipart/related body.

    Lines end in CRLF as RFC 2046 has it, or in LF alone, which gcloud sends and Google takes.
    """
    found = _BOUNDARY.search(content_type)
    if not content_type.startswith("multipart/") or found is None:
        raise invalid("Malformed multipart body: the boundary is missing.")
    mark = b"--" + str(found.group(found.lastindex or 0)).encode()
    end = b"\r\n" if body.startswith(mark + b"\r\n") else b"\n"
    parts = body.split(end + mark)
    if not parts[0].startswith(mark) or len(parts) < 3:
        raise invalid("Malformed multipart body: two parts are needed.")
    parts[0] = parts[0][len(mark) :]
    if not parts[-1].startswith(b"--"):
        raise invalid("Malformed multipart body: the closing boundary is missing.")
    _, metadata = _part(parts[0], end)
    headers, media = _part((end + mark).join(parts[1:-1]), end)
    return metadata, headers.get("content-type", ""), media


def _part(part: bytes, end: bytes) -> tuple[dict[str, str], bytes]:
    head, separator, data = part.removeprefix(end).partition(end + end)
    if not separator:
        raise invalid("Malformed multipart body: a part has no headers.")
    headers = {}
    for line in head.decode("latin-1").splitlines():
        name, _, value = line.partition(":")
        headers[name.strip().lower()] = value.strip()
    return headers, _decoded(headers.get("content-transfer-encoding", "binary"), data)


def _decoded(encoding: str, data: bytes) -> bytes:
    if encoding.lower() in ("binary", "7bit", "8bit"):
        return data
    if encoding.lower() != "base64":
        raise invalid(f"Malformed multipart body: unknown Content-Transfer-Encoding {encoding!r}.")
    try:
        return base64.b64decode(b"".join(data.split()), validate=True)
    except (binascii.Error, ValueError):
        raise invalid("Malformed multipart body: the part is no base64.") from None
