"""Multipart uploads of the XML API: parts that come in any order, and the one object they become."""

from __future__ import annotations

import secrets
import threading
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass, field
from typing import Any

from gputrain_emulator.errors import ApiError
from gputrain_emulator.storage.content import Content, Folder
from gputrain_emulator.storage.refusals import invalid
from gputrain_emulator.storage.values import Writer

MIN_PART = 5 << 20
"""Every part but the last has as much (cloud.google.com/storage/docs/multipart-uploads, read 2026-11-22)."""
MAX_PARTS = 10_000


@dataclass(kw_only=True)
class MultipartUpload:
    """One upload in progress."""

    bucket: str
    name: str
    fields: Mapping[str, Any]
    writer: Writer
    started: float
    parts: dict[int, Content] = field(default_factory=dict)


class MultipartUploads:
    """The multipart uploads in progress, by upload id."""

    def __init__(self, folder: Folder, now: Callable[[], float]) -> None:
        self._folder = folder
        self._now = now
        self._uploads: dict[str, MultipartUpload] = {}
        self._lock = threading.Lock()

    def start(self, bucket: str, name: str, fields: Mapping[str, Any], writer: Writer) -> str:
        """Begin an upload; returns its id."""
        upload_id = secrets.token_urlsafe(48)
        with self._lock:
            self._uploads[upload_id] = MultipartUpload(
                bucket=bucket, name=name, fields=fields, writer=writer, started=self._now()
            )
        return upload_id

    def find(self, upload_id: str, bucket: str, name: str) -> MultipartUpload:
        with self._lock:
            found = self._uploads.get(upload_id)
        if found is None or (found.bucket, found.name) != (bucket, name):
            raise ApiError(404, "The requested upload was not found.", reason="NoSuchUpload", domain="xml")
        return found

    def take(self, upload: MultipartUpload, number: int, content: Content) -> None:
        """Keep a part, in place of an earlier one of its number."""
        if not 1 <= number <= MAX_PARTS:
            raise invalid(f"Part numbers go from 1 to {MAX_PARTS}.", reason="InvalidArgument")
        with self._lock:
            upload.parts[number] = content

    def finish(self, upload: MultipartUpload, wanted: Sequence[tuple[int, str]]) -> Content:
        """The parts that are wanted, by number and MD5, as one content; it has no MD5 of its own."""
        numbers = [number for number, _ in wanted]
        if not wanted or numbers != sorted(set(numbers)):
            raise invalid("The list of parts was not in ascending order.", reason="InvalidPartOrder")
        with self._lock:
            found = [(upload.parts.get(number), md5) for number, md5 in wanted]
        draft = self._folder.draft()
        for index, (part, md5) in enumerate(found):
            if part is None or part.md5 != md5:
                raise invalid("One or more of the specified parts could not be found.", reason="InvalidPart")
            if part.size < MIN_PART and index + 1 < len(found):
                raise invalid("A part but the last is smaller than 5 MiB.", reason="EntityTooSmall")
            draft.append_all(part)
        return draft.finish(md5="")

    def drop(self, upload_id: str) -> None:
        """Forget an upload and its parts; it is done, or given up."""
        with self._lock:
            self._uploads.pop(upload_id, None)
