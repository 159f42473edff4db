"""Names of jobs, and where documents are kept: every change is a compare-and-swap on what was read."""

from __future__ import annotations

import abc
import os
from collections.abc import Mapping, Sequence
from urllib.parse import quote, unquote

import attrs

from gputrain.concurrency import gather
from gputrain.errors import FieldError, GputrainError, SpecError, TransientError
from gputrain.fields import short_repr
from gputrain.google import GoogleClient, PreconditionError
from gputrain.google.storage import BucketPrefix, ObjectInfo, Objects, check_bucket
from gputrain.jobstore.record import JobRecord, from_json, to_json

_SCHEME, _HERE = "gputrain://", "local"
RECORDS = "records"
LARGEST_BYTES = 32 << 20
"""Of a document; a larger one is not read."""
PROVED_FOR_S = 300.0
"""A bucket may be deleted, and its name be taken by somebody else, while a watcher lives."""
FEW = 4
"""So many records are read one by one; of more a list tells which have changed."""


class Conflict(TransientError):  # the field's word
    """Somebody else has changed the document since it was read: read it again."""

    kind = "conflict"

    @classmethod
    def over(cls, name: str) -> Conflict:
        """The error for a document that is not what was read."""
        return cls(f"{name} was changed by another process meanwhile", fix="read it again, and try again")


@attrs.frozen(kw_only=True)
class JobRef:
    """The name of one job.

    >>> JobRef.parse("gputrain://my-project/my-bucket/team/bert-x1y2")
    JobRef(project='my-project', home='my-bucket/team', name='bert-x1y2')
    """

    project: str
    """Of the bucket; empty for a folder of this machine."""
    home: str
    """The bucket, with its prefix; or the folder, empty for the usual one."""
    name: str
    """The job's id."""

    @property
    def uri(self) -> str:
        """The name as one string that any process can attach to."""
        home = quote(self.home, safe="/" if self.project else "")
        parts = (quote(self.project or _HERE, safe=":"), *filter(None, [home]), quote(self.name, safe=""))
        return _SCHEME + "/".join(parts)

    @classmethod
    def parse(cls, uri: str) -> JobRef:
        """Read a ``gputrain://`` name.

        Raises:
            SpecError: it has not the form ``gputrain://PROJECT/BUCKET/NAME``, or for a job of this machine
                ``gputrain://local/NAME``.
        """
        is_name = isinstance(uri, str) and uri.startswith(_SCHEME)
        parts = [unquote(part) for part in uri.removeprefix(_SCHEME).split("/")] if is_name else []
        is_here = parts[:1] == [_HERE]
        if not all(parts) or not (len(parts) in (2, 3) if is_here else len(parts) > 2):
            form = "gputrain://PROJECT/BUCKET/NAME or gputrain://local/NAME"
            fix = "trainer.jobs() lists those there are"
            fault = FieldError(field="uri", value=short_repr(uri), expected=form, fix=fix)
            raise SpecError(f"{fault.value} names no job", why=f"it must be {form}", fix=fix, faults=(fault,))
        return cls(project="" if is_here else parts[0], home="/".join(parts[1:-1]), name=parts[-1])

    def __str__(self) -> str:
        return self.uri


@attrs.frozen(kw_only=True)
class Version:
    """One version of a document, without its content."""

    name: str
    version: int
    """0 where there is no such document."""
    created_at: float = 0.0
    """When the document was first written, in seconds since 1970 by the store's clock."""
    age_s: float = 0.0
    """Since it was last written, by the same clock."""
    metadata: Mapping[str, str] = attrs.field(factory=dict)


@attrs.frozen(kw_only=True)
class Document(Version):
    """A document that was read."""

    content: bytes = attrs.field(repr=False)


class DocumentStore(abc.ABC):
    """Keeps documents by name, such as ``records/bert.json``."""

    @property
    @abc.abstractmethod
    def uri(self) -> str:
        """``gs://my-bucket/team/`` or ``file:///home/me/.local/state/gputrain/``."""

    @abc.abstractmethod
    def ref(self, job_id: str) -> JobRef:
        """The name of a job whose record lies here."""

    @abc.abstractmethod
    def read(self, name: str) -> Document | None:
        """The document as it is now; None where there is none."""

    @abc.abstractmethod
    def swap(
        self, name: str, content: bytes, version: int, metadata: Mapping[str, str] | None = None
    ) -> Version:
        """Write a document over the version that was read, 0 for none; the new version.

        Raises:
            Conflict: it is another version by now.
        """

    @abc.abstractmethod
    def list(self, prefix: str) -> tuple[Version, ...]:
        """The documents whose names begin so, by name."""


