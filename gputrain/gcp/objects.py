"""One bucket's objects: read, write where nobody was quicker, remove, list. Nothing else speaks storage.

Times are the service's: an object's age is the ``Date`` of the answer less the object's ``updated``, so no
two machines' clocks are ever compared.
"""

from __future__ import annotations

import json
import uuid
from collections.abc import Mapping
from datetime import datetime
from typing import TYPE_CHECKING, Any
from urllib.parse import quote

import attrs

from gputrain.gcp.api import Access
from gputrain.gcp.documents import Json
from gputrain.gcp.endpoints import Api
from gputrain.gcp.errors import MissingError, PreconditionError, UnclearError
from gputrain.gcp.forms import mapping
from gputrain.gcp.listing import Listing, Page, page_of
from gputrain.gcp.stored import DamagedError, Document, Stored, StoredInfo, info_of
from gputrain.retry import READ, WRITE, Policy
from gputrain.times import moment_of_header

if TYPE_CHECKING:
    from gputrain.gcp.wire import Reply

LARGEST_OBJECT = 1 << 30
"""Bytes of an object that are taken into memory; a whole log is the largest that is asked for."""
LARGEST_DOCUMENT = 4 << 20
"""Bytes of an object that is read as JSON: what we write ourselves has a few thousand."""

_FIELDS = "name,generation,size,md5Hash,updated,timeCreated,metadata"
_WRITTEN_BY = "gputrain-write"
"""Metadata that names the one write that made this generation: by it a lost answer is settled."""


@attrs.frozen
class Objects:
    """The objects of one bucket, by their full names."""

    access: Access
    bucket_name: str

    def read(self, name: str, *, most_bytes: int = LARGEST_OBJECT, policy: Policy = READ) -> Stored | None:
        """An object's content; None where there is none.

        Raises:
            ProviderError: it is larger than ``most_bytes``.
            AccessError, TransientError: as Cloud Storage answers.
        """
        try:
            reply = self.access.reply(
                "GET", self._url(name), action=f"read {self._uri(name)}", policy=policy,
                params={"alt": "media"}, most_bytes=most_bytes, check=self._is_media,
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

    def read_json(self, name: str, *, policy: Policy = READ) -> Document | None:
        """The JSON object that an object holds; None where there is no such object.

        Raises:
            DamagedError: it holds anything else.
            AccessError, TransientError: as Cloud Storage answers.
        """
        stored = self.read(name, most_bytes=LARGEST_DOCUMENT, policy=policy)
        if stored is None:
            return None
        try:
            fields = json.loads(stored.content)
        except (ValueError, RecursionError) as error:
            raise self._damaged(name, f"it is no JSON: {str(error)[:100]}") from error
        if not isinstance(fields, dict):
            raise self._damaged(name, f"a JSON object was due, {type(fields).__name__} is there")
        return Document(
            fields=fields, generation=stored.generation, updated=stored.updated, age_s=stored.age_s
        )

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
        try:
            reply = self.access.reply(
                "POST", self._upload_url, action=f"write {self._uri(name)}", policy=WRITE, data=body,
                params={"uploadType": "multipart", "ifGenerationMatch": if_generation, "fields": _FIELDS},
                headers={"Content-Type": f"multipart/related; boundary={boundary}"}, check=self._info,
            )  # fmt: skip
        except (PreconditionError, UnclearError):
            # A try whose answer was lost may have written it; the next one then meets the object itself.
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

    def _is_media(self, reply: Reply) -> None:
        """A page of a proxy's is no object of ours: only Cloud Storage names a generation."""
        generation = reply.headers.get("x-goog-generation", "")
        if not (generation.isascii() and generation.isdigit()):
            raise UnclearError(
                f"could not read gs://{self.bucket_name}: the answer is not Cloud Storage's",
                why=f"it names no generation, and begins {reply.text[:40]!r}",
                fix="check what stands between this machine and Google: a proxy may answer for it",
            )
        self._date(reply)

    def _info(self, reply: Reply) -> StoredInfo:
        found = info_of(_document(reply), self._date(reply))
        if found is None:
            raise UnclearError(
                f"could not look into gs://{self.bucket_name}: the answer is not what was asked for",
                why=f"an object's description was due, {reply.text[:40]!r} came",
                fix="check what stands between this machine and Google: a proxy may answer for it",
            )
        return found

    def _date(self, reply: Reply) -> datetime:
        found = moment_of_header(reply.headers.get("Date"))
        if found is None:
            raise UnclearError(
                f"could not look into gs://{self.bucket_name}: the answer has no date",
                why="Cloud Storage dates every answer, and times are told by it",
                fix="check what stands between this machine and Google: a proxy may answer for it",
            )
        return found

    def _damaged(self, name: str, why: str) -> DamagedError:
        return DamagedError(
            f"{self._uri(name)} does not hold what it should",
            why=why,
            fix=f"look at it: gcloud storage cat {self._uri(name)}; who else writes to this bucket?",
        )

    def _uri(self, name: str) -> str:
        return f"gs://{self.bucket_name}/{name}"

    def _url(self, name: str) -> str:
        base = self.access.url(Api.STORAGE)
        return f"{base}/storage/v1/b/{self.bucket_name}/o/{quote(name, safe='')}"

    @property
    def _upload_url(self) -> str:
        return f"{self.access.url(Api.STORAGE)}/upload/storage/v1/b/{self.bucket_name}/o"


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
