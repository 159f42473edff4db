"""What Cloud Storage holds in one emulated world, and its uploads: multipart bodies, resumable sessions."""

from __future__ import annotations

import re
import secrets
import threading
from collections.abc import Mapping
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any

from gputrain_emulator.errors import ApiError
from gputrain_emulator.folders import OwnFolder
from gputrain_emulator.storage.buckets import Bucket, Conditions, Objects, invalid, not_carried_out
from gputrain_emulator.storage.content import Content, Folder
from gputrain_emulator.world import World

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


CHUNK = 256 * 1024  # only whole multiples of this are kept of a chunk that is not the last

_RANGE = re.compile(r"bytes (?:([0-9]{1,18})-([0-9]{1,18})|\*)/([0-9]{1,18}|\*)")


@dataclass(kw_only=True)
class Session:
    """One resumable upload. `lock` is held while a chunk is taken."""

    bucket: str
    name: str
    fields: Mapping[str, Any]
    conditions: Conditions
    hashes: Mapping[str, str]  # what the metadata said the bytes would be
    draft: Content | None
    """The bytes that came; None once the object is made, which keeps them from then on."""
    lock: threading.Lock = field(default_factory=threading.Lock)
    result: dict[str, Any] | None = None  # what finished it, told again to whoever asks


class Sessions:
    """The resumable uploads, by upload id."""

    def __init__(self) -> None:
        self._sessions: dict[str, Session] = {}
        self._lock = threading.Lock()
        self.kept_of_next: list[int] = []
        """Of the next chunk so many bytes are kept before a 503, as by a torn connection."""

    def start(self, session: Session) -> str:
        """Keep a session; returns its upload id."""
        upload_id = secrets.token_urlsafe(48)
        with self._lock:
            self._sessions[upload_id] = session
        return upload_id

    def find(self, upload_id: str) -> Session:
        """A session; 404 for one that is not."""
        with self._lock:
            session = self._sessions.get(upload_id)
        if session is None:
            raise ApiError(404, "Not Found")
        return session

    def take(self, session: Session, content_range: str, body: bytes | memoryview) -> bool:
        """Add a chunk; whether the draft is whole now. The caller holds `session.lock`."""
        first, total = _read_range(content_range, body)
        draft = session.draft
        assert draft is not None
        if first is not None and first <= draft.size:  # a gap adds nothing: the answer tells where to go on
            data = memoryview(body)[draft.size - first :]
            if self.kept_of_next:
                draft.append(_whole_chunks(draft.size, data[: self.kept_of_next.pop()]))
                raise ApiError(503, "Service Unavailable")
            final = total is not None and first + len(body) >= total
            draft.append(data if final else _whole_chunks(draft.size, data))
        if total is not None and draft.size > total:
            raise invalid("Invalid request.  More bytes were received than the total size says.")
        return draft.size == total


def _whole_chunks(before: int, data: memoryview) -> memoryview:
    """What is kept of a chunk that is not the last: up to a multiple of 256 KiB of the whole."""
    return data[: max(0, len(data) - (before + len(data)) % CHUNK)]


def _read_range(content_range: str, body: bytes | memoryview) -> tuple[int | None, int | None]:
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


class Storage:
    """What handlers and tests share; the folder goes away with the emulator."""

    def __init__(self, world: World) -> None:
        self._kept: OwnFolder | None = None
        self.world = world
        self.objects = Objects(Folder(self._place), world.clock.now)
        self.buckets = self.objects.buckets
        self.uploads = Sessions()

    def add_bucket(self, name: str, *, location: str = "us-central1", project: str = "") -> Bucket:
        """A bucket of a project, the first one unless another is named."""
        return self.buckets.add(name, project=self.world.owner(project), location=location)

    def break_next_chunk(self, kept_bytes: int) -> None:
        """Let the next chunk of a resumable upload end in a 503 after `kept_bytes` of it."""
        self.uploads.kept_of_next.append(kept_bytes)

    def close(self) -> None:
        """Remove the folder; safe to call twice."""
        if self._kept is not None:
            self._kept.close()

    def _place(self) -> Path:
        self._kept = OwnFolder()
        return self._kept.path
