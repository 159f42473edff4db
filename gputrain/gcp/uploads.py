"""Content on its way into a bucket, once: its name is its hash, and only an absent object is written."""

from __future__ import annotations

import functools
import re
from collections.abc import Callable
from typing import Any
from urllib.parse import urlsplit

from gputrain.errors import ProviderError, TransientError
from gputrain.gcp.api import Access
from gputrain.gcp.buckets import BucketPrefix
from gputrain.gcp.endpoints import Api
from gputrain.gcp.errors import MissingError, PreconditionError
from gputrain.gcp.objects import Objects, md5_of
from gputrain.retry import ONCE, WRITE

Progress = Callable[[int, int], None]
"""Called with the bytes sent so far and the total."""

AT_ONCE_BYTES = 8 * 1024**2
"""Larger archives go in resumable chunks of this size."""

CONTENT_TYPE = "application/gzip"


def upload(
    access: Access, bucket: BucketPrefix, name: str, data: bytes, *, progress: Progress | None = None
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
    objects, told = Objects(access, bucket.name), progress or (lambda _sent, _total: None)
    found = objects.stat(name)
    if found is None:
        try:
            if len(data) <= AT_ONCE_BYTES:
                told(0, len(data))
                found = objects.write(name, data, if_generation=0, content_type=CONTENT_TYPE)
                told(len(data), len(data))
            else:
                _in_chunks(access, bucket, name, data, told)
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
    if urlsplit(where)[:2] != urlsplit(access.url(Api.STORAGE))[:2]:
        raise ProviderError("the upload was sent to another host", why=f"Location: {where[:100]}")
    return where


def _put(access: Access, session: str, data: bytes, at: int) -> Any:
    """Send the next chunk; after a broken one, ask what was kept. Raises TransientError: nothing more was."""
    total = len(data)
    chunk = data[at : at + AT_ONCE_BYTES]
    span = f"bytes {at}-{at + len(chunk) - 1}/{total}"
    try:
        reply = _send(access, session, chunk, span)
    except TransientError:
        reply = _send(access, session, b"", f"bytes */{total}")
    if reply.status_code == 308 and _kept(reply) <= at:
        why = f"Cloud Storage answers, and keeps no more than {at} of {total} bytes"
        fix = (
            "try again; where it stays so, find what on the way cuts large requests: a proxy, a tunnel's MTU"
        )
        raise TransientError("the upload does not go on", why=why, fix=fix)
    return reply


def _send(access: Access, session: str, data: bytes, span: str) -> Any:
    return access.reply(
        "PUT", session, action="upload the code", data=data, headers={"Content-Range": span},
        accept=(308,), policy=ONCE,
    )  # fmt: skip


def _kept(response: Any) -> int:
    """How many bytes the server has."""
    found = re.fullmatch(r"bytes=0-(\d{1,15})", response.headers.get("Range", ""))
    return int(found[1]) + 1 if found else 0
