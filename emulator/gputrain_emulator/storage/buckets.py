"""Buckets and what lies in them, thread-safe, without a wire."""

from __future__ import annotations

import threading
from collections.abc import Callable, Mapping
from dataclasses import dataclass, field
from types import MappingProxyType
from typing import Any

from gputrain_emulator.storage import settings
from gputrain_emulator.storage.conditions import Conditions
from gputrain_emulator.storage.content import Content
from gputrain_emulator.storage.refusals import bucket_not_empty, bucket_taken, no_bucket

NOTHING: Mapping[str, Any] = MappingProxyType({})
ANY = Conditions()


@dataclass(frozen=True, kw_only=True)
class Stored:
    """One object; a change makes a new one, so nobody sees half of one."""

    bucket: str
    name: str
    generation: int
    metageneration: int = 1
    content: Content
    fields: Mapping[str, Any]
    """What the writer chose: contentType, metadata, cacheControl, ..."""
    storage_class: str
    created: float
    updated: float
    components: int = 0
    """More than 0 for composed objects."""


@dataclass(kw_only=True)
class Bucket:
    """A bucket and what lies in it; read and changed under the lock of all of them."""

    name: str
    project: str
    project_number: str
    location: str
    created: float
    updated: float
    generation: int
    metageneration: int = 1
    fields: Mapping[str, Any]
    live: dict[str, Stored] = field(default_factory=dict)
    names: list[str] = field(default_factory=list)
    """Sorted; Python's order of str is that of UTF-8."""


class Buckets:
    """Every bucket of the emulated world; `lock` covers what lies in them too.

    Generations are microseconds of the emulator's clock, made strictly increasing, as Google's look.
    """

    def __init__(self, now: Callable[[], float]) -> None:
        self.now = now
        self.lock = threading.RLock()
        self._by_name: dict[str, Bucket] = {}
        self._last = 0

    def add(
        self,
        name: str,
        *,
        project: str,
        project_number: str,
        location: str = "US",
        fields: Mapping[str, Any] = NOTHING,
    ) -> Bucket:
        """Create a bucket; 409 where the name is taken, by whomever."""
        settings.check_name(name)
        placed, chosen = settings.place(location), settings.complete(fields)
        with self.lock:
            taken = self._by_name.get(name)
            if taken is not None:
                raise bucket_taken(ours=taken.project == project)
            now = self.now()
            self._by_name[name] = Bucket(
                name=name,
                project=project,
                project_number=project_number,
                location=placed,
                created=now,
                updated=now,
                generation=self.generation(),
                fields=chosen,
            )
            return self._by_name[name]

    def get(self, name: str) -> Bucket:
        """A bucket; 404 where there is none."""
        found = self._by_name.get(name)
        if found is None:
            raise no_bucket()
        return found

    def all(self) -> tuple[Bucket, ...]:
        """By name."""
        with self.lock:
            return tuple(self._by_name[name] for name in sorted(self._by_name))

    def change(
        self, name: str, fields: Mapping[str, Any], conditions: Conditions = ANY, *, whole: bool = False
    ) -> Bucket:
        """Change settings; None takes one away, `whole` takes away all that are not named."""
        with self.lock:
            bucket = self.get(name)
            conditions.check(bucket.generation, bucket.metageneration)
            merged = dict(fields) if whole else settings.merge(bucket.fields, fields)
            if fields.get("labels") == {}:
                del merged["labels"]  # a patch of no labels takes all of them away
            bucket.fields = settings.complete(merged)
            bucket.metageneration += 1
            bucket.updated = self.now()
            return bucket

    def drop(self, name: str, conditions: Conditions = ANY) -> None:
        """Delete an empty bucket."""
        with self.lock:
            bucket = self.get(name)
            conditions.check(bucket.generation, bucket.metageneration)
            if bucket.live:
                raise bucket_not_empty()
            del self._by_name[name]

    def generation(self) -> int:
        """A new one, for an object or a bucket."""
        self._last = max(self._last + 1, int(self.now() * 1_000_000))
        return self._last
