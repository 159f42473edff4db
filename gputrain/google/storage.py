"""Cloud Storage: the objects of a bucket, uploads, and the proof that a bucket is ours.

Times are the service's: an object's age is the ``Date`` of the response less the object's ``updated``, so the
clocks of two machines are never compared. Retries are ours; those of Google's client are off.
"""

from __future__ import annotations

import base64
import hashlib
import io
import re
import threading
import uuid
from collections.abc import Callable, Iterator, Mapping
from contextlib import contextmanager
from datetime import datetime
from typing import Any, TypeVar
from urllib.parse import urlsplit

import attrs

from gputrain.errors import (
    GputrainError,
    PermissionDeniedError,
    ProviderError,
    RequestError,
    TransientError,
)
from gputrain.fields import invalid
from gputrain.google.client import GoogleClient
from gputrain.google.endpoints import Api
from gputrain.google.errors import (
    MissingError,
    PreconditionError,
    TooLargeError,
    UnclearError,
    google_errors,
    unlike_google,
)
from gputrain.retry import READ, WRITE, Policy
from gputrain.times import moment_of_header

T = TypeVar("T")
Progress = Callable[[int, int], None]
"""Called with the bytes sent so far and the total."""

CHUNK_BYTES = 8 << 20
"""Larger uploads are sent in resumable chunks of this size, as google-cloud-storage 3 does."""

_WRITTEN_BY = "gputrain-write"
"""Metadata that names the one write that made this generation: it settles a write whose response was lost."""

_FIELDS = "items(name,generation,size,md5Hash,updated,timeCreated,metadata),nextPageToken"
_URI = re.compile(r"gs://([a-z0-9][a-z0-9._-]{1,220}[a-z0-9])(?:/(.*))?", re.DOTALL)
_last_response = threading.local()
"""Headers of the last response that this thread read; the client does not hand them out."""


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
        prefix = (found[2] or "").strip("/") if found else ""
        if found is None or not prefix.isprintable() or ".." in prefix.split("/"):
            raise invalid("bucket", uri, "gs://bucket or gs://bucket/prefix", "bucket='gs://my-bucket'")
        return cls(name=found[1], prefix=f"{prefix}/" if prefix else "")

    def object_name(self, *parts: str) -> str:
        return self.prefix + "/".join(parts)

    def uri(self, *parts: str) -> str:
        """The ``gs://`` name of an object below the prefix."""
        return f"gs://{self.name}/{self.object_name(*parts)}"


@attrs.frozen(kw_only=True)
class Version:
    """One generation of an object."""

    generation: int
    updated: datetime
    seen_at: datetime
    """The service's time when it was read."""

    @property
    def age_s(self) -> float:
        """Seconds since it was written, by the service's clock."""
        return max(0.0, (self.seen_at - self.updated).total_seconds())


@attrs.frozen(kw_only=True)
class ObjectInfo(Version):
    name: str
    size: int
    md5: str
    """In base64, as Cloud Storage writes it; empty for composed objects."""
    created: datetime
    metadata: Mapping[str, str]


@attrs.frozen(kw_only=True)
class Object(Version):
    content: bytes = attrs.field(repr=False)


