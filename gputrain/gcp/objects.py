"""One bucket's objects: read, write where nobody was quicker, remove, list. Nothing else speaks storage.

Times are the service's: an object's age is the ``Date`` of the answer less the object's ``updated``, so no
two machines' clocks are ever compared.
"""

from __future__ import annotations

import base64
import hashlib
import json
import re
import uuid
from collections.abc import Mapping
from datetime import datetime
from typing import TYPE_CHECKING, Any
from urllib.parse import quote

import attrs

from gputrain.errors import TransientError
from gputrain.gcp.api import Access
from gputrain.gcp.endpoints import Api
from gputrain.gcp.errors import MissingError, PreconditionError, unlike_google
from gputrain.gcp.forms import Json, mapping, whole_number
from gputrain.gcp.listing import Listing, Page, page_of
from gputrain.retry import READ, WRITE, Policy
from gputrain.times import moment_of, moment_of_header

if TYPE_CHECKING:
    from gputrain.gcp.wire import Reply


LARGEST_OBJECT = 1 << 30
"""Bytes of an object that are taken into memory."""
_PARTIAL, _BEYOND = 206, 416
"""Statuses of a range: here it is, and: there are no such bytes."""
_FIELDS = "name,generation,size,md5Hash,updated,timeCreated,metadata"
_MD5 = re.compile(r"\bmd5=([A-Za-z0-9+/]{22}==)")
"""Of what is stored; composed objects have none. Source: Google's page on hashes and ETags."""
_WRITTEN_BY = "gputrain-write"
"""Metadata that names the one write that made this generation: by it a lost answer is settled."""


@attrs.frozen(kw_only=True)
class Generation:
    """One writing of an object."""

    generation: int
    updated: datetime
    seen_at: datetime
    """The service's time when it told of it."""

    @property
    def age_s(self) -> float:
        """Seconds since it was last written, by the service's clock alone."""
        return max(0.0, (self.seen_at - self.updated).total_seconds())


@attrs.frozen(kw_only=True)
class StoredInfo(Generation):
    """What Cloud Storage says of an object."""

    name: str
    size: int
    md5: str
    """As Cloud Storage writes it, in base64; empty for composed objects."""
    created: datetime
    metadata: Mapping[str, str]


@attrs.frozen(kw_only=True)
class Stored(Generation):
    """An object that was read."""

    content: bytes = attrs.field(repr=False)


def info_of(body: Mapping[str, Any], seen_at: datetime) -> StoredInfo | None:
    """What is said of an object; None where it cannot be read."""
    generation, size = whole_number(body.get("generation")), whole_number(body.get("size"))
    updated, created = moment_of(body.get("updated")), moment_of(body.get("timeCreated"))
    name = body.get("name")
    if generation is None or size is None or updated is None or created is None or not isinstance(name, str):
        return None
    told = mapping(body.get("metadata")).items()
    return StoredInfo(
        name=name,
        generation=generation,
        size=size,
        md5=str(body.get("md5Hash", "")),
        updated=updated,
        created=created,
        metadata={key: value for key, value in told if isinstance(value, str)},
        seen_at=seen_at,
    )


