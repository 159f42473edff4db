"""Records in a bucket, beside the jobs' own objects: whatever runs in a job writes below ``jobs/`` only."""

from __future__ import annotations

import logging
import re
from collections.abc import Mapping

import attrs

from gputrain.errors import GputrainError
from gputrain.gcp import Access, Listing, Objects, PreconditionError, StoredInfo
from gputrain.gcp.buckets import BucketPrefix, check_owner
from gputrain.gcp.listing import listing_of
from gputrain.gcp.objects import Generation, Stored, md5_of
from gputrain.gcp.shared import LONGEST_S, Shared
from gputrain.records.board import Entry, Note, dated, overtaken
from gputrain.records.form import DamagedRecordError, read_record, written
from gputrain.records.record import LARGEST_BYTES, Code, Record, checked
from gputrain.records.spec import RecordError
from gputrain.threads import new_lock

FOLDER = "records"
NOTES = "notes"
SHORT = "short"
LONGEST_SHORT = 4 << 10
"""An object bears 8 KiB of metadata. Source: Cloud Storage's page of quotas, read 2026-11-23."""

PAGE_COSTS_S = 3.0
"""1,000 records on a page, and a page in each 3 s is 20 calls a minute at most."""

log = logging.getLogger("gputrain")


class BucketBoard:
    """One object a job. The clock is Cloud Storage's: two machines' clocks are never compared.

    Before anything is read, the bucket behind the name is proved to be one of our project's: a record of
    somebody else's would have us look at, and delete, what they name.
    """

    def __init__(self, access: Access, bucket: BucketPrefix) -> None:
        self._access = access
        self._bucket = bucket
        self._objects = Objects(access, bucket.name)
        self._listed: Shared[str, dict[str, StoredInfo]] = Shared(
            fresh_s=_fresh_s, failure_s=LONGEST_S, now=access.now
        )
        self._lock = new_lock()
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
        try:
            record = read_record(job_id, stored.content)
        except DamagedRecordError as error:
            if self._lies_there(job_id, stored):
                raise
            raise RecordError(error.what, why=error.why, fix=error.fix) from error
        return _dated(record, stored)

    def _lies_there(self, job_id: str, seen: Stored) -> bool:
        """Whether this is what is stored, to the last byte: what came another way damages no record."""
        info = self._objects.stat(self._name(job_id))
        return info is not None and info.generation == seen.generation and info.md5 == md5_of(seen.content)

    def glimpse(self, job_id: str) -> Record | None:
        """The latest ask alone of a job that somebody asked for lately, from one list of all records.

        It costs no call of its own. None where a list does not tell: whoever wants to know reads the record.
        """
        self._prove()
        try:
            info = self._listed.get("", self._descriptions).get(self._name(job_id))
            return None if info is None else _dated(read_record(job_id, info.metadata[SHORT].encode()), info)
        except GputrainError as error:  # whoever may not list may read
            log.info("no list tells of the record of %s: %s", job_id, error.what)
            return None

    def _descriptions(self) -> dict[str, StoredInfo]:
        listing = self._objects.list(self._bucket.object_name(FOLDER, ""))
        return {one.name: one for one in listing.seen if SHORT in one.metadata}

    def write(self, record: Record) -> Record:
        """As of `Board`."""
        told = {"backend": record.backend, "place": record.place_on(record.backend)} if record.asks else {}
        if short := _in_short(record):
            told[SHORT] = short
        if record.created_at:  # each write makes the object anew, and younger
            told["since"] = str(record.created_at)
        try:
            info = self._objects.write(
                self._name(record.job_id), written(record), if_generation=record.generation,
                content_type="application/json", metadata=told,
            )  # fmt: skip
        except PreconditionError as error:
            raise overtaken(record.job_id) from error
        return _dated(record, info)

    def remove(self, record: Record) -> None:
        """As of `Board`."""
        self._objects.remove(self._name(record.job_id), if_generation=record.generation)

    def entries(self, name: str = "") -> tuple[Entry, ...]:
        """As of `Board`. Raises PartialListError where some could not be listed."""
        return self.listed(name).whole(f"list the jobs of {self.name}")

    def listed(self, name: str = "") -> Listing[Entry]:
        """The same, as far as they can be listed."""
        self._prove()
        found = self._objects.list(self._bucket.object_name(FOLDER, name))
        entries = [_entry(one) for one in found.seen if one.name.endswith(".json")]
        return listing_of(sorted(entries, key=lambda one: one.written_at, reverse=True), found.left_out)

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


def _dated(record: Record, there: Generation) -> Record:
    at = there.updated.timestamp()
    return attrs.evolve(dated(record, at), generation=there.generation, written_at=at, age_s=there.age_s)


def _in_short(record: Record) -> str:
    """What a look at a living job needs of its record; empty where it needs more.

    It is for the description of its object, which whoever may only list reads as well: nothing that a user
    wrote is in it.
    """
    gangs = [len(one.names) for one in record.asks]
    if not record.is_open or record.over or gangs[-1] < max(gangs):
        return ""
    nothing, latest = Code(location="", argv=()), attrs.evolve(record.latest, image="")
    bare = attrs.evolve(record, spec={}, code=nothing, ways=(), asks=(latest,), settings={})
    told = written(bare).decode()
    return told if len(told) <= LONGEST_SHORT else ""


def _fresh_s(listed: Mapping[str, StoredInfo]) -> float:
    return PAGE_COSTS_S * (1 + len(listed) // 1000)


def _entry(info: StoredInfo) -> Entry:
    return Entry(
        job_id=info.name.rpartition("/")[2].removesuffix(".json"),
        backend=info.metadata.get("backend", ""),
        place=info.metadata.get("place", "unknown"),
        written_at=_since(info.metadata.get("since", "")) or info.created.timestamp(),
    )


def _since(text: str) -> float:
    return float(text) if re.fullmatch(r"\d{1,12}(?:\.\d{1,9})?", text) else 0.0