@attrs.frozen(eq=False)
class Objects:
    """The objects of one bucket, by their full names.

    All methods raise AccessError or TransientError as Cloud Storage answers.
    """

    access: GoogleClient
    bucket_name: str

    def read(self, name: str, *, most_bytes: int = 1 << 30, policy: Policy = READ) -> Object | None:
        """An object's content; None where there is no such object.

        Raises:
            TooLargeError: it is larger than ``most_bytes``.
        """
        bucket = self._bucket

        def call() -> Object | None:
            blob, content = bucket.blob(name), _Limited(most_bytes)  # a blob keeps the generation it has read
            blob.download_to_file(content, timeout=policy.call_s, retry=None)
            # the time is sent with the content (seen 2026-08-13), though Google does not document it
            generation, updated, seen_at = blob.generation, _header("Last-Modified"), _header("Date")
            if generation is None or updated is None or seen_at is None:
                raise _not_storage(f"read gs://{self.bucket_name}/{name}", content.getvalue())
            return Object(content=content.getvalue(), generation=generation, updated=updated, seen_at=seen_at)

        return self._try("read", name, call, policy, missing=None)

    def read_range(
        self, name: str, first: int, most_bytes: int, *, generation: int | None = None, policy: Policy = READ
    ) -> bytes:
        """So many bytes of an object from ``first`` on, fewer at its end; none where there is no object."""
        bucket = self._bucket

        def call() -> bytes:
            from google.api_core.exceptions import RequestRangeNotSatisfiable

            blob, last = bucket.blob(name, generation=generation), first + most_bytes - 1
            try:
                content = blob.download_as_bytes(start=first, end=last, timeout=policy.call_s, retry=None)
            except RequestRangeNotSatisfiable:
                return b""
            if blob.generation is None:
                raise _not_storage(f"read gs://{self.bucket_name}/{name}", content)
            return bytes(content)

        return self._try("read", name, call, policy, missing=b"")

    def stat(self, name: str, *, policy: Policy = READ) -> ObjectInfo | None:
        """An object's generation and metadata; None where there is no such object."""
        bucket = self._bucket

        def call() -> ObjectInfo | None:
            blob = bucket.blob(name)
            blob.reload(timeout=policy.call_s, retry=None)
            return _info(blob)

        return self._try("look for", name, call, policy, missing=None)

    def write(
        self,
        name: str,
        data: bytes,
        *,
        if_generation: int | None,
        content_type: str = "application/octet-stream",
        metadata: Mapping[str, str] | None = None,
    ) -> ObjectInfo:
        """Write an object.

        Args:
            if_generation: of the object to replace; 0: there must be none; None: replace any.

        Raises:
            PreconditionError: the object is another one by now.
        """
        blob, mark = self._bucket.blob(name), uuid.uuid4().hex
        blob.metadata = {**(metadata or {}), _WRITTEN_BY: mark}

        def call() -> ObjectInfo:
            blob.upload_from_string(
                data, content_type, if_generation_match=if_generation, timeout=WRITE.call_s, retry=None
            )
            return _info(blob)

        try:
            return self._try("write", name, call, WRITE)
        except (PreconditionError, TransientError):
            written = self.stat(name)  # a try whose response was lost may have written it
            if written is not None and written.metadata.get(_WRITTEN_BY) == mark:
                return written
            raise

    def list(self, prefix: str, *, policy: Policy = READ) -> tuple[ObjectInfo, ...]:
        """The objects whose names begin so, by name."""
        bucket = self._bucket

        def call() -> tuple[ObjectInfo, ...]:
            found = bucket.list_blobs(prefix=prefix, fields=_FIELDS, timeout=policy.call_s, retry=None)
            return tuple(_info(blob) for blob in found)

        return self._try("list", f"{prefix}*", call, policy)

    @property
    def _bucket(self) -> Any:
        return _client(self.access).bucket(self.bucket_name)

    def _try(self, verb: str, name: str, call: Callable[[], T], policy: Policy, **missing: T) -> T:
        action = f"{verb} gs://{self.bucket_name}/{name}"
        try:
            return self.access.tried(call, action=action, policy=policy, errors=_storage_errors)
        except MissingError:
            if missing:
                return missing["missing"]
            raise


def upload(
    access: GoogleClient, bucket: BucketPrefix, name: str, data: bytes, *, progress: Progress | None = None
) -> int:
    """Put ``data`` where no object is yet, and return its generation; unchanged content is not sent again.

    Args:
        bucket: a bucket that `check_bucket` has passed.
        name: full, content-addressed name of the object.

    Raises:
        ProviderError: an object of that name holds something else.
    """
    objects, action = Objects(access, bucket.name), f"upload gs://{bucket.name}/{name}"
    found = objects.stat(name)
    if found is None:
        blob = objects._bucket.blob(name, chunk_size=CHUNK_BYTES)

        def retried(call: Callable[[], Any]) -> Callable[[], Any]:  # chunk by chunk
            return lambda: access.tried(call, action=action, policy=WRITE, errors=_storage_errors)

        try:
            with _storage_errors(action):  # also of what the client reads once all is sent
                blob.upload_from_file(
                    _Shown(data, progress), size=len(data), content_type="application/gzip",
                    if_generation_match=0, timeout=WRITE.call_s, retry=retried,
                )  # fmt: skip
                found = _info(blob)
            if progress is not None:
                progress(len(data), len(data))
        except PreconditionError:  # another client was faster, or our own try, whose response was lost
            found = objects.stat(name)
    if found is None or (found.size, found.md5) != (len(data), md5_of(data)):
        raise ProviderError(
            f"gs://{bucket.name}/{name} holds something else than its name says",
            why="the object was exchanged or damaged",
            fix="find out who can write to the bucket, delete the object, and submit again",
        )
    return found.generation


def owner_id(project: str, bucket: BucketPrefix) -> str:
    """The value of `LABEL_OWNER`: two backends with the same one share their records."""
    return hashlib.sha256(f"{project}/{bucket.name}/{bucket.prefix}".encode()).hexdigest()[:12]


def check_bucket(
    access: GoogleClient, bucket: BucketPrefix, region: str = "", *, policy: Policy = READ
) -> None:
    """Make sure that the bucket exists, belongs to our project and lies in the region, if one is given.

    Raises:
        PermissionDeniedError: it is somebody else's, or we may not look.
        RequestError: it does not exist, or lies elsewhere.
    """
    name, client, fields = bucket.name, _client(access), "items(name,location),nextPageToken"

    def ours() -> dict[str, str]:  # only the list of our own buckets proves whose it is
        found = client.list_buckets(prefix=name, fields=fields, timeout=policy.call_s, retry=None)
        return {one.name: str(one.location).lower() for one in found}

    def any_ones() -> None:
        client.bucket(name).reload(timeout=policy.call_s, retry=None)

    action = f"look for gs://{name} among the buckets of {access.project}"
    place = access.tried(ours, action=action, policy=policy, errors=_storage_errors).get(name)
    make = (
        f"gcloud storage buckets create gs://{{}} --project {access.project} --location {region or 'REGION'}"
    )
    if place is None:
        try:
            access.tried(any_ones, action=f"look at gs://{name}", policy=policy, errors=_storage_errors)
        except MissingError as missing:
            what, fix = f"there is no bucket gs://{name}", make.format(name)
            raise MissingError(what, why=missing.why, fix=fix, raw=missing.raw) from missing
        except PermissionDeniedError:
            pass
        raise PermissionDeniedError(
            f"gs://{name} does not belong to project {access.project}",
            why="code put into a bucket of somebody else could be exchanged for theirs and run as you",
            fix="name a bucket of your own project",
            permission="storage.buckets.get",
        )
    if region and place != region:
        raise RequestError(
            f"gs://{name} does not suit {region}",
            why=f"it lies in {place}; code and results are kept in the region where jobs start",
            fix=make.format("NEW-NAME") + f", or put {place} first in regions" * ("-" in place),
        )


