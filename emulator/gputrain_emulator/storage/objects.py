"""Buckets and their objects: the state machine behind the JSON API, thread-safe, without a wire.

Generations are microseconds of the emulator's clock, made strictly increasing, as Google's look.
"""

from __future__ import annotations

import re
import threading
from bisect import bisect_left, insort
from collections.abc import Callable, Iterator, Mapping, Sequence
from dataclasses import dataclass, field, replace
from types import MappingProxyType

from gputrain_emulator.errors import ApiError
from gputrain_emulator.storage.conditions import Conditions, invalid, no_bucket, not_found
from gputrain_emulator.storage.content import Content, Folder
from gputrain_emulator.storage.values import NOTHING, Bucket, Stored

MAX_COMPOSE = 32
MAX_NAME_BYTES = 1024

_BUCKET_NAME = re.compile(r"[a-z0-9][a-z0-9._-]{1,220}[a-z0-9]")
_ANY = Conditions()


@dataclass(kw_only=True)
class _Shelf:
    bucket: Bucket
    names: list[str] = field(default_factory=list)  # sorted; Python's order of str is that of UTF-8
    objects: dict[str, Stored] = field(default_factory=dict)


class Objects:
    """Every bucket of the emulated world."""

    def __init__(self, folder: Folder, now: Callable[[], float]) -> None:
        self.folder = folder
        self._now = now
        self._lock = threading.RLock()
        self._shelves: dict[str, _Shelf] = {}
        self._last = 0

    # buckets

    def add_bucket(
        self,
        name: str,
        *,
        project: str,
        project_number: str,
        location: str = "US",
        fields: Mapping[str, object] = NOTHING,
    ) -> Bucket:
        """Create a bucket; 409 where the name is taken, by whomever."""
        if not _BUCKET_NAME.fullmatch(name):
            raise invalid(f"Invalid bucket name: '{name}'")
        with self._lock:
            taken = self._shelves.get(name)
            if taken is not None:
                raise _taken(ours=taken.bucket.project == project)
            bucket = Bucket(
                name=name,
                project=project,
                project_number=project_number,
                location=location.upper(),
                created=self._now(),
                generation=self._generation(),
                fields=fields,
            )
            self._shelves[name] = _Shelf(bucket=bucket)
            return bucket

    def bucket(self, name: str) -> Bucket:
        return self._shelf(name).bucket

    def buckets(self, project: str) -> tuple[Bucket, ...]:
        with self._lock:
            found = [shelf.bucket for shelf in self._shelves.values() if shelf.bucket.project == project]
        return tuple(sorted(found, key=lambda bucket: bucket.name))

    def all_buckets(self) -> tuple[Bucket, ...]:
        with self._lock:
            return tuple(shelf.bucket for shelf in self._shelves.values())

    def patch_bucket(self, name: str, fields: Mapping[str, object], conditions: Conditions) -> Bucket:
        with self._lock:
            shelf = self._shelf(name)
            old = shelf.bucket
            conditions.check(old.generation, old.metageneration)
            merged = _merged(old.fields, fields)
            shelf.bucket = replace(old, fields=merged, metageneration=old.metageneration + 1)
            return shelf.bucket

    def drop_bucket(self, name: str, conditions: Conditions = _ANY) -> None:
        with self._lock:
            shelf = self._shelf(name)
            conditions.check(shelf.bucket.generation, shelf.bucket.metageneration)
            if shelf.names:
                raise ApiError(409, "The bucket you tried to delete is not empty.", reason="conflict")
            del self._shelves[name]

    # objects

    def get(
        self, bucket: str, name: str, *, generation: int | None = None, conditions: Conditions = _ANY
    ) -> Stored:
        """The live object; 404 for any other generation, as without versioning none is kept."""
        with self._lock:
            found = self._shelf(bucket).objects.get(name)
        if found is None or generation not in (None, found.generation):
            raise not_found(bucket, name)
        conditions.check(found.generation, found.metageneration, reading=True)
        return found

    def check_write(self, bucket: str, name: str, conditions: Conditions) -> None:
        """Refuse a write early, as the start of a resumable upload does."""
        _check_name(name)
        with self._lock:
            old = self._shelf(bucket).objects.get(name)
            conditions.check(*(_numbers(old)))

    def put(
        self,
        bucket: str,
        name: str,
        content: Content,
        fields: Mapping[str, object],
        *,
        conditions: Conditions = _ANY,
        components: int = 0,
    ) -> Stored:
        """Write a new generation, if the preconditions hold at this very moment."""
        _check_name(name)
        with self._lock:
            shelf = self._shelf(bucket)
            old = shelf.objects.get(name)
            conditions.check(*_numbers(old))
            now = self._now()
            new = Stored(
                bucket=bucket,
                name=name,
                generation=self._generation(),
                metageneration=1,
                content=content,
                fields=MappingProxyType(dict(fields)),
                created=now,
                updated=now,
                components=components,
            )
            if old is None:
                insort(shelf.names, name)
            shelf.objects[name] = new
        return new

    def patch(
        self,
        bucket: str,
        name: str,
        fields: Mapping[str, object],
        *,
        generation: int | None = None,
        conditions: Conditions = _ANY,
        whole: bool = False,
    ) -> Stored:
        """Change what the writer may choose; None removes a field, `whole` removes all that are not named."""
        with self._lock:
            old = self.get(bucket, name, generation=generation)
            conditions.check(*_numbers(old))
            merged = MappingProxyType(dict(fields)) if whole else _merged(old.fields, fields)
            new = replace(old, fields=merged, metageneration=old.metageneration + 1, updated=self._now())
            self._shelf(bucket).objects[name] = new
            return new

    def delete(
        self, bucket: str, name: str, *, generation: int | None = None, conditions: Conditions = _ANY
    ) -> None:
        with self._lock:
            old = self.get(bucket, name, generation=generation)
            conditions.check(*_numbers(old))
            shelf = self._shelf(bucket)
            del shelf.objects[name]
            del shelf.names[bisect_left(shelf.names, name)]

    def compose(
        self,
        bucket: str,
        name: str,
        sources: Sequence[tuple[str, int | None, Conditions]],
        fields: Mapping[str, object],
        conditions: Conditions = _ANY,
    ) -> Stored:
        """Concatenate up to 32 objects of one bucket into one."""
        if not 1 <= len(sources) <= MAX_COMPOSE:
            count = f"The number of source components provided ({len(sources)})"
            raise invalid(f"{count} is not between 1 and {MAX_COMPOSE}")
        with self._lock:
            draft = self.folder.draft()
            components = 0
            for source, generation, wanted in sources:
                found = self.get(bucket, source, generation=generation)
                wanted.check(*_numbers(found))
                draft.append_all(found.content)
                components += max(1, found.components)
            content = draft.finish(md5="")  # Google has no MD5 of composed objects
            return self.put(bucket, name, content, fields, conditions=conditions, components=components)

    def copy(
        self,
        source: Stored,
        bucket: str,
        name: str,
        fields: Mapping[str, object] | None,
        conditions: Conditions = _ANY,
    ) -> Stored:
        """A copy under another name; fields None keeps the source's."""
        with self._lock:
            draft = self.folder.draft()
            draft.append_all(source.content)
            content = replace(draft.finish(), md5=source.content.md5)
            kept = source.fields if fields is None else fields
            return self.put(bucket, name, content, kept, conditions=conditions, components=source.components)

    def walk(self, bucket: str, start: str = "") -> Iterator[Stored]:
        """The objects from `start` on, in order of their names, as they are at this moment."""
        with self._lock:
            shelf = self._shelf(bucket)
            found = [shelf.objects[name] for name in shelf.names[bisect_left(shelf.names, start) :]]
        return iter(found)

    def _shelf(self, name: str) -> _Shelf:
        with self._lock:
            shelf = self._shelves.get(name)
        if shelf is None:
            raise no_bucket()
        return shelf

    def _generation(self) -> int:
        self._last = max(self._last + 1, int(self._now() * 1_000_000))
        return self._last


