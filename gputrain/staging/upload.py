"""Puts an archive into the bucket, once: the name is its hash, and only an absent object is written."""

from __future__ import annotations

import functools
import re
from typing import Any
from urllib.parse import urlsplit

from gputrain.errors import ProviderError, TransientError
from gputrain.gcp import Access, Api, MissingError, Objects, PreconditionError, StoredInfo
from gputrain.retry import ONCE, WRITE
from gputrain.staging.bucket import BucketPrefix, Progress, md5_of

AT_ONCE_BYTES = 8 * 1024**2
"""Larger archives go in resumable chunks of this size."""

CONTENT_TYPE = "application/gzip"


def silence(_sent: int, _total: int) -> None:
    """For whom progress means nothing."""


def upload(
    access: Access, bucket: BucketPrefix, name: str, data: bytes, *, progress: Progress = silence
) -> int:
    """Put ``data`` where no object is yet; unchanged content is not sent again.

    Args:
        access: whose bucket.
        bucket: a bucket that `check_bucket` has passed.
        name: full, content-addressed name of the object.
        data: its content.
        progress: called with the bytes sent and the total.

    Returns:
        The object's generation.

    Raises:
        ProviderError: an object of that name holds something else.
        AccessError, TransientError: as the answers say.
    """
    objects = Objects(access, bucket.name)
    found = objects.stat(name)
    if found is None:
        try:
            if len(data) <= AT_ONCE_BYTES:
                found = _at_once(access, bucket, name, data, progress)
            else:
                _in_chunks(access, bucket, name, data, progress)
                found = objects.stat(name)
        except PreconditionError:  # somebody, or a try of ours whose answer was lost, put it there meanwhile
            found = objects.stat(name)
    if found is None or (found.size, found.md5) != (len(data), md5_of(data)):
        raise ProviderError(
            f"gs://{bucket.name}/{name} holds something else than what its name says",
            why="the object was exchanged or damaged",
            fix="find out who can write to the bucket, delete the object, and submit again",
        )
    return found.generation


def _at_once(access: Access, bucket: BucketPrefix, name: str, data: bytes, progress: Progress) -> StoredInfo:
    progress(0, len(data))
    found = Objects(access, bucket.name).write(name, data, if_generation=0, content_type=CONTENT_TYPE)
    progress(len(data), len(data))
    return found


def _in_chunks(access: Access, bucket: BucketPrefix, name: str, data: bytes, progress: Progress) -> None:
    """The resumable protocol; a broken chunk goes on from what the server kept, a lost session anew."""

    def attempt() -> None:
        session = _start(access, bucket, name, len(data))
        sent = 0
        while True:
            progress(sent, len(data))
            put = functools.partial(_put, access, session, data, sent)
            response = access.tried(put, action="upload the code", policy=WRITE)
            if response.status_code != 308:
                progress(len(data), len(data))
                return
            sent = _kept(response)

    def attempt_anew() -> None:
        try:
            attempt()
        except MissingError as lost:
            raise TransientError("the upload's session was lost", why=lost.why, raw=lost.raw) from lost

    access.tried(attempt_anew, action="upload the code", policy=WRITE)


def _start(access: Access, bucket: BucketPrefix, name: str, total: int) -> str:
    reply = access.reply(
        "POST",
        f"{access.url(Api.STORAGE)}/upload/storage/v1/b/{bucket.name}/o",
        action=f"upload the code to gs://{bucket.name}",
        params={"uploadType": "resumable", "name": name, "ifGenerationMatch": "0"},
        headers={"X-Upload-Content-Type": CONTENT_TYPE, "X-Upload-Content-Length": str(total)},
        policy=WRITE,
    )
    where = str(reply.headers.get("Location", ""))
    if urlsplit(where).netloc != urlsplit(access.url(Api.STORAGE)).netloc:
        raise ProviderError("the upload was sent to another host", why=f"Location: {where[:100]}")
    return where


def _put(access: Access, session: str, data: bytes, at: int) -> Any:
    """Send the next chunk; after a broken one, ask first what was kept."""
    total = len(data)
    chunk = data[at : at + AT_ONCE_BYTES]
    span = f"bytes {at}-{at + len(chunk) - 1}/{total}"
    try:
        return _send(access, session, chunk, span)
    except TransientError:
        return _send(access, session, b"", f"bytes */{total}")


def _send(access: Access, session: str, data: bytes, span: str) -> Any:
    return access.reply(
        "PUT", session, action="upload the code", data=data, headers={"Content-Range": span},
        accept=(308,), policy=ONCE,
    )  # fmt: skip


def _kept(response: Any) -> int:
    """How many bytes the server has."""
    found = re.fullmatch(r"bytes=0-(\d+)", response.headers.get("Range", ""))
    return int(found[1]) + 1 if found else 0