def md5_of(data: bytes) -> str:
    """The MD5 as Cloud Storage writes it: a check against damage, not against malice (the sha256 is that)."""
    return base64.b64encode(hashlib.md5(data, usedforsecurity=False).digest()).decode()


def _client(access: GoogleClient) -> Any:
    """Google's client, with our session and endpoint."""
    address = access.url(Api.STORAGE)

    def make() -> Any:
        from google.api_core.client_options import ClientOptions
        from google.cloud import storage

        session, credentials = access.session(), access.get_credentials()
        session.hooks["response"].append(_note)
        options = ClientOptions(api_endpoint=address, universe_domain=credentials.universe_domain)
        client = storage.Client(access.project, credentials, _http=session, client_options=options)
        # else it reads each bucket in a thread, for traces (3.17, 2026-11-27)
        client._bucket_metadata_cache = None
        return client

    return access.shared("storage", address, make)


def _note(response: Any, **_: Any) -> None:
    """Keep the headers; refuse an upload's session on another host, to which our token would be sent."""
    where = response.headers.get("Location", "")
    if response.status_code < 300 and where and urlsplit(where)[:2] != urlsplit(response.url)[:2]:
        raise ProviderError("the upload was sent to another host", why=f"Location: {where[:100]}")
    _last_response.headers = response.headers


def _header(name: str) -> datetime | None:
    return moment_of_header(_last_response.headers.get(name))


def _info(blob: Any) -> ObjectInfo:
    seen_at = _header("Date")
    updated = blob.updated  # which is parsed anew at each access
    if blob.generation is None or updated is None or seen_at is None:
        raise _not_storage(f"look at an object of gs://{blob.bucket.name}", b"")
    return ObjectInfo(
        name=blob.name,
        generation=blob.generation,
        size=blob.size or 0,
        md5=blob.md5_hash or "",
        updated=updated,
        created=blob.time_created or updated,
        metadata=blob.metadata or {},
        seen_at=seen_at,
    )


def _not_storage(action: str, content: bytes) -> UnclearError:
    """A proxy may answer with a page of its own; only Cloud Storage names a generation and a date."""
    began = content[:40].decode("utf-8", "replace")
    why = "it names no generation or no time" + (f", and begins {began!r}" if began else "")
    return unlike_google(f"could not {action}: the answer is not Cloud Storage's", why)


@contextmanager
def _storage_errors(action: str, **context: Any) -> Iterator[None]:
    """As `google_errors`, also of exceptions that only the storage client raises."""
    from google.api_core.exceptions import from_http_status
    from google.cloud.storage.exceptions import DataCorruption, InvalidResponse

    try:
        with google_errors(action, **context):
            try:
                yield
            except InvalidResponse as error:  # of a chunk; its text holds the address of the upload
                raise from_http_status(error.response.status_code, "", response=error.response) from None
    except (DataCorruption, ConnectionError) as error:
        what = f"could not {action}: bytes were lost or changed on the way"
        raise UnclearError(what, why=str(error)[:200], fix="try again") from error
    except GputrainError:
        raise
    except (AttributeError, LookupError, TypeError, ValueError) as error:  # it reads any body without care
        why = f"Google's client cannot read it: {type(error).__name__}: {str(error)[:200]}"
        raise unlike_google(f"could not {action}: the answer is not Cloud Storage's", why) from error


class _Limited(io.BytesIO):
    """Takes so many bytes at most."""

    def __init__(self, most_bytes: int) -> None:
        super().__init__()
        self._most_bytes = most_bytes

    def write(self, data: Any) -> int:
        if self.tell() + len(data) > self._most_bytes:
            raise TooLargeError(
                f"an object of more than {self._most_bytes} bytes was not read",
                why="it was due to be smaller",
                fix="look at what is there: it is not what gputrain keeps in such a place",
            )
        return super().write(data)


class _Shown(io.BytesIO):
    """Bytes to upload that report how far they were read."""

    def __init__(self, data: bytes, progress: Progress | None) -> None:
        super().__init__(data)
        self._progress, self._total = progress, len(data)

    def read(self, size: int | None = -1) -> bytes:
        if self._progress is not None and self.tell() < self._total:
            self._progress(self.tell(), self._total)
        return super().read(size)
