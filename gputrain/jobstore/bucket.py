"""Documents in a bucket of one's own. The clock is Cloud Storage's."""

from __future__ import annotations

from collections.abc import Mapping

import attrs

from gputrain.google import GoogleClient, PreconditionError
from gputrain.google.storage import BucketPrefix, ObjectInfo, Objects, check_owner
from gputrain.jobstore.store import LARGEST_BYTES, Document, DocumentStore, JobRef, Version, conflict

PROVED_FOR_S = 300.0
"""A bucket may be deleted, and its name be taken by somebody else, while a watcher lives."""


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
            raise conflict(name) from error
        return self._version(written)

    def delete(self, name: str, version: int) -> bool:
        return self._objects.delete(self.bucket.object_name(name), if_generation=version)

    def list(self, prefix: str) -> tuple[Version, ...]:
        return tuple(self._version(one) for one in self._objects.list(self.bucket.object_name(prefix)))

    @property
    def _objects(self) -> Objects:
        if not 0 <= self.access.now() - self._proved_at < PROVED_FOR_S:
            check_owner(self.access, self.bucket)
            self._proved_at = self.access.now()
        return Objects(self.access, self.bucket.name)

    def _version(self, info: ObjectInfo) -> Version:
        return Version(
            name=info.name.removeprefix(self.bucket.prefix), version=info.generation, age_s=info.age_s,
            created_at=info.created.timestamp(), metadata=info.metadata,
        )  # fmt: skip
