"""The two uploads that are more than a body: multipart/related, and the resumable one with its sessions."""

from __future__ import annotations

import json
import re
import secrets
import threading
from collections.abc import Mapping
from dataclasses import dataclass, field
from typing import Any

from gputrain_emulator.errors import ApiError
from gputrain_emulator.storage.conditions import Conditions, invalid
from gputrain_emulator.storage.content import Content, Draft

CHUNK = 256 * 1024  # only whole multiples of this are kept of a chunk that is not the last

_BOUNDARY = re.compile(r"""boundary=(?:"([^"]+)"|'([^']+)'|([^\s;]+))""")  # gcloud sends the single quotes
_RANGE = re.compile(r"bytes (?:(\d+)-(\d+)|\*)/(\d+|\*)")


def split_multipart(content_type: str, body: bytes) -> tuple[dict[str, Any], str, bytes]:
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
    return read_metadata(metadata), headers.get("content-type", ""), media


def read_metadata(data: bytes) -> dict[str, Any]:
    """Object metadata sent as JSON; an empty body is none."""
    if not data.strip():
        return {}
    try:
        document = json.loads(data)
    except (ValueError, RecursionError):
        raise ApiError(400, "Parse Error", reason="parseError") from None
    if not isinstance(document, dict):
        raise ApiError(400, "Parse Error", reason="parseError")
    return document


def _part(part: bytes, end: bytes) -> tuple[dict[str, str], bytes]:
    head, separator, data = part.removeprefix(end).partition(end + end)
    if not separator:
        raise invalid("Malformed multipart body: a part has no headers.")
    headers = {}
    for line in head.decode("latin-1").splitlines():
        name, _, value = line.partition(":")
        headers[name.strip().lower()] = value.strip()
    return headers, data


@dataclass(kw_only=True)
class Session:
    """One resumable upload. `lock` is held while a chunk is taken."""

    bucket: str
    name: str
    fields: Mapping[str, object]
    conditions: Conditions
    hashes: Mapping[str, str]  # what the metadata said the bytes would be
    draft: Draft
    lock: threading.Lock = field(default_factory=threading.Lock)
    result: dict[str, Any] | None = None  # what finished it, told again to whoever asks


@dataclass(frozen=True, kw_only=True)
class Progress:
    """Where a session stands after a request: `content` is there when it is whole."""

    received: int
    content: Content | None = None


class Sessions:
    """The resumable uploads in progress, by upload id."""

    def __init__(self) -> None:
        self._sessions: dict[str, Session] = {}
        self._lock = threading.Lock()
        self._keep: list[int] = []

    def start(self, session: Session) -> str:
        """Keep a session; returns its upload id."""
        upload_id = secrets.token_urlsafe(48)
        with self._lock:
            self._sessions[upload_id] = session
        return upload_id

    def find(self, upload_id: str) -> Session:
        with self._lock:
            session = self._sessions.get(upload_id)
        if session is None:
            raise ApiError(404, "Not Found", reason="notFound")
        return session

    def cancel(self, upload_id: str) -> None:
        """Forget an upload; Google answers such a DELETE with 499."""
        self.find(upload_id)
        with self._lock:
            self._sessions.pop(upload_id, None)

    def break_next_chunk(self, kept_bytes: int) -> None:
        """Let the next chunk end in a 503 after `kept_bytes` of it, as a torn connection does."""
        self._keep.append(kept_bytes)

    def take(self, session: Session, content_range: str, body: bytes) -> Progress:
        """Add a chunk, or only tell how far the upload is; the caller holds `session.lock`."""
        first, total = _read_range(content_range, body)
        draft = session.draft
        if first is not None and first <= draft.size:  # a gap adds nothing: the answer tells where to go on
            data = body[draft.size - first :]
            if self._keep:
                draft.append(_whole_chunks(draft.size, data[: self._keep.pop()]))
                raise ApiError(503, "Service Unavailable", reason="backendError")
            final = total is not None and first + len(body) >= total
            draft.append(data if final else _whole_chunks(draft.size, data))
        if total is not None and draft.size > total:
            raise invalid("Invalid request.  More bytes were received than the total size says.")
        done = total is not None and draft.size == total
        return Progress(received=draft.size, content=draft.finish() if done else None)


def _whole_chunks(before: int, data: bytes) -> bytes:
    """What is kept of a chunk that is not the last: up to a multiple of 256 KiB of the whole."""
    return data[: max(0, len(data) - (before + len(data)) % CHUNK)]


def _read_range(content_range: str, body: bytes) -> tuple[int | None, int | None]:
    """The first byte (None: no bytes sent) and the total size (None: not known yet)."""
    if not content_range:
        return 0, len(body)
    found = _RANGE.fullmatch(content_range)
    if found is None:
        raise invalid("Failed to parse Content-Range header.")
    first, last, total = found.groups()
    if first is None and body:
        raise invalid("Invalid request.  There were bytes in the body, but none in the Content-Range header.")
    if first is not None and int(last) - int(first) + 1 != len(body):
        raise invalid(
            f"Invalid request.  There were {len(body)} byte(s) in the request body.  "
            f"There should have been {int(last) - int(first) + 1} byte(s) (starting at offset {first} and "
            f"ending at offset {last}) according to the Content-Range header."
        )
    return (None if first is None else int(first)), (None if total == "*" else int(total))