@attrs.define(eq=False)
class BucketStore(DocumentStore):
    """One object a document. Before anything is read the bucket is proved to be of the client's project."""

    access: GoogleClient
    bucket: BucketPrefix
    _proved_at: float = attrs.field(default=float("-inf"), init=False)

    @property
    def uri(self) -> str:
        return self.bucket.uri("")

    def ref(self, job_id: str) -> JobRef:
        home = self.bucket.uri("").removeprefix("gs://").rstrip("/")
        return JobRef(project=self.access.project, home=home, name=job_id)

    def read(self, name: str) -> Document | None:
        found = self._objects.read(self.bucket.object_name(name), most_bytes=LARGEST_BYTES)
        if found is None:
            return None
        return Document(name=name, version=found.generation, age_s=found.age_s, content=found.content)

    def swap(
        self, name: str, content: bytes, version: int, metadata: Mapping[str, str] | None = None
    ) -> Version:
        try:
            written = self._objects.write(
                self.bucket.object_name(name), content, if_generation=version,
                content_type="application/json", metadata=metadata,
            )  # fmt: skip
        except PreconditionError as error:
            raise Conflict.over(name) from error
        return self._version(written)

    def list(self, prefix: str) -> tuple[Version, ...]:
        return tuple(self._version(one) for one in self._objects.list(self.bucket.object_name(prefix)))

    @property
    def _objects(self) -> Objects:
        if not 0 <= self.access.now() - self._proved_at < PROVED_FOR_S:
            check_bucket(self.access, self.bucket)
            self._proved_at = self.access.now()
        return Objects(self.access, self.bucket.name)

    def _version(self, info: ObjectInfo) -> Version:
        return Version(
            name=info.name.removeprefix(self.bucket.prefix), version=info.generation, age_s=info.age_s,
            created_at=info.created.timestamp(), metadata=info.metadata,
        )  # fmt: skip


@attrs.frozen(kw_only=True)
class Stored:
    """A record, and the version of its document."""

    record: JobRecord
    version: int
    age_s: float
    """Since it was written, by its store's clock."""


@attrs.define(eq=False)
class JobStore:
    """The records of a document store."""

    documents: DocumentStore
    _known: dict[str, Stored] = attrs.field(factory=dict, init=False, repr=False)
    """The latest that was read of each job that is looked at with many."""

    def read(self, job_id: str) -> Stored | None:
        """The record of a job; None where there is none. Raises RecordError where it is none."""
        found = self.documents.read(_name(job_id))
        if found is None:
            return None
        return Stored(record=from_json(job_id, found.content), version=found.version, age_s=found.age_s)

    def read_many(self, job_ids: Sequence[str]) -> dict[str, Stored | GputrainError]:
        """The records of these jobs, by id; of many, only those that have changed since the last call.

        A job without a record is left out, and one that cannot be read is there with the error.
        """
        if len(job_ids) > FEW:
            listed = self.list(os.path.commonprefix(list(job_ids)))  # noqa: RUF071  # letters are meant
            kept = {
                job_id: attrs.evolve(self._known[job_id], age_s=listed[job_id].age_s)
                for job_id in job_ids
                if job_id in listed and job_id in self._known
                and self._known[job_id].version == listed[job_id].version
            }  # fmt: skip
            job_ids = [one for one in job_ids if one in listed and one not in kept]
        else:
            kept = {}
        found = zip(job_ids, gather(self._read_or_error, job_ids))
        read = {job_id: one for job_id, one in found if one is not None}
        self._known.update({job_id: one for job_id, one in read.items() if isinstance(one, Stored)})
        return {**kept, **read}

    def _read_or_error(self, job_id: str) -> Stored | GputrainError | None:
        try:
            return self.read(job_id)
        except GputrainError as error:
            return error

    def swap(self, record: JobRecord, version: int) -> Stored:
        """Write a record over the version that was read, 0 for none. Raises Conflict."""
        written = self.documents.swap(_name(record.job_id), to_json(record), version, record.metadata)
        return Stored(record=record, version=written.version, age_s=written.age_s)

    def list(self, name: str = "") -> dict[str, Version]:
        """The versions and metadata of all records whose job's id begins so, by job id."""
        found = self.documents.list(_name(name).removesuffix(".json"))
        return {one.name.rpartition("/")[2].removesuffix(".json"): one for one in found}


def _name(job_id: str) -> str:
    return f"{RECORDS}/{job_id}.json"