def _numbers(stored: Stored | None) -> tuple[int, int]:
    return (0, 0) if stored is None else (stored.generation, stored.metageneration)


def _merged(old: Mapping[str, object], new: Mapping[str, object]) -> Mapping[str, object]:
    """JSON merge patch (RFC 7396), one level of nesting deep, which is what metadata and labels need."""
    merged = dict(old)
    for key, value in new.items():
        before = merged.get(key)
        if value is None:
            merged.pop(key, None)
        elif isinstance(value, Mapping) and isinstance(before, Mapping):
            both = {**before, **value}
            merged[key] = {name: part for name, part in both.items() if part is not None}
        else:
            merged[key] = value
    return MappingProxyType(merged)


def _check_name(name: str) -> None:
    if not name:
        raise ApiError(400, "Required object name is missing.", reason="required")
    if len(name.encode("utf-8", "surrogatepass")) > MAX_NAME_BYTES:
        raise invalid("The maximum object name length is 1024 characters, but got a longer name.")
    if name in (".", "..") or "\n" in name or "\r" in name or name.startswith(".well-known/acme-challenge/"):
        raise invalid("Invalid object name.")


def _taken(*, ours: bool) -> ApiError:
    if ours:
        message = "Your previous request to create the named bucket succeeded and you already own it."
    else:
        message = (
            "The requested bucket name is not available. The bucket namespace is shared by all users of "
            "the system. Please select a different name and try again."
        )
    return ApiError(409, message, reason="conflict")
