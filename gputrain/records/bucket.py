"""Records in a bucket, beside the jobs' own objects: whatever runs in a job writes below ``jobs/`` only."""

from __future__ import annotations

import re
import threading

import attrs

from gputrain.gcp import Access, Objects, PreconditionError, StoredInfo
from gputrain.gcp.shared import LONGEST_S
from gputrain.records.board import Entry, Note, dated, overtaken
from gputrain.records.reader import read_record
from gputrain.records.record import LARGEST_BYTES, Record, checked, written
from gputrain.staging.upload import BucketPrefix, check_owner

FOLDER = "records"
NOTES = "notes"


class BucketBoard:
    """One object a job. The clock is Cloud Storage's: two machines' clocks are never compared.

    Before anything is read, the bucket behind the name is proved to be one of our project's: a record of
    somebody else's would have us look at, and delete, what they name.
    """

    def __init__(self, access: Access, bucket: BucketPrefix) -> None:
        self._access = access
        self._bucket = bucket
        self._objects = Objects(access, bucket.name)
        self._lock = threading.Lock()
        self._proved_at = float("-inf")

    @property
    def name(self) -> str:
        """``gs://my-bucket/team/``"""
        return self._bucket.uri("")

    def read(self, job_id: str) -> Record | None:
        """As of `Board`."""
        self._prove()
        stored = self._objects.read(self._name(job_id), most_bytes=LARGEST_BYTES)
        if stored is None:
            return None
        at = stored.updated.timestamp()
        record = read_record(job_id, stored.content)
        return attrs.evolve(
            dated(record, at), generation=stored.generation, written_at=at, age_s=stored.age_s
        )

    def write(self, record: Record) -> Record:
        """As of `Board`."""
        last = record.last
        told = {"backend": last.way.backend, "place": record.place_on(last.way.backend)} if last else {}
        if record.asks and record.asks[0].at:  # each write makes the object anew, and younger
            told["since"] = str(record.asks[0].at)
        try:
            info = self._objects.write(
                self._name(record.job_id), written(record), if_generation=record.generation,
                content_type="application/json", metadata=told,
            )  # fmt: skip
        except PreconditionError as error:
            raise overtaken(record.job_id) from error
        at = info.updated.timestamp()
        return attrs.evolve(dated(record, at), generation=info.generation, written_at=at, age_s=info.age_s)

    def remove(self, record: Record) -> None:
        """As of `Board`."""
        self._objects.remove(self._name(record.job_id), if_generation=record.generation)

    def entries(self, name: str = "") -> tuple[Entry, ...]:
        """As of `Board`."""
        self._prove()
        found = self._objects.list(self._bucket.object_name(FOLDER, name)).seen
        entries = [_entry(one) for one in found if one.name.endswith(".json")]
        return tuple(sorted(entries, key=lambda one: one.written_at, reverse=True))

    def note(self, name: str) -> Note | None:
        """As of `Board`."""
        self._prove()
        stored = self._objects.read(self._noted(name), most_bytes=LARGEST_BYTES)
        return None if stored is None else Note(content=stored.content, generation=stored.generation)

    def keep(self, name: str, content: bytes, generation: int) -> None:
        """As of `Board`."""
        self._prove()
        kind, noted = "application/json", self._noted(name)
        try:
            self._objects.write(noted, checked(name, content), if_generation=generation, content_type=kind)
        except PreconditionError as error:
            raise overtaken(name) from error

    def _noted(self, name: str) -> str:
        return self._bucket.object_name(NOTES, f"{name}.json")

    def _prove(self) -> None:
        # A bucket may be deleted, and its name taken by somebody else, while a watcher lives.
        with self._lock:
            now = self._access.now()
            if not 0 <= now - self._proved_at < LONGEST_S:
                check_owner(self._access, self._bucket)
                self._proved_at = now

    def _name(self, job_id: str) -> str:
        return self._bucket.object_name(FOLDER, f"{job_id}.json")


def _entry(info: StoredInfo) -> Entry:
    return Entry(
        job_id=info.name.rpartition("/")[2].removesuffix(".json"),
        backend=info.metadata.get("backend", ""),
        place=info.metadata.get("place", "unknown"),
        written_at=_since(info.metadata.get("since", "")) or info.created.timestamp(),
    )


def _since(text: str) -> float:
    return float(text) if re.fullmatch(r"\d{1,12}(?:\.\d{1,9})?", text) else 0.0