@attrs.define(eq=False)
class Objects:
    """The objects of one bucket, by their full names."""

    access: Access
    bucket_name: str

    def read(self, name: str, *, most_bytes: int = LARGEST_OBJECT, policy: Policy = READ) -> Stored | None:
        """An object's content; None where there is none.

        Raises:
            TooLargeError: it is larger than ``most_bytes``.
            AccessError, TransientError: as Cloud Storage answers.
        """
        try:
            reply = self.access.reply(
                "GET", self._url(name), action=f"read {self._uri(name)}", policy=policy,
                params={"alt": "media"}, most_bytes=most_bytes, check=self._is_whole,
            )  # fmt: skip
        except MissingError:
            return None
        updated, seen_at = moment_of_header(reply.headers.get("Last-Modified")), self._date(reply)
        generation = int(reply.headers["x-goog-generation"])
        if updated is None:  # sent with media (seen in an answer of 2026-08-13), but on no page of Google's
            info = self.stat(name, policy=policy)
            if info is None or info.generation != generation:
                return self.read(name, most_bytes=most_bytes, policy=policy)  # it has changed in between
            updated = info.updated
        return Stored(content=reply.content, generation=generation, updated=updated, seen_at=seen_at)

    def part(self, name: str, first: int, most_bytes: int, *, policy: Policy = READ) -> bytes:
        """So many bytes of an object from ``first`` on, fewer at its end; none where there is no object.

        Raises:
            AccessError, TransientError: as Cloud Storage answers.
        """
        try:
            reply = self.access.reply(
                "GET", self._url(name), action=f"read {self._uri(name)}", policy=policy,
                params={"alt": "media"}, headers={"Range": f"bytes={first}-{first + most_bytes - 1}"},
                most_bytes=LARGEST_OBJECT, accept=(_BEYOND,), check=self._is_part,
            )  # fmt: skip
        except MissingError:
            return b""
        if reply.status_code == _BEYOND:
            return b""
        from_there = reply.content if reply.status_code == _PARTIAL else reply.content[first:]
        return from_there[:most_bytes]  # whoever is asked for a range may answer with the whole

    def stat(self, name: str, *, policy: Policy = READ) -> StoredInfo | None:
        """What is said of an object; None where there is none."""
        try:
            reply = self.access.reply(
                "GET", self._url(name), action=f"look for {self._uri(name)}", policy=policy,
                params={"fields": _FIELDS}, check=self._info,
            )  # fmt: skip
        except MissingError:
            return None
        return self._info(reply)

    def write(
        self,
        name: str,
        data: bytes,
        *,
        if_generation: int | None,
        content_type: str = "application/octet-stream",
        metadata: Mapping[str, str] | None = None,
    ) -> StoredInfo:
        """Write an object in one request.

        Args:
            if_generation: that of the object that is to be replaced; 0: there must be none; None: whatever
                is there.

        Raises:
            PreconditionError: somebody else was quicker.
            AccessError, TransientError: as Cloud Storage answers.
        """
        mark = uuid.uuid4().hex
        told = {**(metadata or {}), _WRITTEN_BY: mark}
        head = {"name": name, "contentType": content_type, "metadata": told}
        body, boundary = _multipart(head, data, content_type)
        upload = f"{self.access.url(Api.STORAGE)}/upload/storage/v1/b/{self.bucket_name}/o"
        try:
            reply = self.access.reply(
                "POST", upload, action=f"write {self._uri(name)}", policy=WRITE, data=body,
                params={"uploadType": "multipart", "ifGenerationMatch": if_generation, "fields": _FIELDS},
                headers={"Content-Type": f"multipart/related; boundary={boundary}"}, check=self._info,
            )  # fmt: skip
        except (PreconditionError, TransientError):
            # A try whose answer was lost may have written it: the next meets the object itself, or a limit.
            there = self.stat(name)
            if there is not None and there.metadata.get(_WRITTEN_BY) == mark:
                return there
            raise
        return self._info(reply)

    def remove(self, name: str, *, if_generation: int | None = None) -> bool:
        """Remove an object; False where it is another one by now, which stays. Twice is once."""
        try:
            self.access.delete(
                self._url(name), action=f"remove {self._uri(name)}", policy=WRITE,
                params={"ifGenerationMatch": if_generation},
            )  # fmt: skip
        except MissingError:
            return True
        except PreconditionError:
            return False
        return True

    def list(self, prefix: str, *, policy: Policy = READ) -> Listing[StoredInfo]:
        """The objects whose names begin so, by name."""

        def read(reply: Reply, body: Json) -> Page[StoredInfo]:
            page = page_of(body, "items")
            found, seen_at = [], self._date(reply)
            for one in page.items:
                info = info_of(one, seen_at)
                if info is not None:
                    found.append(info)
            unread = ("objects that cannot be read",) if len(found) < len(page.items) else ()
            return Page(items=tuple(found), next_token=page.next_token, left_out=(*page.left_out, *unread))

        return self.access.pages(
            f"{self.access.url(Api.STORAGE)}/storage/v1/b/{self.bucket_name}/o",
            action=f"list {self._uri(prefix)}*", policy=policy, read=read,
            params={"prefix": prefix, "fields": f"items({_FIELDS}),nextPageToken"},
        )  # fmt: skip

    def _is_part(self, reply: Reply) -> None:
        if reply.status_code != _BEYOND:
            self._is_media(reply)

    def _is_whole(self, reply: Reply) -> None:
        """What was cut under way is read again: half an object would be taken for one that says nothing."""
        self._is_media(reply)
        stored = _MD5.search(reply.headers.get("x-goog-hash", ""))
        if stored is None or reply.headers.get("x-goog-stored-content-encoding", "identity") != "identity":
            return
        here = md5_of(reply.content)
        if here != stored[1]:
            what = f"could not read gs://{self.bucket_name}: the answer is not what is stored"
            raise unlike_google(what, f"its MD5 is {here}, and Cloud Storage's {stored[1]}")

    def _is_media(self, reply: Reply) -> None:
        """A page of a proxy's is no object of ours: only Cloud Storage names a generation."""
        generation = reply.headers.get("x-goog-generation", "")
        if not (generation.isascii() and generation.isdigit()):
            what = f"could not read gs://{self.bucket_name}: the answer is not Cloud Storage's"
            raise unlike_google(what, f"it names no generation, and begins {reply.text[:40]!r}")
        self._date(reply)

    def _info(self, reply: Reply) -> StoredInfo:
        found = info_of(_document(reply), self._date(reply))
        if found is None:
            what = f"could not look into gs://{self.bucket_name}: the answer is not what was asked for"
            raise unlike_google(what, f"an object's description was due, {reply.text[:40]!r} came")
        return found

    def _date(self, reply: Reply) -> datetime:
        found = moment_of_header(reply.headers.get("Date"))
        if found is None:
            what = f"could not look into gs://{self.bucket_name}: the answer has no date"
            raise unlike_google(what, "Cloud Storage dates every answer, and times are told by it")
        return found

    def _uri(self, name: str) -> str:
        return f"gs://{self.bucket_name}/{name}"

    def _url(self, name: str) -> str:
        base = self.access.url(Api.STORAGE)
        return f"{base}/storage/v1/b/{self.bucket_name}/o/{quote(name, safe='')}"


def md5_of(data: bytes) -> str:
    """The MD5 as Cloud Storage tells it: a check against damage, not against malice (the sha256 is that)."""
    return base64.b64encode(hashlib.md5(data, usedforsecurity=False).digest()).decode()


def _document(reply: Reply) -> Json:
    try:
        return dict(mapping(reply.json()))
    except (ValueError, RecursionError):
        return {}


def _multipart(head: Mapping[str, Any], data: bytes, content_type: str) -> tuple[bytes, str]:
    """The body of an upload that carries an object's description and its content; and its boundary."""
    boundary = f"gputrain-{uuid.uuid4().hex}"  # by chance, so that no content can hold it
    line = f"--{boundary}".encode()
    described = b"Content-Type: application/json\r\n\r\n" + json.dumps(head).encode()
    content = f"Content-Type: {content_type}\r\n\r\n".encode() + data
    return b"\r\n".join([line, described, line, content, line + b"--", b""]), boundary
