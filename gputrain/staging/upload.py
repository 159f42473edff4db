"""The user's bucket: never invented, and checked to be ours before anything is put into it.

An archive is put there once: its name is its hash, and only an absent object is written.
"""

from __future__ import annotations

import base64
import functools
import hashlib
import re
from collections.abc import Callable
from typing import Any
from urllib.parse import urlsplit

import attrs

from gputrain.errors import PermissionDeniedError, ProviderError, RequestError, TransientError
from gputrain.fields import refused
from gputrain.gcp import Access, Api, MissingError, Objects, PreconditionError, StoredInfo
from gputrain.retry import ONCE, READ, WRITE, Policy

_URI = re.compile(r"gs://([a-z0-9][a-z0-9._-]{1,220}[a-z0-9])(?:/(.*))?", re.DOTALL)

Progress = Callable[[int, int], None]
"""Called with the bytes sent so far and the total."""


@attrs.frozen(kw_only=True)
class BucketPrefix:
    """A place in Cloud Storage: a bucket and a prefix inside it.

    >>> BucketPrefix.parse("gs://my-bucket/team/").uri("code", "a.tar.gz")
    'gs://my-bucket/team/code/a.tar.gz'
    """

    name: str
    prefix: str = ""
    """Empty, or ends in ``/``."""

    @classmethod
    def parse(cls, uri: str) -> BucketPrefix:
        """Read ``gs://bucket`` or ``gs://bucket/prefix``.

        Raises:
            SpecError: it is neither.
        """
        found = _URI.fullmatch(uri) if isinstance(uri, str) else None
        if found is None or ".." in (found[2] or "").split("/"):
            raise refused("bucket", uri, "gs://bucket or gs://bucket/prefix", "bucket='gs://my-bucket'")
        prefix = (found[2] or "").strip("/")
        return cls(name=found[1], prefix=f"{prefix}/" if prefix else "")

    def object_name(self, *parts: str) -> str:
        """The name of an object below the prefix."""
        return self.prefix + "/".join(parts)

    def uri(self, *parts: str) -> str:
        """The ``gs://`` name of an object below the prefix."""
        return f"gs://{self.name}/{self.object_name(*parts)}"


def check_bucket(access: Access, bucket: BucketPrefix, region: str, *, policy: Policy = READ) -> None:
    """Make sure that the bucket exists, belongs to our project and lies in the region. One read.

    Raises:
        PermissionDeniedError: it is somebody else's, or we may not look.
        RequestError: it does not exist, or lies elsewhere.
    """
    place = _location(access, bucket.name, region, policy)
    if place != region:
        raise RequestError(
            f"gs://{bucket.name} does not suit {region}",
            why=f"it lies in {place}; code and results are kept in the region where jobs start",
            fix=f"gcloud storage buckets create gs://NEW-NAME --location {region} --project {access.project}"
            + f", or put {place} first in regions" * ("-" in place),
        )


def check_owner(access: Access, bucket: BucketPrefix) -> None:
    """Make sure that the bucket exists and belongs to our project. One read.

    Raises:
        PermissionDeniedError: it is somebody else's, or we may not look.
        RequestError: it does not exist.
    """
    _location(access, bucket.name, "REGION", READ)


def _location(access: Access, name: str, region: str, policy: Policy) -> str:
    """Where a bucket of our project lies. Only the list of our own buckets proves whose it is."""
    action = f"look for gs://{name} among the buckets of {access.project}"
    url = access.url(Api.STORAGE) + "/storage/v1/b"
    params = {"project": access.project, "prefix": name, "fields": "items(name,location),nextPageToken"}
    listing = access.pages(url, action=action, params=params, policy=policy)
    found = listing.find(lambda one: one.get("name") == name)
    if found is not None:
        return str(found.get("location")).lower()
    listing.whole(action)
    raise _not_ours(access, name, region, policy)


def _not_ours(access: Access, name: str, region: str, policy: Policy) -> RequestError | PermissionDeniedError:
    url = f"{access.url(Api.STORAGE)}/storage/v1/b/{name}"
    try:
        access.get(url, action=f"look at gs://{name}", params={"fields": "name"}, policy=policy)
    except MissingError as missing:
        return MissingError(
            f"there is no bucket gs://{name}",
            why=missing.why,
            fix=access.fitted(
                f"gcloud storage buckets create gs://{name} --project {access.project} --location {region}"
            ),
            raw=missing.raw,
        )
    except PermissionDeniedError:
        pass
    return PermissionDeniedError(
        f"gs://{name} does not belong to project {access.project}",
        why="code put into a bucket of somebody else could be exchanged for theirs and run as you",
        fix="name a bucket of your own project",
        permission="storage.buckets.get",
    )


def md5_of(data: bytes) -> str:
    """The MD5 as Cloud Storage tells it: a check against damage, not against malice (the sha256 is that)."""
    return base64.b64encode(hashlib.md5(data, usedforsecurity=False).digest()).decode()


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
